"""Small tokenizers of the kinds that models have, trained in a moment on the demo's handbook."""

from functools import cache
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from reader import HANDBOOK, WEIGHTS

GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def _byte_level() -> Tokenizer:
    """As GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def _three_digits() -> Tokenizer:
    """As those of Llama 3 and of Qwen, which normalises."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(GPT4), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return tokenizer


def _several_splits() -> Tokenizer:
    """As DeepSeek's: each pre-tokenizer divides what the one before it has left."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
            pre_tokenizers.Split(Regex("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), "isolated"),
            pre_tokenizers.Split(Regex(GPT4), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return tokenizer


def _without_words() -> Tokenizer:
    """As Llama 2's: the whole text is one word of BPE."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    return tokenizer


def _unigram() -> Tokenizer:
    """As T5's."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def _word_piece() -> Tokenizer:
    """As BERT's, which leaves blanks out."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


KINDS = {
    "byte_level": (_byte_level, trainers.BpeTrainer),
    "three_digits": (_three_digits, trainers.BpeTrainer),
    "several_splits": (_several_splits, trainers.BpeTrainer),
    "without_words": (_without_words, trainers.BpeTrainer),
    "unigram": (_unigram, trainers.UnigramTrainer),
    "word_piece": (_word_piece, trainers.WordPieceTrainer),
}
NAMES = ("reader", *KINDS)


@cache
def small_tokenizer(name: str) -> Any:
    """Return a tokenizer; the reader's own is called "reader"."""
    if name == "reader":
        return AutoTokenizer.from_pretrained(WEIGHTS)
    make, trainer = KINDS[name]
    tokenizer = make()
    special = ["<unk>", *(BYTES if name == "without_words" else ())]
    alphabet = {} if name in ("unigram", "word_piece") else {
        "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()
    }  # fmt: skip
    if name == "without_words":  # words are needed to train quickly, not to tokenize
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
        alphabet = {}
    more = {"unk_token": "<unk>"} if name == "unigram" else {}
    text = (HANDBOOK / "handbook.md").read_text()
    tokenizer.train_from_iterator(
        [text],
        trainer(
            vocab_size=1200, special_tokens=special, show_progress=False, **alphabet, **more
        ),
    )  # fmt: skip
    if name == "without_words":
        tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken("    ", normalized=False)] if name == "three_digits" else [])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")
