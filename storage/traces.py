"""Whether anything is left of a deleted document or tenant: in rows, names of files, and bytes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from sqlalchemy import Table, Text, Uuid, cast, func, or_, select

from storage.artifacts.store import Artifacts
from storage.blobs.base import Blobs
from storage.db.database import Database
from storage.db.tables import Base, Document

CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Trace:
    """Something that is left.

    Attributes:
        place: a table, or a file below the data folder.
        what: what was found there.
    """

    place: str
    what: str


def find_traces(
    db: Database, data_dir: Path, blobs: Blobs, artifacts: Artifacts, deleted_id: UUID
) -> Iterator[Trace]:
    """Yield all that is left of a document or a tenant.

    Its id is looked for in every column of every table, in the names of all files, and in their
    bytes, as text and in binary. Originals have names by chance, so any that no document has
    counts as left; so does any artifact that no document has and nobody is writing.
    """
    for table in Base.metadata.sorted_tables:
        num_rows = _count_rows(db, table, deleted_id)
        if num_rows:
            yield Trace(f"table {table.name}", f"{num_rows} rows")
    with db.reading() as session:
        claimed = set(session.scalars(select(Document.blob_key)))
    for key in sorted(set(blobs.keys()) - claimed):
        yield Trace(f"original {key}", "an original that no document has")
    for name in artifacts.unclaimed():
        yield Trace(f"artifacts/{name}", "a cache that no document has")
    for path in sorted(path for path in data_dir.rglob("*") if path.is_file()):
        place = str(path.relative_to(data_dir))
        if any(form.decode("latin-1") in place for form in _forms(deleted_id)[:2]):
            yield Trace(place, "the id in the file's name")
        elif _contains(path, _forms(deleted_id)):
            yield Trace(place, "the id in the file")


def contains_any(data_dir: Path, texts: Iterable[bytes]) -> list[Path]:
    """Return the files below a folder that contain one of several texts."""
    wanted = tuple(texts)
    files = (path for path in data_dir.rglob("*") if path.is_file())
    return sorted(path for path in files if _contains(path, wanted))


def _count_rows(db: Database, table: Table, deleted_id: UUID) -> int:
    conditions = []
    for column in table.columns:
        if isinstance(column.type, Uuid):
            conditions.append(column == deleted_id)
        else:
            as_text = cast(column, Text)
            conditions += [as_text.contains(str(deleted_id)), as_text.contains(deleted_id.hex)]
    with db.reading() as session:
        rows = select(func.count()).select_from(table).where(or_(*conditions))
        return session.scalar(rows) or 0


def _forms(deleted_id: UUID) -> tuple[bytes, bytes, bytes]:
    return str(deleted_id).encode(), deleted_id.hex.encode(), deleted_id.bytes


def _contains(path: Path, texts: tuple[bytes, ...]) -> bool:
    """Whether a file contains one of several texts; one that vanishes meanwhile does not."""
    longest = max(map(len, texts))
    tail = b""
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                window = tail + chunk
                if any(text in window for text in texts):
                    return True
                tail = window[1 - longest :]
    except FileNotFoundError:
        pass
    return False
