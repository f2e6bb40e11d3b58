"""Which excerpts training draws, and which it never does: a committed list of ids decides.

An excerpt's id is a checksum of its text, so an excerpt that is edited is another one. The list
(tables/held_out_excerpts.txt) has two sections: `evaluation`, which every evaluation may draw, and
`release`, which is opened only for a release (`python -m training.evaluate --release`). Whatever is
in neither is trained on. `python -m training.held_out` checks the list.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from training.data.templates import (
    FOLDER,
    FactRecord,
    Field,
    parse_fact_record,
    read_records,
    template_lists,
)

TRAIN, EVALUATION, RELEASE = "train", "evaluation", "release"
HELD_OUT_TABLE = "held_out_excerpts"
_ID_DIGITS = 16


@cache
def excerpts(side: str) -> tuple[FactRecord, ...]:
    """All excerpts of one side, in the files' order.

    Args:
        side: `TRAIN`, `EVALUATION` or `RELEASE`.
    Raises: KeyError for another side.
    """
    return _by_side()[side]


@cache
def held_out_ids() -> Mapping[str, frozenset[str]]:
    """The ids of the list, by section: `EVALUATION` and `RELEASE`."""
    return MappingProxyType(
        {name: frozenset(ids) for name, ids in template_lists(HELD_OUT_TABLE).items()}
    )


def excerpt_id(record: Sequence[Field]) -> str:
    """The stable name of an excerpt: 16 hexadecimal digits of the SHA-256 of its fields."""
    text = "\n".join(f"{tag} {text}" for tag, text in record)
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def read_excerpts() -> Iterator[list[Field]]:
    """The fields of every excerpt, in the files' order."""
    for table in sorted(path.stem for path in (FOLDER / "excerpts").glob("*.txt")):
        yield from read_records(f"excerpts/{table}")


@cache
def _by_side() -> Mapping[str, tuple[FactRecord, ...]]:
    sections = held_out_ids()
    sides = {one: name for name, ids in sections.items() for one in ids}
    found: dict[str, list[FactRecord]] = {TRAIN: [], **{name: [] for name in sections}}
    for record in read_excerpts():
        found[sides.get(excerpt_id(record), TRAIN)].append(parse_fact_record(record))
    return {side: tuple(records) for side, records in found.items()}
