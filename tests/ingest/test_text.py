"""Page spans and cleaning."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.text import clean, join_pages


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), min_size=1))
def test_pages_cover_the_text(pages: list[str]) -> None:
    document = join_pages(pages)
    starts = [page.start for page in document.pages]
    ends = [page.end for page in document.pages]
    assert starts == [0, *ends[:-1]]
    assert ends[-1] == len(document.text)
    assert [page.number for page in document.pages] == list(range(1, len(pages) + 1))
    for span, page in zip(document.pages, pages, strict=True):
        assert document.text[span.start : span.end].startswith(clean(page))


def test_line_ends_and_nuls_are_cleaned() -> None:
    assert clean("a\r\nb\rc\x00d\n") == "a\nb\ncd\n"


def test_lone_surrogates_are_replaced_and_pairs_are_joined() -> None:
    assert clean("a\ud800b") == "a\ufffdb"
    assert clean("\ud83d\udca5") == "\U0001f4a5"


def test_unicode_is_left_as_it_is() -> None:
    text = "e\u0301 \u00e9 \u202eabc" + "a" + "\u0301" * 10_000
    assert clean(text) == text
