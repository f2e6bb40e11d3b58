"""A blob store in a local folder."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from common.errors import OriginalMissing
from storage.files import disk_errors, sync_folder

KEY = re.compile(r"[0-9a-f]{32}(\.part)?")
COPY_BYTES = 1024 * 1024
MISSING = "The stored original of this document is missing; upload the same file again."


class LocalBlobs:
    """Files with random names; a name that ends in `.part` is a copy that is not finished."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, path: Path) -> str:
        """Store a copy of the file `path`; see `Blobs.put`.

        The copy is written, synced, renamed and synced, so that a key always stands for whole
        bytes. Raises: StorageFull.
        """
        key = uuid4().hex
        part = self._file(f"{key}.part")
        try:
            with disk_errors():
                self._folder.mkdir(parents=True, exist_ok=True)
                _copy(path, part)
                part.rename(self._file(key))
                sync_folder(self._folder)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return key

    def open(self, key: str) -> BinaryIO:
        """See `Blobs.open`."""
        try:
            return self._file(key).open("rb")
        except FileNotFoundError as error:
            raise OriginalMissing(MISSING) from error

    def path(self, key: str) -> Path:
        """See `Blobs.path`."""
        path = self._file(key)
        if not path.is_file():
            raise OriginalMissing(MISSING)
        return path

    def delete(self, key: str) -> None:
        """See `Blobs.delete`."""
        self._file(key).unlink(missing_ok=True)

    def keys(self) -> Iterator[str]:
        """See `Blobs.keys`."""
        if self._folder.is_dir():
            for entry in os.scandir(self._folder):
                if KEY.fullmatch(entry.name):
                    yield entry.name

    def _file(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise OriginalMissing(MISSING)
        return self._folder / key


def build(config: Path) -> LocalBlobs:
    """Store blobs in the folder `config`, which is made with the first of them."""
    return LocalBlobs(config)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reading, target.open("xb") as writing:
        shutil.copyfileobj(reading, writing, COPY_BYTES)
        writing.flush()
        os.fsync(writing.fileno())
