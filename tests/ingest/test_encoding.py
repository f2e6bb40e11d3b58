"""Text in the encodings that people send."""

import codecs

import pytest

from common.errors import UnknownEncoding
from ingest.encoding import Encoding, decode_pieces, detect, read_text
from tests.ingest.conftest import Put

POLISH = "Zażółć gęślą jaźń, nocą żółty koń biegł przez łąkę i pił wodę. " * 20
GERMAN = "Die Küche öffnet täglich um fünf. Straße und Grüße an alle Gäste. " * 20
SPANISH = "Mañana por la mañana abrirá el café de la señora Núñez. " * 20
DANISH = "Smørrebrød på Ærø koster få kroner, men ikke på Fanø. " * 20
RUSSIAN = "Маяк горел всю ночь, и корабли шли мимо него. " * 20
JAPANESE = "灯台は一晩中光っていた。船は通り過ぎた。" * 20


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (GERMAN, "utf-8"),
        (GERMAN, "utf-8-sig"),
        (GERMAN, "utf-16"),
        (GERMAN, "utf-32"),
        (JAPANESE, "utf-16"),
        (GERMAN, "cp1252"),
        (SPANISH, "cp1252"),  # as likely in other encodings, which are less common
        (DANISH, "cp1252"),
        (POLISH, "cp1250"),
        (RUSSIAN, "cp1251"),
        (JAPANESE, "shift_jis"),
    ],
)
def test_text_is_decoded(text: str, codec: str, put: Put) -> None:
    assert read_text(put(text.encode(codec))) == text


def test_big_endian_utf16_with_a_mark_is_decoded(put: Put) -> None:
    data = codecs.BOM_UTF16_BE + GERMAN.encode("utf-16-be")
    assert read_text(put(data)) == GERMAN


def test_an_accent_far_behind_the_head_is_found(put: Put) -> None:
    text = "plain words only\n" * 100_000 + GERMAN
    assert read_text(put(text.encode("cp1252"))) == text


def test_a_character_split_between_pieces_is_whole(put: Put) -> None:
    text = "x" * ((1 << 20) - 1) + "\u00e9" + "y"
    assert read_text(put(text.encode())) == text


def test_utf8_with_one_bad_byte_stays_utf8(put: Put) -> None:
    data = GERMAN.encode() + b"\xff" + GERMAN.encode()
    assert read_text(put(data)) == GERMAN + "\ufffd" + GERMAN


def test_cut_utf16_is_refused(put: Put) -> None:
    with pytest.raises(UnknownEncoding):
        detect(put(codecs.BOM_UTF16_LE + b"a\x00b"))


def test_an_html_charset_is_believed(put: Put) -> None:
    data = '<meta charset="iso-8859-2"><p>\u017cuk</p>'.encode("iso-8859-2")
    assert read_text(put(data), html=True).endswith("<p>\u017cuk</p>")


@pytest.mark.parametrize("name", ["iso-8859-1", "latin1", "us-ascii", "windows-1252"])
def test_what_pages_declare_is_read_as_browsers_do(name: str, put: Put) -> None:
    data = f'<meta charset="{name}"><p>'.encode() + "“Café”, 5 €".encode("cp1252")
    assert read_text(put(data), html=True).endswith("<p>“Café”, 5 €")


@pytest.mark.parametrize("name", ["hex", "utf-16", "nonsense", "utf-7"])
def test_an_impossible_html_charset_is_not_believed(name: str, put: Put) -> None:
    data = f'<meta charset="{name}"><p>\u017cuk</p>'.encode()
    assert detect(put(data), html=True) == Encoding("utf-8")


def test_undecodable_bytes_are_refused(put: Put) -> None:
    with pytest.raises(UnknownEncoding):
        list(decode_pieces(put(b"\x81\xff"), Encoding("ascii")))
