"""The dashboard's password: made once, kept as a hash."""

from pathlib import Path

from app.admin.password import FILE, check_password, ensure_password


def test_a_password_is_made_once_and_checked(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    password = ensure_password(folder)
    assert password is not None
    assert len(password) >= 20
    assert ensure_password(folder) is None
    assert check_password(folder, password)
    assert not check_password(folder, password + "x")
    assert not check_password(folder, "")


def test_only_a_slow_hash_is_kept_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    password = ensure_password(tmp_path)
    stored = (tmp_path / FILE).read_text()
    assert stored.startswith("$argon2id$")
    assert str(password) not in stored
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_without_a_password_or_with_a_damaged_file_nobody_gets_in(tmp_path: Path) -> None:
    assert not check_password(tmp_path, "")
    (tmp_path / FILE).write_text("")
    assert not check_password(tmp_path, "")
