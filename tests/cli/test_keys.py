"""`lectern key` as its user types it, on a database of its own."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.settings import Settings
from common.errors import Unauthorized
from common.scopes import Scope
from storage.storage import Storage, open_storage

Run = Callable[..., tuple[int, str, str]]
KEY = re.compile(r"lk_[0-9a-f]{12}_[0-9a-f]{64}\n")


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """The server's storage, open beside the command as while it runs."""
    monkeypatch.setenv("LECTERN_DATA_DIR", str(tmp_path / "data"))
    opened = open_storage(Settings().storage())
    yield opened
    opened.close()


@pytest.fixture
def make(lectern: Run) -> Callable[..., str]:
    """Make a key; return its text."""

    def create(name: str, *options: str) -> str:
        code, out, err = lectern("key", "create", name, *options)
        assert (code, err) == (0, "")
        assert KEY.fullmatch(out)
        return out.strip()

    return create


def shown(key: str) -> str:
    return key.rpartition("_")[0]


def refused(storage: Storage, key: str) -> bool:
    try:
        storage.keys.verify(key)
    except Unauthorized:
        return True
    return False


def set_prefixes(storage: Storage, *prefixes: str) -> None:
    """Make keys with these prefixes, and names like them."""
    with pytest.MonkeyPatch.context() as patch:
        for prefix in prefixes:
            patch.setattr("storage.keys.secrets.token_hex", lambda size, p=prefix: p * (size // 6))
            storage.keys.create_default(prefix)


@pytest.mark.parametrize("command", ["create", "list", "revoke"])
def test_every_command_explains_itself(lectern: Run, command: str) -> None:
    assert command in lectern("key", "--help")[1]
    code, out, _ = lectern("key", command, "--help")
    assert code == 0
    assert "--data-dir" in out


def test_a_key_that_was_made_opens_the_default_tenant(
    make: Callable[..., str], storage: Storage
) -> None:
    assert storage.keys.verify(make("for the night shift")).tenant_id == storage.tenants.default()


def test_a_key_may_have_its_days(make: Callable[..., str], storage: Storage) -> None:
    make("visitor", "--days", "3")
    (key,) = storage.keys.list(storage.tenants.default())
    assert key.expires_at is not None
    assert (key.expires_at - key.created_at).total_seconds() == pytest.approx(3 * 86_400, abs=60)


@pytest.mark.parametrize("arguments", [("x", "--days", "0"), ("x", "--days", "36501"), ()])
def test_what_cannot_be_made_is_a_usage_error(lectern: Run, arguments: tuple[str, ...]) -> None:
    assert lectern("key", "create", *arguments)[0] == 2


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "\x1b[31mred", "n" * 201])
def test_a_name_that_no_list_could_show_is_refused(lectern: Run, name: str) -> None:
    code, out, err = lectern("key", "create", name)
    assert (code, out) == (1, "")
    assert err == "Error: A key's name is a line of 1 to 200 characters.\n"


def test_an_empty_list_says_what_to_do(lectern: Run) -> None:
    out = "No API keys here. Make one with `lectern keys create NAME`.\n"
    assert lectern("key", "list") == (0, out, "")


def test_keys_are_listed_oldest_first_without_secret_or_hash(
    lectern: Run, make: Callable[..., str], storage: Storage
) -> None:
    keys = [make("[red]one"), make("two"), make("three", "--days", "1")]
    others, _ = storage.keys.create(storage.tenants.create("another"), "not ours")
    lectern("key", "revoke", keys[1])
    code, out, err = lectern("key", "list")
    head, *rows = [row.rstrip() for row in out.splitlines()]
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    assert (code, err) == (0, "")
    assert head.split() == ["Key", "Name", "Scopes", "Made", "Status"]
    assert len(rows) == 3
    expected = [
        rf"{shown(keys[0])}  \[red\]one  all     {moment}  valid",
        rf"{shown(keys[1])}  two       all     {moment}  revoked {moment}",
        rf"{shown(keys[2])}  three     all     {moment}  expires {moment}",
    ]
    for row, form in zip(rows, expected, strict=True):
        assert re.fullmatch(form, row), row
    assert not any(key.split("_")[2] in out for key in [*keys, others])
    assert not re.search("[0-9a-f]{32}", out)


def test_an_expired_key_is_listed_as_such(lectern: Run, storage: Storage) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    storage.keys.create(storage.tenants.default(), "late", yesterday)
    assert re.search(
        rf"late  .*  expired {yesterday.astimezone():%Y-%m-%d} ", lectern("key", "list")[1]
    )


@pytest.mark.parametrize(
    "cut",
    [lambda key: key, shown, lambda key: key[:9], lambda key: key[3:15], str.upper],
    ids=["whole", "as listed", "beginning", "without lk_", "upper case"],
)
def test_a_revoked_key_opens_nothing(
    lectern: Run, make: Callable[..., str], storage: Storage, cut: Callable[[str], str]
) -> None:
    kept, key = make("kept"), make("for the night shift")
    out = f"Revoked {shown(key)} (for the night shift).\n"
    assert lectern("key", "revoke", cut(key)) == (0, out, "")
    assert (refused(storage, key), refused(storage, kept)) == (True, False)


def test_revoking_twice_is_told_and_keeps_the_first_moment(
    lectern: Run, make: Callable[..., str], storage: Storage
) -> None:
    make("kept")
    key = make("lost")
    lectern("key", "revoke", shown(key))
    before = storage.keys.list(storage.tenants.default())
    code, out, err = lectern("key", "revoke", shown(key))
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"{shown(key)} \(lost\) is revoked already, since [\d :-]+\.\n", out)
    assert storage.keys.list(storage.tenants.default()) == before


def test_after_the_last_key_it_says_how_to_make_one(
    lectern: Run, make: Callable[..., str], storage: Storage
) -> None:
    first, last = make("first"), make("last")
    assert lectern("key", "revoke", first)[1].count("\n") == 1
    code, out, _ = lectern("key", "revoke", last)
    assert code == 0
    told = "No valid key is left. Make one with `lectern keys create NAME`."
    assert out.splitlines()[1] == told
    assert refused(storage, last)
    assert not refused(storage, make("new"))


@pytest.mark.parametrize("text", ["ffff", "lk_ffff", "lk_ffff_SECRET", "", "lk_", "%", "_"])
def test_an_unknown_key_is_refused_and_not_repeated(
    lectern: Run, storage: Storage, text: str
) -> None:
    set_prefixes(storage, "aaaa00000000")
    code, out, err = lectern("key", "revoke", text)
    assert (code, out) == (4, "")
    assert err.startswith("Error: No key begins with 'lk_")
    assert "`lectern keys list` shows all" in err
    assert "SECRET" not in err
    assert storage.keys.list(storage.tenants.default())[0].revoked_at is None


def test_an_ambiguous_beginning_revokes_nothing(lectern: Run, storage: Storage) -> None:
    set_prefixes(storage, "abc000000001", "abc000000002")
    error = "Error: 2 keys begin with 'lk_abc'; give more of one.\n"
    assert lectern("key", "revoke", "lk_abc") == (1, "", error)
    assert {key.revoked_at for key in storage.keys.list(storage.tenants.default())} == {None}


def test_another_tenants_key_is_unknown(lectern: Run, storage: Storage) -> None:
    key, _ = storage.keys.create(storage.tenants.create("another"), "not ours")
    assert lectern("key", "revoke", key)[0] == 4
    assert not refused(storage, key)


# -- tenants and scopes ------------------------------------------------------------------------


def test_a_key_belongs_to_its_tenant_and_has_the_scopes_that_it_was_given(
    lectern: Run, make: Callable[..., str], storage: Storage
) -> None:
    assert lectern("tenant", "create", "crows")[0] == 0
    key = make("reader", "--tenant", "crows", "--scopes", "ask, read")
    record = storage.keys.verify(key)
    assert record.tenant_id == storage.tenants.get("crows").id
    assert record.scopes == (Scope.READ, Scope.ASK)
    assert "read,ask" in lectern("key", "list", "--tenant", "crows")[1]
    assert "reader" not in lectern("key", "list")[1]
    assert lectern("keys", "revoke", key, "--tenant", "crows")[0] == 0
    assert refused(storage, key)


@pytest.mark.parametrize("scopes", ["", "reed", "read,all"])
def test_unknown_scopes_make_no_key(lectern: Run, storage: Storage, scopes: str) -> None:
    code, out, err = lectern("key", "create", "x", "--scopes", scopes)
    assert (code, out) == (1, "")
    assert err == "Error: A key has some of the scopes read, ask, write, admin.\n"
    assert not storage.keys.any()


def test_an_unknown_tenant_is_named(lectern: Run) -> None:
    code, _, err = lectern("key", "create", "x", "--tenant", "crows")
    assert code == 4
    assert err == "Error: There is no tenant 'crows'; `lectern tenant list` shows all.\n"
