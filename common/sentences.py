"""Sentences and words of plain text in any script, by Unicode's rules."""

from collections.abc import Iterator

from icu4py.breakers import SentenceBreaker, WordBreaker


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Half-open character spans of sentences or lines, the white space between them left out.

    Source: Unicode Standard Annex 29, section 5, as ICU implements it; line breaks end sentences.
    """
    for start, end in SentenceBreaker(text, "root").segments():
        sentence = text[start:end]
        start += len(sentence) - len(sentence.lstrip())
        if start < end:
            yield start, start + len(sentence.strip())


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Half-open character spans of words; white space, punctuation and symbols are left out.

    Scripts without spaces (Chinese, Japanese, Thai, Khmer, Lao, Burmese) are cut by dictionaries.
    Source: Unicode Standard Annex 29, section 4, as ICU implements it.
    """
    for start, end in WordBreaker(text, "root").segments():
        if text[start : start + 1].isalnum() or any(char.isalnum() for char in text[start:end]):
            yield start, end
