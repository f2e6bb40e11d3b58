"""Questions made of natural text itself: gaps over spans that recur, sentences to be gone on with.

Recurring span selection is by Ram et al. 2021 (arXiv:2101.00438): a span that stands in several
sentences is asked for by one of them, which is taken out of the document.
"""

import re
from random import Random

from training.data.facts import Chunk, Needle, Question
from training.data.phrasing import StyleConfig, choose
from training.data.templates import expand, template_list

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“])")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+(?: [A-Z][a-z]+)*|\b\d{3,}\b")
_WORD = re.compile(r"\b[a-z]{8,}\b")
_SHORTEST, _LONGEST = 40, 260


def make_cloze(text: str, rng: Random, style: StyleConfig) -> Needle:
    """Keep most sentences of a text and ask for what recurs in the others."""
    sentences = _SENTENCE.split(" ".join(text.split()))
    removed: set[int] = set()
    needed: set[int] = set()
    questions: list[Question] = []
    for place in rng.sample(range(len(sentences)), len(sentences)):
        sentence = sentences[place]
        if place in needed or not _SHORTEST < len(sentence) < _LONGEST:
            continue
        if len(questions) > len(sentences) // 4:
            break
        found = _recurring(sentence, place, sentences, removed, rng)
        if found:
            span, other = found
            removed.add(place)
            needed.add(other)
            gapped = sentence.replace(span, "___")
            pattern = choose(template_list("needles", "gap questions"), rng, style)
            questions.append(Question(expand(pattern, rng, {"S": gapped}), span, "gap"))
    kept = [sentence for place, sentence in enumerate(sentences) if place not in removed]
    questions += _quotations(kept, rng, style)
    return Needle((Chunk(" ".join(kept), is_block=True),), tuple(questions))


def _recurring(
    sentence: str, place: int, sentences: list[str], removed: set[int], rng: Random
) -> tuple[str, int] | None:
    """A span of the sentence and another sentence that stays in the text and holds it, too."""
    spans = _NAME.findall(sentence) or _WORD.findall(sentence)
    for span in rng.sample(spans, len(spans)):
        whole = re.compile(rf"\b{re.escape(span)}\b")
        for other, text in enumerate(sentences):
            if other != place and other not in removed and whole.search(text):
                return span, other
    return None


def _quotations(sentences: list[str], rng: Random, style: StyleConfig) -> list[Question]:
    text, found = " ".join(sentences), []
    for sentence in rng.sample(sentences, min(len(sentences), 1 + len(sentences) // 8)):
        words = sentence.split(" ")
        if not 9 <= len(words) <= 45:
            continue
        cut = rng.randint(4, 7)
        begun, rest = " ".join(words[:cut]), " ".join(words[cut:])
        if text.count(begun) == 1:
            pattern = choose(template_list("needles", "quotation questions"), rng, style)
            found.append(Question(expand(pattern, rng, {"S": begun}), rest, "quotation"))
    return found
