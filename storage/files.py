"""Files that survive a power cut, and folders that have an owner."""

import fcntl
import os
from pathlib import Path


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable: new files and renames are lost without it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def own_folder(path: Path) -> int | None:
    """Lock a folder for as long as this process lives, through renames.

    Returns: a descriptor that holds the lock until it is closed; None if another process owns the
        folder, or it is gone.
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
