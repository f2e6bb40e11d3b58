"""Quote mode: answers that consist of passages of the document, whatever the model would write."""

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from common.errors import EngineFault, InvalidInput
from engine.config import DecodeConfig
from engine.decode.answer import Answer, TextDelta
from engine.decode.quotable_text import QuotableText
from engine.decode.quote_decoder import QuoteCandidates, QuoteDecoder
from engine.decode.sampling import Sampling
from engine.decode.token_trie import TokenTrie
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.empty_document import empty_document
from engine.model.loader import LoadedModel
from engine.model.token_bytes import token_bytes
from tests.models import FAMILIES, byte_tokenizer, loaded, read

CPU = torch.device("cpu")
REFUSAL = "The document does not say."
TEXT = (
    "Mira sold 3.5 maps, a compass and 1,200 stamps to Jonas Weber.\nThe gate  closes\nat 18:40; "
    "the café opens at 7.\n\nMira paid €27.50. 地図は店で売られた。 Jonas Weber left.\n"
)
END = 900


def sentence_piece() -> PreTrainedTokenizerFast:
    """A tokenizer in SentencePiece's manner, with tokens for bytes that it has no token for."""
    words = [word for word in TEXT.replace("\n", " ").split(" ") if word.isascii() and word]
    pieces = {f"\u2581{word}" for word in words} | set("\u2581abcdefghijklmnopqrstuvwxyzMJWT.,:;")
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *sorted(pieces)]
    model = models.BPE({one: at for at, one in enumerate(tokens)}, [], byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def merged_bytes() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer whose tokens span words, and parts of characters."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = (
        " The gate",
        " gate",
        "Mira sold",
        ", a",
        " at",
        "  ",
        "\n\n",
        " 3",
        ".",
        " €",
        "Weber.",
    )
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    spelt = [level.pre_tokenize_str(piece)[0][0] for piece in pieces]
    half = level.pre_tokenize_str("地")[0][0][:2]
    tokens = [*alphabet, *spelt, half]
    vocabulary = {one: at for at, one in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = level, decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


TOKENIZERS = {"bytes": byte_tokenizer, "merged": merged_bytes, "pieces": sentence_piece}


@pytest.fixture(scope="module", params=list(TOKENIZERS))
def source(request: pytest.FixtureRequest) -> QuotableText:
    return QuotableText(TEXT, TokenTrie(token_bytes(TOKENIZERS[request.param]())))


def decoder_of(source: QuotableText) -> QuoteDecoder:
    return QuoteDecoder(source, REFUSAL, (END,), CPU)


def spell(source: QuotableText, text: str) -> Iterator[int]:
    """Tokens for a text, the longest that fit one after the other."""
    left, known = text.encode(), source.trie.written
    while left:
        best = max(range(len(known)), key=lambda at: len(known[at]) * left.startswith(known[at]))
        yield best
        left = left[len(known[best]) :]


def write(source: QuotableText, text: str) -> QuoteDecoder:
    """Write a text, each of whose tokens must be allowed."""
    decoder = decoder_of(source)
    pieces = []
    for token in spell(source, text):
        assert token in decoder.allowed_tokens(), (decoder.text, source.trie.written[token])
        pieces.append(decoder.push(token))
    assert "".join(pieces) == decoder.text
    return decoder


def is_done(decoder: QuoteDecoder) -> bool:
    return END in decoder.allowed_tokens()


def texts(decoder: QuoteDecoder) -> list[set[str]]:
    """By quote, what stands in the document at its places."""
    return [
        {decoder.source.slice(*span) for span in quote.spans}
        for quote in decoder.quotes(decoder.text)
    ]


@pytest.mark.parametrize("quote", ["Jonas Weber", "18:40", "€27.50", "café", "地図", "3.5 maps"])
@pytest.mark.parametrize("space", ["", " "])
def test_a_passage_can_be_quoted_with_and_without_a_space_before_it(
    source: QuotableText, quote: str, space: str
) -> None:
    decoder = write(source, space + quote)
    assert is_done(decoder)
    assert decoder.text == quote
    assert texts(decoder) == [{quote}]


@pytest.mark.parametrize(
    ("written", "there"),
    [("the gate", "The gate"), ("Stamps", "stamps"), ("maps, jonas Weber", "maps, Jonas Weber")],
)
def test_a_quote_has_the_documents_case_however_its_first_letter_was_written(
    source: QuotableText, written: str, there: str
) -> None:
    decoder = write(source, written)
    assert is_done(decoder)
    shown = decoder.text
    assert shown + decoder.flush() == decoder.text == there
    for quote in decoder.quotes(decoder.text):
        part = decoder.text[quote.answer_start : quote.answer_end]
        assert {" ".join(TEXT[slice(*span)].split()) for span in quote.spans} == {part}


def test_all_places_of_a_quote_are_found_until_it_goes_on(source: QuotableText) -> None:
    (twice,) = write(source, "Jonas Weber").quotes("Jonas Weber")
    assert [TEXT[slice(*span)] for span in twice.spans] == ["Jonas Weber"] * 2
    (once,) = write(source, "Jonas Weber left").quotes("Jonas Weber left")
    assert len(once.spans) == 1


def test_white_space_of_any_kind_is_quoted_as_one_space(source: QuotableText) -> None:
    decoder = write(source, "The gate closes at 18:40")
    assert texts(decoder) == [{"The gate  closes\nat 18:40"}]


@pytest.mark.parametrize("begun", ["Jonas Web", "3", "1", "1,2", "18:4", "caf"])
def test_words_and_numbers_are_not_cut(source: QuotableText, begun: str) -> None:
    assert not is_done(write(source, begun))


@pytest.mark.parametrize("text", ["eber", "5 maps", "200 stamps", "ira"])
def test_no_quote_begins_within_a_word_or_number(source: QuotableText, text: str) -> None:
    with pytest.raises(AssertionError):
        write(source, text)


def test_quotes_are_joined_and_told_apart_from_commas_of_the_document(source: QuotableText) -> None:
    joined = write(source, "Jonas Weber, stamps and 18:40")
    assert texts(joined) == [{"Jonas Weber"}, {"stamps"}, {"18:40"}]
    first, *_ = joined.quotes(joined.text)
    assert (first.answer_start, first.answer_end) == (0, 11)
    assert texts(write(source, "maps, a compass and 1,200 stamps")) == [
        {"maps, a compass and 1,200 stamps"}
    ]


def test_the_refusal_is_written_whole_or_not_at_all(source: QuotableText) -> None:
    half = write(source, " The document does")
    assert not is_done(half)
    whole = write(source, REFUSAL)
    assert list(whole.allowed_tokens()) == [END]
    assert whole.quotes(whole.text) == ()


def test_a_token_that_may_not_come_is_a_fault(source: QuotableText) -> None:
    with pytest.raises(EngineFault):
        write(source, "Jonas Weber").push(next(spell(source, "z")))


def test_a_stop_string_cuts_the_last_quote(source: QuotableText) -> None:
    decoder = write(source, "The gate closes at 18:40")
    (cut,) = decoder.quotes("The gate")
    assert cut == QuoteCandidates(0, 8, ((TEXT.index("The"), TEXT.index("The") + 8),))
    assert TEXT[slice(*cut.spans[0])] == "The gate"


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_drawn_stands_in_the_document(source: QuotableText, seed: int) -> None:
    draw = random.Random(seed)
    decoder = decoder_of(source)
    for _ in range(60):
        token = int(draw.choice(decoder.allowed_tokens().tolist()))
        if token == END:
            break
        decoder.push(token)
    decoder.flush()
    for quote in decoder.quotes(decoder.text):
        shown = decoder.text[quote.answer_start : quote.answer_end]
        for start, end in quote.spans:
            assert " ".join(TEXT[start:end].split()) == shown


def test_a_mask_is_what_is_allowed(source: QuotableText) -> None:
    decoder = decoder_of(source)
    found = decoder.allowed().nonzero()[:, 0].tolist()
    assert found == sorted(set(decoder.allowed_tokens().tolist()))


def test_few_places_are_walked_as_many_are(
    source: QuotableText, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(5)
    data, trie = source.data, source.trie
    last = len(data) - trie.depth - 1
    inner = trie.walk(data, draw.integers(0, last, 40))
    for count in (0, 1, 2, 8):
        places = draw.integers(0, last, count)
        for start in (0, draw.choice(inner, count)):
            few = trie.walk(data, places, start)
            with monkeypatch.context() as patch:
                patch.setattr("engine.decode.token_trie.FEW_PLACES", -1)
                assert np.array_equal(few, trie.walk(data, places, start))
            assert few.dtype == np.int64


def test_tokens_that_lead_on_from_a_node_are_found_at_once() -> None:
    trie = TokenTrie([b"ab", b"abc", b"", b"b", b"ab", b"  x"])
    text = np.frombuffer(b"abcb" + b"\xff" * 4, dtype=np.uint8)
    found = trie.tokens(trie.walk(text, np.array([0, 3])))
    assert sorted(found.tolist()) == [0, 1, 3, 4]
    assert trie.written[5] == b" x"


# -- answers -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, TEXT)


def ask(engine: Engine, document: DocumentCache, **sampling: object) -> tuple[list[str], Answer]:
    how = Sampling(**{"max_tokens": 24, "mode": "quote", **sampling})  # type: ignore[arg-type]
    *deltas, last = engine.answer(document, "Who?", budget=1.0, sampling=how)
    assert isinstance(last, Answer)
    return [one.text for one in deltas if isinstance(one, TextDelta)], last


def check(answer: Answer) -> None:
    """Every quote stands where it is said to, and they are the answer but for its joints."""
    assert answer.quotes is not None
    for quote in answer.quotes:
        assert TEXT[quote.start_char : quote.end_char] == quote.text
        shown = answer.text[quote.answer_start : quote.answer_end]
        assert shown == " ".join(quote.text.split())
    if not answer.refused:
        assert answer.quotes or REFUSAL.startswith(answer.text)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_model_that_knows_nothing_still_quotes(
    model: LoadedModel, document: DocumentCache, temperature: float
) -> None:
    with Engine(model) as engine:
        for seed in range(4):
            pieces, found = ask(engine, document, temperature=temperature, seed=seed)
            assert "".join(pieces) == found.text != ""
            check(found)


def test_a_quoting_answer_leaves_its_neighbours_alone(
    model: LoadedModel, document: DocumentCache
) -> None:
    free, quoting = Sampling(max_tokens=8, ignore_eos=True), Sampling(max_tokens=8, mode="quote")
    with Engine(model) as engine:
        alone = together(engine, document, [free])
        assert together(engine, document, [free, quoting, free])[::2] == alone * 2
        assert (
            together(engine, document, [free, quoting])[1]
            == together(engine, document, [quoting])[0]
        )


def together(engine: Engine, document: DocumentCache, how: Sequence[Sampling]) -> list[list[int]]:
    """The tokens of answers that are taken in the same passes."""
    rows = [engine.start(document, "Who?", budget=1.0, sampling=one) for one in how]
    while left := [row for row in rows if not row.is_finished]:
        engine.step(left)
    for row in rows:
        engine.finish(row)
    return [row.answer for row in rows]


def test_the_sentence_of_a_refusal_is_a_setting(
    model: LoadedModel, document: DocumentCache
) -> None:
    with Engine(model, DecodeConfig(refusal="Nichts.")) as engine:
        running = engine.start(document, "Who?", budget=1.0, sampling=Sampling(mode="quote"))
        while not running.is_finished:
            token = running.allowed_tokens()
            engine.step([running])
            assert token is not None
        engine.finish(running)


def test_without_a_document_there_is_nothing_to_quote(model: LoadedModel) -> None:
    with Engine(model) as engine, pytest.raises(InvalidInput, match="nothing to quote"):
        engine.prepare(empty_document(model), "Who?", budget=1.0, sampling=Sampling(mode="quote"))
