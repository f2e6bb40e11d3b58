"""The lexical score of passages: BM25 over their words."""

import math
from collections import Counter
from collections.abc import Sequence

from common.sentences import word_spans

SATURATION = 1.2  # k1: how soon further occurrences of a word count less
LENGTH_SHARE = 0.75  # b: how much long passages are held against


class LexicalIndex:
    """The words of passages, to be scored for questions.

    Args:
        texts: of the passages; each is lower-cased and cut into words by Unicode's rules.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(words_of(text)) for text in texts]
        self._lengths = [counts.total() for counts in self._counts]
        self._postings: dict[str, list[int]] = {}
        for index, counts in enumerate(self._counts):
            for word in counts:
                self._postings.setdefault(word, []).append(index)
        self._mean_length = max(1.0, sum(self._lengths) / max(1, len(self._lengths)))

    def __len__(self) -> int:
        return len(self._counts)

    def scores(self, query: str) -> list[float]:
        """Score each passage for a question; 0 for one that shares no word with it.

        Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond,
            2009; its inverse document frequency as in Lucene, which is never negative.
        """
        found = [0.0] * len(self._counts)
        for word in dict.fromkeys(words_of(query)):
            holders = self._postings.get(word, ())
            if not holders:
                continue
            rarity = math.log(1 + (len(found) - len(holders) + 0.5) / (len(holders) + 0.5))
            for index in holders:
                count = self._counts[index][word]
                length = self._lengths[index] / self._mean_length
                damped = count + SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length)
                found[index] += rarity * count * (SATURATION + 1) / damped
        return found


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, in their order."""
    return [text[start:end].lower() for start, end in word_spans(text)]
