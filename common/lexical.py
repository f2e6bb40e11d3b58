"""The lexical score of passages: BM25 over the words that a question shares with them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from common.passages import DocumentStructure
from common.sentences import word_spans

FloatArray = npt.NDArray[np.float64]
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
        rest: called between texts.
    """

    def __init__(
        self,
        texts: Iterable[Sequence[str]],
        *,
        length_share: float = LENGTH_SHARE,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        self._word_ids: dict[str, int] = {}
        ids: list[int] = []  # of each pair of a text and a word that it holds
        counts: list[int] = []
        lengths: list[int] = []
        num_words: list[int] = []  # different ones of each text
        for words in texts:
            of_text = Counter(words)
            ids += [self._word_ids.setdefault(word, len(self._word_ids)) for word in of_text]
            counts += of_text.values()
            lengths.append(len(words))
            num_words.append(len(of_text))
            rest()
        self._num_texts = len(lengths)
        order = np.argsort(np.array(ids, np.int64), kind="stable")
        num_holders = np.bincount(np.array(ids, np.int64), minlength=len(self._word_ids))
        # Postings of a word lie from its start to the next one's: which texts hold it, and what it
        # adds to their scores.
        self._starts: list[int] = np.concatenate(([0], num_holders.cumsum())).tolist()
        self._texts = np.repeat(np.arange(len(lengths)), num_words)[order]
        count = np.array(counts, np.float64)[order]
        length = np.array(lengths, np.float64)
        length /= max(1.0, length.sum() / max(1, len(lengths)))
        damped = count + SATURATION * (1 + length_share * (length[self._texts] - 1))
        rarity = np.log(1 + (len(lengths) - num_holders + 0.5) / (num_holders + 0.5))
        self._added = np.repeat(rarity, num_holders) * count * (SATURATION + 1) / damped

    def __len__(self) -> int:
        return self._num_texts

    def scores(self, words: Iterable[str]) -> FloatArray:
        """Score each text for a question's words; 0 for one that shares none with it.

        Returns: (texts,) float64.
        Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond,
            2009; its inverse document frequency as in Lucene, which is never negative.
        """
        ids = [self._word_ids[word] for word in dict.fromkeys(words) if word in self._word_ids]
        if not ids:
            return np.zeros(self._num_texts)
        postings = [slice(self._starts[index], self._starts[index + 1]) for index in ids]
        texts = np.concatenate([self._texts[mine] for mine in postings])
        added = np.concatenate([self._added[mine] for mine in postings])
        found = np.bincount(texts, weights=added, minlength=self._num_texts)
        return found.astype(np.float64, copy=False)  # which it is, but for its annotation


class PassageIndex:
    """The words of a document's passages and of the blocks around them, without their endings.

    Args:
        text: the document's text.
        rest: called between two passages, and may take a while.
    """

    def __init__(
        self, text: str, structure: DocumentStructure, rest: Callable[[], None] = lambda: None
    ) -> None:
        stems: dict[str, str] = {}
        passages: list[list[str]] = []
        for one in structure.passages:
            words = words_of(text[one.start : one.end])
            stems |= {word: stem(word) for word in words if word not in stems}
            passages.append([stems[word] for word in words])
            rest()
        self._blocks = np.array([one.block for one in structure.passages], np.int64)
        blocks: list[list[str]] = [[] for _ in structure.blocks]
        for block, words in zip(self._blocks, passages, strict=True):
            blocks[block] += words
        self._of_passages = LexicalIndex(passages, length_share=SENTENCE_LENGTH_SHARE, rest=rest)
        self._of_blocks = LexicalIndex(blocks, rest=rest)

    def scores(self, question: str) -> FloatArray:
        """Score each passage for a question, the best with 1; all 0 if none shares a word with it.

        A passage's score is its own, and some of its block's.

        Returns: (passages,) float64.
        """
        words = [stem(word) for word in words_of(question)]
        of_blocks = self._of_blocks.scores(words)
        found = self._of_passages.scores(words) + BLOCK_SHARE * of_blocks[self._blocks]
        most = found.max(initial=0.0)
        return found / most if most > 0.0 else found


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, in their order."""
    return [text[start:end].lower() for start, end in word_spans(text)]


def stem(word: str) -> str:
    """A word without a frequent English ending; other languages' words mostly stay."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word[:-1] if len(word) > _SHORTEST_STEM + 1 and word.endswith("e") else word
