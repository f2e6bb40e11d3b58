"""Stop strings are found wherever text is cut into pieces, and never shown."""

from itertools import pairwise

import pytest

from engine.decode.stop_strings import StopStrings


def pieces(text: str, cuts: tuple[int, ...]) -> list[str]:
    return [text[start:end] for start, end in pairwise((0, *cuts, len(text)))]


@pytest.mark.parametrize("cuts", [(), (3,), (4,), (1, 2, 3, 4, 5, 6, 7, 8)])
@pytest.mark.parametrize(
    ("text", "stops", "shown"),
    [
        ("abcENDdef", ("END",), "abc"),
        ("abcENabcd", ("END",), "abcENabcd"),
        ("abcdefghE", ("END",), "abcdefghE"),
        ("aaabaaaab", ("aab", "b"), "a"),
        ("xENxENDyy", ("ENDy", "NDyy"), "xENx"),
        ("ENDabcdef", ("END", "c"), ""),
        ("abcdefghi", (), "abcdefghi"),
    ],
)
def test_text_is_shown_up_to_the_first(
    text: str, stops: tuple[str, ...], shown: str, cuts: tuple[int, ...]
) -> None:
    stopper, out = StopStrings(stops), ""
    for piece in pieces(text, cuts):
        out += stopper.push(piece)
        assert shown.startswith(out)  # nothing is ever taken back
    out += stopper.flush()
    assert out == shown == stopper.cut(text)
    assert stopper.found == (shown != text)


def test_text_is_not_held_back_without_need() -> None:
    stopper = StopStrings(("END",))
    assert [stopper.push(piece) for piece in ("ab", "cE", "x", "EN", "E")] == [
        "ab", "c", "Ex", "", "EN"
    ]  # fmt: skip
