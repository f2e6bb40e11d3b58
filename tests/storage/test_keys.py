"""Keys open what they should, and nothing gives them back."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from common.errors import InvalidInput, Unauthorized
from storage.storage import Storage


def test_a_key_opens_its_tenant(storage: Storage) -> None:
    ours, theirs = storage.tenants.create("ours"), storage.tenants.create("theirs")
    key, record = storage.keys.create(ours, "laptop")
    other, _ = storage.keys.create(theirs, "server")
    assert storage.keys.verify(key).tenant_id == ours
    assert storage.keys.verify(other).tenant_id == theirs
    assert key.startswith(f"lk_{record.prefix}_")


def test_only_a_hash_is_kept(storage: Storage) -> None:
    key = storage.keys.create_default("first")
    with storage.db.reading() as session:
        kept = str(session.execute(text("SELECT * FROM api_keys")).all())
    assert key not in kept
    assert key.split("_")[2] not in kept


@pytest.mark.parametrize(
    "change",
    [
        lambda key: "",
        lambda key: key[:-1],
        lambda key: key[:-1] + ("0" if key[-1] != "0" else "1"),
        lambda key: key + "0",
        lambda key: key.upper(),
        lambda key: key.replace("lk_", "sk_"),
        lambda key: f"lk_{'0' * 12}_{key.split('_')[2]}",
        lambda key: "lk_' OR 1=1 --_x",
        lambda key: "lk_\x00_\x00",
        lambda key: "lk_\ud800_" + "x" * 64,
        lambda key: "lk_" + "a" * 100_000 + "_b",
    ],
)
def test_any_other_key_is_refused(storage: Storage, change) -> None:  # type: ignore[no-untyped-def]
    key = storage.keys.create_default("first")
    with pytest.raises(Unauthorized):
        storage.keys.verify(change(key))
    assert storage.keys.verify(key)


def test_revoked_and_expired_keys_are_refused(storage: Storage) -> None:
    tenant = storage.tenants.default()
    revoked, record = storage.keys.create(tenant, "one")
    expired, _ = storage.keys.create(tenant, "two", datetime.now(UTC) - timedelta(seconds=1))
    current, _ = storage.keys.create(tenant, "three", datetime.now(UTC) + timedelta(hours=1))
    storage.keys.revoke(record.tenant_id, record.id)
    for key in (revoked, expired):
        with pytest.raises(Unauthorized):
            storage.keys.verify(key)
    assert storage.keys.verify(current).tenant_id == tenant
    assert [key.name for key in storage.keys.list(tenant)] == ["one", "two", "three"]


def test_a_key_is_refused_from_the_moment_that_it_expires(storage: Storage) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.2)
    key, _ = storage.keys.create(storage.tenants.default(), "guest", soon)
    while datetime.now(UTC) < soon:
        time.sleep(0.05)
    with pytest.raises(Unauthorized):
        storage.keys.verify(key)


def test_a_key_is_revoked_once_and_for_all(storage: Storage) -> None:
    tenant = storage.tenants.default()
    _, record = storage.keys.create(tenant, "one")
    storage.keys.revoke(record.tenant_id, record.id)
    (first,) = storage.keys.list(tenant)
    storage.keys.revoke(record.tenant_id, record.id)
    (second,) = storage.keys.list(tenant)
    assert first.revoked_at is not None
    assert first.revoked_at >= first.created_at
    assert second == first


def test_keys_are_listed_for_their_tenant_alone(storage: Storage) -> None:
    ours, theirs = storage.tenants.create("ours"), storage.tenants.create("theirs")
    storage.keys.create(ours, "laptop")
    storage.keys.create(theirs, "server")
    assert [key.name for key in storage.keys.list(ours)] == ["laptop"]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x00", "\ud800", "n" * 201])
def test_a_name_is_one_line_that_fits(storage: Storage, name: str) -> None:
    with pytest.raises(InvalidInput, match="1 to 200"):
        storage.keys.create_default(name)
    assert not storage.keys.any()
    assert storage.keys.create_default("n" * 200)


def test_a_fresh_installation_knows_that_it_has_no_key(storage: Storage) -> None:
    assert not storage.keys.any()
    storage.keys.create_default("first")
    assert storage.keys.any()


def test_the_default_tenant_is_made_once(storage: Storage) -> None:
    assert storage.tenants.default() == storage.tenants.default()
    with pytest.raises(InvalidInput):
        storage.tenants.create("default")
