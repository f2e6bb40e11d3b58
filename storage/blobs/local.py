"""Blobs as files in one folder."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from common.errors import OriginalMissing
from storage.db.errors import disk_errors
from storage.files import sync_folder

KEY = re.compile(r"[0-9a-f]{32}(\.part)?")
COPY_BYTES = 1024 * 1024
MISSING = "The stored original of this document is missing; delete it and upload it again."


class LocalBlobs:
    """Files named by chance; a name with `.part` is a copy that was not finished."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, path: Path) -> str:
        """Copy, sync, rename, sync: a key stands for whole bytes or does not exist."""
        key = uuid4().hex
        part = self._file(f"{key}.part")
        try:
            with disk_errors():
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
        found = self._file(key)
        if not found.is_file():
            raise OriginalMissing(MISSING)
        return found

    def delete(self, key: str) -> None:
        """See `Blobs.delete`."""
        self._file(key).unlink(missing_ok=True)

    def keys(self) -> Iterator[str]:
        """See `Blobs.keys`."""
        for entry in os.scandir(self._folder):
            if KEY.fullmatch(entry.name):
                yield entry.name

    def _file(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise OriginalMissing(MISSING)
        return self._folder / key


def build(config: Path) -> LocalBlobs:
    """Keep blobs in the folder `config`, made if it is missing."""
    return LocalBlobs(config)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reading, target.open("xb") as writing:
        shutil.copyfileobj(reading, writing, COPY_BYTES)
        writing.flush()
        os.fsync(writing.fileno())
