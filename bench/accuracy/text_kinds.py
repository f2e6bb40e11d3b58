"""Texts of many kinds, drawn by a seed: with and without spaces, sentences, case, or sense."""

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
WORDS = (
    *("harbour", "lamp", "keeper", "copper", "letter", "garden", "mill", "library", "horse", "map"),
    *("river", "winter", "market", "stone", "bridge", "captain", "window", "orchard", "ferry"),
)
NAMES = ("Amara", "Bertold", "Chidi", "Dagny", "Elif", "Fabrice", "Greta", "Hamid", "Ines", "Joao")
# Characters that are common in each language; they are put together at random.
CHINESE = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动"
    "同工也能下过子说产种面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自"
    "二理起小物现实加量都两体制机当使点从业本去把性好应开它合还因由其些然前外天政四日"
    "那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变"
    "条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总"
    "次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指"
    "几九区强放决西被干做必战先回则任取据处队南给色光门即保治北造百规热领七海口东导器"
    "压志世金增争济阶油思术极交受联什认六共权收证改清己美再采转更单风切打白教速花带安"
)
KANJI = CHINESE[:160]
KANA = "あいうえおかきくけこさしすせそたちつてとなにのはひまみむめもやゆよらりるれろわを"
KATAKANA = "アイウエオカキクケコサシスセソタチツテトナニノハヒマミムメモラリルレロン"
THAI_CONSONANTS, THAI_VOWELS = "กขคงจชซญดตถทธนบปผพฟภมยรลวศษสหอฮ", "ะาิีึืุูเแโใไ"
COMMA = "\uff0c"  # a wide one, as Chinese has it
ARABIC = "ابتثجحخدذرزسشصضطظعغفقكلمنهوي"
MARKS = [chr(code) for code in range(0x300, 0x330)]


def _minified_json(draw: Random) -> str:
    record = {
        "id": draw.getrandbits(40),
        "name": draw.choice(NAMES) + draw.choice(WORDS).title(),
        "tags": draw.choices(WORDS, k=3),
        "at": [round(draw.uniform(-90, 90), 5), round(draw.uniform(-180, 180), 5)],
        "open": draw.random() < 0.5,
    }
    return json.dumps(record, separators=(",", ":")) + ","


def _chinese(draw: Random) -> str:
    parts = ("".join(draw.choices(CHINESE, k=draw.randint(4, 14))) for _ in range(3))
    return COMMA.join(parts) + f"{draw.randint(2, 999)}。"


def _japanese(draw: Random) -> str:
    words = (
        "".join(draw.choices(KANJI, k=draw.randint(1, 3)) + draw.choices(KANA, k=2))
        for _ in range(draw.randint(3, 7))
    )
    return "".join(words) + "".join(draw.choices(KATAKANA, k=4)) + f"{draw.randint(2, 999)}です。"


def _thai(draw: Random) -> str:
    syllables = (
        draw.choice(THAI_CONSONANTS) + draw.choice(THAI_VOWELS) + draw.choice(THAI_CONSONANTS)
        for _ in range(draw.randint(8, 30))
    )
    return "".join(syllables) + " "


def _arabic(draw: Random) -> str:
    words = ("".join(draw.choices(ARABIC, k=draw.randint(2, 7))) for _ in range(9))
    return "ال" + " ".join(words) + f" {draw.randint(2, 999)}. "


def _base64(draw: Random) -> str:
    return base64.b64encode(draw.randbytes(300)).decode()


def _csv(draw: Random) -> str:
    line = io.StringIO()
    row = (draw.getrandbits(24), draw.choice(NAMES), draw.choice(WORDS), draw.randint(2, 9999))
    csv.writer(line).writerow((*row, f"2024-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"))
    return line.getvalue()


def _combining(draw: Random) -> str:
    return "".join(
        letter + "".join(draw.choices(MARKS, k=draw.randint(1, 6)))
        for letter in draw.choices("abcdefghijklmnopqrstuvwxyz", k=40)
    )


def _line(draw: Random) -> str:
    return " ".join(draw.choices(WORDS, k=200)) + " "


def _source_code(_: Random) -> str:
    files = sorted((ROOT / "engine").rglob("*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


# Each gives a piece; a text is as many pieces as it needs.
PIECES: Mapping[str, Callable[[Random], str]] = {
    "minified JSON": _minified_json,
    "Chinese": _chinese,
    "Japanese": _japanese,
    "Thai": _thai,
    "Arabic": _arabic,
    "base64": _base64,
    "CSV": _csv,
    "source code": _source_code,
    "combining marks": _combining,
    "one long line": _line,
    "aaaa...": lambda _: "a" * 1000,
}


def draw_kind(kind: str, seed: int = 0) -> Iterator[str]:
    """Pieces of a text of a kind, without end."""
    draw, make = Random(f"{kind} {seed}"), PIECES[kind]
    while True:
        yield make(draw)
