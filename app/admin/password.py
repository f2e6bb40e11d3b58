"""The dashboard's password: made at the first start, shown once, stored as an argon2id hash."""

import secrets
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

FILE = "admin-password.hash"
NUM_BYTES = 15


def ensure_password(data_dir: Path) -> str | None:
    """Make a password if there is none yet.

    Args:
        data_dir: the data folder, in which the hash is stored as `admin-password.hash`. If that
            file is deleted, the next start makes a new password.
    Returns: the new password, which must be shown now; None if one was made before.
    """
    path = data_dir / FILE
    data_dir.mkdir(parents=True, exist_ok=True)
    password = secrets.token_urlsafe(NUM_BYTES)
    try:
        with path.open("x", encoding="ascii") as file:
            path.chmod(0o600)
            file.write(PasswordHasher().hash(password))
    except FileExistsError:
        return None
    return password


def check_password(data_dir: Path, password: str) -> bool:
    """Return whether a password is right; by design this takes tens of milliseconds.

    Args:
        data_dir: the data folder, in which the hash is stored.
    """
    try:
        stored = (data_dir / FILE).read_text(encoding="ascii")
        return PasswordHasher().verify(stored, password)
    except (FileNotFoundError, VerificationError, InvalidHashError):
        return False
