"""The documents for users name what there is."""

import re
from pathlib import Path

import pytest

from cli.settings import variables
from common import errors

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
NEVER_SEEN = {  # families, and faults that are caught before anybody sees them
    "invalid_input",
    "not_ready",
    "transient",
    "permanent",
    "corrupt_artifact",
    "shape_error",
    "unknown_plugin",
    "lease_lost",
    "turn_ended",
    "engine_fault",
    "cancelled",
    "caller_gone",
}


def shown(default: object) -> str:
    """A default as the table writes it."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int) and default >= 1 << 20:
        return f"{default >> 20} MiB" if default < 1 << 30 else f"{default >> 30} GiB"
    if isinstance(default, float):
        return f"{default:g}"
    return str(default)


@pytest.mark.parametrize(("name", "default"), list(variables().items()))
def test_every_setting_is_in_the_readme_with_its_default(name: str, default: object) -> None:
    row = re.search(rf"^\| `{name}` \| ([^|]*) \|", README, re.MULTILINE)
    assert row is not None, name
    if default not in (None, ""):
        assert re.sub("[`,]", "", row[1]) == shown(default)


def test_the_readme_names_no_setting_that_does_not_exist() -> None:
    known = variables() | {"LECTERN_URL": "", "LECTERN_API_KEY": ""}
    for name in re.findall(r"LECTERN_[A-Z0-9_]*[A-Z0-9]", README + OPERATIONS):
        assert any(one.startswith(name) for one in known), name


def test_every_error_code_has_advice() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    codes = {one.code for one in classes if issubclass(one, errors.LecternError)}
    advised = set(re.findall(r"`([a-z_]+)`", OPERATIONS))
    assert codes - advised - NEVER_SEEN == set()


def test_the_files_that_the_readme_links_to_exist() -> None:
    for text, folder in ((README, ROOT), (OPERATIONS, ROOT / "docs")):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (folder / target).exists(), target


def test_the_picture_of_the_reading_room_is_shown_once_it_is_there() -> None:
    picture, shown = ROOT / "docs" / "reading-room.png", "](docs/reading-room.png)"
    assert picture.exists() == (shown in README)
    if picture.exists():
        assert picture.stat().st_size <= 200 * 1024
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert README.index(shown) < 3500, "it is on the first screen"
