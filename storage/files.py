"""Files that are private and survive a power cut, locked folders, a full disk as a typed error."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from common.errors import StorageFull

NO_SPACE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
PRIVATE_FOLDER, PRIVATE_UMASK = 0o700, 0o077
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


def make_private_folder(path: Path) -> None:
    """Make a folder that only its owner can enter.

    An existing folder that all users can enter is taken away from group and others; one that
    somebody has opened to a group alone stays as it is. If the folder belongs to another user and
    is open to all, that is logged and left to the operator.
    """
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    if not stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXO:
        return
    try:
        path.chmod(PRIVATE_FOLDER)
    except PermissionError:
        log = structlog.get_logger("lectern.storage")
        log.warning("the data folder is open to all users of this machine, and not ours to close")


def make_files_private() -> None:
    """Let this process make files from now on that only their owner can read or write."""
    os.umask(os.umask(PRIVATE_UMASK) | PRIVATE_UMASK)


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
