"""`lectern tenant` as its user types it, on a database of its own."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.settings import Settings
from common.errors import TenantNotFound, TenantSuspended, Unauthorized
from storage.storage import Storage, open_storage
from tests.storage.conftest import send_text

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """The server's storage, open beside the command as while it runs."""
    monkeypatch.setenv("LECTERN_DATA_DIR", str(tmp_path / "data"))
    opened = open_storage(Settings().storage())
    yield opened
    opened.close()


def test_tenants_are_made_and_listed(lectern: Run, storage: Storage) -> None:
    assert lectern("tenant", "create", "crows", "--ttl-days", "2") == (
        0,
        "Made the tenant crows.\n",
        "",
    )
    assert storage.tenants.get("crows").document_ttl_s == 2 * 86_400
    assert lectern("tenant", "create", "crows")[0] == 1
    code, out, _ = lectern("tenant", "list")
    assert code == 0
    head, *rows = out.splitlines()
    assert head.split()[:2] == ["Tenant", "Id"]
    assert [row.split()[0] for row in rows] == ["crows"]


@pytest.mark.parametrize("name", ["", "two\nlines", "n" * 201])
def test_a_name_that_no_list_could_show_is_refused(lectern: Run, name: str) -> None:
    code, _, err = lectern("tenant", "create", name)
    assert (code, err) == (1, "Error: A tenant's name is a line of 1 to 200 characters.\n")


def test_a_suspended_tenants_keys_are_refused_until_it_goes_on(
    lectern: Run, storage: Storage
) -> None:
    key, _ = storage.keys.create(storage.tenants.create("crows"), "laptop")
    assert lectern("tenant", "suspend", "crows")[0] == 0
    with pytest.raises(TenantSuspended):
        storage.keys.verify(key)
    with pytest.raises(Unauthorized):
        storage.keys.verify(key[:-1] + ("0" if key[-1] != "0" else "1"))
    assert re.search(r"crows .* suspended \d{4}-", lectern("tenant", "list")[1])
    assert lectern("tenant", "resume", "crows")[0] == 0
    assert storage.keys.verify(key)


def test_a_deleted_tenant_takes_everything_with_it_and_nothing_of_others(
    lectern: Run, storage: Storage, tmp_path: Path
) -> None:
    crows, owls = storage.tenants.create("crows"), storage.tenants.create("owls")
    key, _ = storage.keys.create(crows, "laptop")
    for owner in (crows, owls):
        send_text(storage, tmp_path, owner, "A text.")
    assert "say --yes" in lectern("tenant", "delete", "crows")[2]
    assert storage.keys.verify(key)
    code, out, _ = lectern("tenant", "delete", "crows", "--yes")
    assert (code, out) == (0, f"Deleted crows ({crows}) and 1 documents.\n")
    with pytest.raises(TenantNotFound):
        storage.tenants.get("crows")
    with pytest.raises(Unauthorized):
        storage.keys.verify(key)
    assert len(storage.documents.list(owls, 10)) == 1
    assert len(list(storage.blobs.keys())) == 1


# -- limits ------------------------------------------------------------------------------------


def test_limits_are_set_shown_and_removed(lectern: Run, storage: Storage) -> None:
    crows = storage.tenants.create("crows")
    code, out, err = lectern("tenant", "limit", "crows", "documents=3", "bytes=2GiB")
    assert (code, err) == (0, "")
    assert re.search(r"documents +0 +3\n", out)
    assert re.search(r"bytes +0 B +2\S* GiB\n", out)
    assert storage.quotas.limits.of_tenant(crows) == {"documents": 3, "bytes": 2 * 1024**3}
    lectern("tenant", "limit", "crows", "bytes=none", "Requests-Per-Minute=60")
    assert storage.quotas.limits.of_tenant(crows) == {"documents": 3, "requests_per_minute": 60}
    assert re.search(r"documents +0 +3\n", lectern("tenant", "show", "crows")[1])


def test_a_key_has_limits_of_its_own(lectern: Run, storage: Storage) -> None:
    key, record = storage.keys.create(storage.tenants.default(), "laptop")
    out = lectern("key", "limit", key, "requests_per_minute=5")[1]
    assert out == f"lk_{record.prefix} (laptop): requests_per_minute=5\n"
    out = lectern("key", "limit", key, "requests_per_minute=none")[1]
    assert out.endswith("no limits of its own\n")


@pytest.mark.parametrize("assignment", ["wishes=3", "documents=", "documents=-1", "bytes=3 pots"])
def test_a_limit_that_is_none_is_refused(lectern: Run, storage: Storage, assignment: str) -> None:
    code, _, err = lectern("tenant", "limit", "default", assignment)
    assert code == 1
    assert err.startswith("Error: '")
