"""Files that survive a power cut, locked folders, and a full disk as a typed error."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import StorageFull

NO_SPACE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
STORAGE_FULL = "No space is left on the storage device; work continues when some has been freed."


@contextmanager
def disk_errors(message: str = STORAGE_FULL) -> Iterator[None]:
    """Turn the system's errors for a full disk, quota or file-size limit into StorageFull.

    Args:
        message: what the caller is told.
    Raises: StorageFull; any other error passes through.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE_ERRNOS:
            raise StorageFull(message) from error
        raise


def sync_folder(path: Path) -> None:
    """Write the names in a folder to the disk; without it new files and renames can be lost.

    Args:
        path: an existing folder.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_folder(path: Path) -> int | None:
    """Lock a folder for as long as this process lives; the lock stays when it is renamed.

    Args:
        path: the folder.
    Returns: a file descriptor that holds the lock until it is closed; None if another process
        holds the lock, or if the folder is gone.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
