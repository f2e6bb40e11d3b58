"""The lexical score of passages: BM25 over the words that a question shares with them."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from common.passages import DocumentStructure
from common.sentences import word_spans

SATURATION = 1.2  # k1: how soon further occurrences of a word count less
LENGTH_SHARE = 0.75  # b: how much long texts are held against
SENTENCE_LENGTH_SHARE = 0.5  # b of passages, which are short anyway
BLOCK_SHARE = 0.3  # of the score of a passage's block, which names what its sentences call "it"
_ENDINGS = ("ingly", "edly", "ing", "ied", "ies", "ed", "es", "s", "ly")
_SHORTEST_STEM = 3


class LexicalIndex:
    """The words of texts, to be scored for questions by plain BM25.

    Args:
        texts: the words of each, in any order.
        length_share: how much long texts are held against, b.
    """

    def __init__(
        self, texts: Iterable[Sequence[str]], *, length_share: float = LENGTH_SHARE
    ) -> None:
        self._counts = [Counter(words) for words in texts]
        self._lengths = [counts.total() for counts in self._counts]
        self._postings: dict[str, list[int]] = {}
        for index, counts in enumerate(self._counts):
            for word in counts:
                self._postings.setdefault(word, []).append(index)
        self._mean_length = max(1.0, sum(self._lengths) / max(1, len(self._lengths)))
        self._length_share = length_share

    def __len__(self) -> int:
        return len(self._counts)

    def scores(self, words: Iterable[str]) -> list[float]:
        """Score each text for a question's words; 0 for one that shares none with it.

        Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond,
            2009; its inverse document frequency as in Lucene, which is never negative.
        """
        found = [0.0] * len(self._counts)
        for word in dict.fromkeys(words):
            holders = self._postings.get(word, ())
            if not holders:
                continue
            rarity = math.log(1 + (len(found) - len(holders) + 0.5) / (len(holders) + 0.5))
            for index in holders:
                count = self._counts[index][word]
                length = self._lengths[index] / self._mean_length
                damped = count + SATURATION * (1 + self._length_share * (length - 1))
                found[index] += rarity * count * (SATURATION + 1) / damped
        return found


class PassageIndex:
    """The words of a document's passages and of the blocks around them, without their endings.

    Args:
        text: the document's text.
    """

    def __init__(self, text: str, structure: DocumentStructure) -> None:
        passages = [
            [stem(word) for word in words_of(text[one.start : one.end])]
            for one in structure.passages
        ]
        self._blocks = [one.block for one in structure.passages]
        blocks: list[list[str]] = [[] for _ in structure.blocks]
        for block, words in zip(self._blocks, passages, strict=True):
            blocks[block] += words
        self._of_passages = LexicalIndex(passages, length_share=SENTENCE_LENGTH_SHARE)
        self._of_blocks = LexicalIndex(blocks)

    def scores(self, question: str) -> list[float]:
        """Score each passage for a question, the best with 1; all 0 if none shares a word with it.

        A passage's score is its own, and some of its block's.
        """
        words = [stem(word) for word in words_of(question)]
        of_blocks = self._of_blocks.scores(words)
        found = [
            own + BLOCK_SHARE * of_blocks[block]
            for own, block in zip(self._of_passages.scores(words), self._blocks, strict=True)
        ]
        most = max(found, default=0.0)
        return [score / most for score in found] if most > 0.0 else found


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, in their order."""
    return [text[start:end].lower() for start, end in word_spans(text)]


def stem(word: str) -> str:
    """A word without a frequent English ending; other languages' words mostly stay."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word[:-1] if len(word) > _SHORTEST_STEM + 1 and word.endswith("e") else word
