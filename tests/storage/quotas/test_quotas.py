"""What tenants and keys may use is never exceeded, and is counted as it was used."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import update

from common.errors import QuotaExceeded, RateLimited
from storage.db.database import Database
from storage.db.records import ApiKeyRecord
from storage.db.tables import Process
from storage.quotas.counters import SqlCounter
from storage.quotas.quotas import Quotas
from storage.quotas.redis_counter import RedisCounter
from storage.quotas.resources import Resource
from storage.quotas.windows import Windows
from storage.storage import Storage
from tests.services import redis_url
from tests.storage.conftest import send_text

NOON_S = 20_000 * 86_400.0 + 43_200.0


@pytest.fixture
def caller(storage: Storage, tenant: UUID) -> ApiKeyRecord:
    """A key of the default tenant."""
    return storage.keys.create(tenant, "laptop")[1]


def limit(storage: Storage, caller: ApiKeyRecord, *, key: bool = False, **amounts: int) -> None:
    given = {Resource(name): amount for name, amount in amounts.items()}
    if key:
        storage.quotas.limits.set_for_key(caller.id, given)
    else:
        storage.quotas.limits.set_for_tenant(caller.tenant_id, given)


def used(storage: Storage, caller: ApiKeyRecord, resource: Resource) -> int | None:
    (use,) = (
        one for one in storage.quotas.use(caller.tenant_id, caller) if one.resource is resource
    )
    return use.used


# -- requests a minute -------------------------------------------------------------------------


def windows_at(storage: Storage, clock: list[float]) -> Windows:
    return Windows(SqlCounter(storage.db), lambda: clock[0])


@pytest.mark.parametrize("most", [1, 7, 120])
def test_no_more_than_the_limit_is_granted_in_a_minute(
    storage: Storage, tenant: UUID, most: int
) -> None:
    clock = [NOON_S + 20]
    windows = windows_at(storage, clock)
    states = [windows.take(tenant, Resource.REQUESTS, most) for _ in range(most + 3)]
    assert [state.is_granted for state in states] == [True] * most + [False] * 3
    assert [state.remaining for state in states[:most]] == list(range(most))[::-1]
    assert states[-1].reset_s == pytest.approx(40)
    clock[0] += 40
    assert windows.take(tenant, Resource.REQUESTS, most).is_granted


def test_several_processes_together_keep_the_limit(storage: Storage, tenant: UUID) -> None:
    processes = [windows_at(storage, [NOON_S]) for _ in range(3)]

    def use(windows: Windows) -> int:
        takes = [windows.take(tenant, Resource.REQUESTS, 200) for _ in range(150)]
        return sum(state.is_granted for state in takes)

    with ThreadPoolExecutor(3) as pool:
        granted = sum(pool.map(use, processes))
    assert 200 - 2 * 4 <= granted <= 200, "a process may keep a fiftieth that it does not use"


def test_a_killed_process_loses_only_its_portion(storage: Storage, tenant: UUID) -> None:
    for _ in range(5):
        assert windows_at(storage, [NOON_S]).take(tenant, Resource.REQUESTS, 100).is_granted
    survivor = windows_at(storage, [NOON_S])
    granted = 0
    while survivor.take(tenant, Resource.REQUESTS, 100).is_granted:
        granted += 1
    assert granted == 100 - 5 * 2


def test_tenant_and_key_are_both_kept_and_a_refusal_costs_neither(
    storage: Storage, caller: ApiKeyRecord
) -> None:
    limit(storage, caller, requests_per_minute=5)
    limit(storage, caller, key=True, requests_per_minute=3)
    state = storage.quotas.take_request(caller)
    assert state is not None
    assert (state.limit, state.remaining) == (3, 2)
    for _ in range(2):
        storage.quotas.take_request(caller)
    for _ in range(4):
        with pytest.raises(RateLimited, match="This API key may use 3 requests a minute"):
            storage.quotas.take_request(caller)
    _, other = storage.keys.create(caller.tenant_id, "another")
    for _ in range(2):
        storage.quotas.take_request(other)
    with pytest.raises(RateLimited, match="tenant may use 5"):
        storage.quotas.take_request(other)


def test_without_a_limit_nothing_is_counted(storage: Storage, caller: ApiKeyRecord) -> None:
    assert storage.quotas.take_request(caller) is None
    assert used(storage, caller, Resource.REQUESTS) is None


def test_a_changed_limit_holds_within_seconds_for_other_processes(
    storage: Storage, caller: ApiKeyRecord
) -> None:
    other = Quotas(storage.db, "", "another process")
    other.limits._max_age_s = 0.0
    assert other.take_request(caller) is None
    limit(storage, caller, requests_per_minute=1)
    assert other.take_request(caller) is not None
    with pytest.raises(RateLimited):
        other.take_request(caller)
    storage.quotas.limits.set_for_tenant(caller.tenant_id, {Resource.REQUESTS: None})
    assert other.take_request(caller) is None


def test_redis_counts_for_all_processes_and_sql_while_it_is_away(
    storage: Storage, tenant: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = SqlCounter(storage.db)
    counters = [RedisCounter(redis_url(), sql, f"test-{tenant}") for _ in range(2)]
    first, second = (Windows(counter, lambda: NOON_S) for counter in counters)
    grants = [windows.take(tenant, Resource.REQUESTS, 10) for windows in (first, second) * 6]
    assert sum(state.is_granted for state in grants) == 10
    assert sql.used(first.window(tenant, Resource.REQUESTS)) == 0
    for counter in counters:
        monkeypatch.setattr(counter, "_retry_at_s", float("inf"))
    grants = [windows.take(tenant, Resource.REQUESTS, 10) for windows in (first, second) * 6]
    assert sum(state.is_granted for state in grants) == 10, "once more, and no more than that"
    for counter in counters:
        counter.close()


def test_a_redis_that_does_not_answer_is_done_without(storage: Storage, tenant: UUID) -> None:
    counter = RedisCounter("redis://127.0.0.1:1/0", SqlCounter(storage.db))
    windows = Windows(counter, lambda: NOON_S)
    grants = [windows.take(tenant, Resource.REQUESTS, 2).is_granted for _ in range(3)]
    assert grants == [True, True, False]
    counter.close()


# -- tokens and questions ----------------------------------------------------------------------


def test_tokens_are_taken_ahead_and_settled(storage: Storage, caller: ApiKeyRecord) -> None:
    limit(storage, caller, tokens_per_day=100)
    grant = storage.quotas.take_question(caller, 60, 300)
    assert grant.state is not None
    assert grant.state.remaining == 40
    with pytest.raises(RateLimited, match="40 are left"):
        storage.quotas.take_question(caller, 60, 300)
    grant.begin()
    grant.end(25)
    storage.quotas.settle(grant)
    storage.quotas.settle(grant)
    assert used(storage, caller, Resource.TOKENS) == 25
    assert storage.quotas.take_question(caller, 75, 300)


def test_a_question_that_never_began_costs_nothing_and_one_cut_off_all(
    storage: Storage, caller: ApiKeyRecord
) -> None:
    limit(storage, caller, tokens_per_day=100)
    storage.quotas.settle(storage.quotas.take_question(caller, 60, 300))
    assert used(storage, caller, Resource.TOKENS) == 0
    cut_off = storage.quotas.take_question(caller, 60, 300)
    cut_off.begin()
    storage.quotas.settle(cut_off)
    assert used(storage, caller, Resource.TOKENS) == 60


def test_tokens_are_counted_without_a_limit(storage: Storage, caller: ApiKeyRecord) -> None:
    grant = storage.quotas.take_question(caller, 60, 300)
    grant.begin()
    grant.end(25)
    storage.quotas.settle(grant)
    assert used(storage, caller, Resource.TOKENS) == 25
    assert (grant.state, grant.place_id) == (None, None)


@pytest.mark.parametrize("of_key", [False, True])
def test_so_many_questions_at_once(storage: Storage, caller: ApiKeyRecord, of_key: bool) -> None:
    limit(storage, caller, key=of_key, questions_at_once=2)
    first, _ = (storage.quotas.take_question(caller, 1, 300) for _ in range(2))
    with pytest.raises(RateLimited, match="may have 2 questions under way"):
        storage.quotas.take_question(caller, 1, 300)
    storage.quotas.settle(first)
    assert storage.quotas.take_question(caller, 1, 300).place_id is not None


def test_the_places_of_a_killed_process_are_free_soon(
    storage: Storage, db: Database, caller: ApiKeyRecord
) -> None:
    limit(storage, caller, questions_at_once=1)
    storage.processes.beat(storage.process, "server", "")
    storage.quotas.take_question(caller, 1, 300)
    other = Quotas(db, "", "another process")
    with pytest.raises(RateLimited):
        other.take_question(caller, 1, 300)
    with db.session() as session:
        silent = db.now(session) - timedelta(seconds=30)
        session.execute(update(Process).values(heartbeat_at=silent))
    assert other.take_question(caller, 1, 300).place_id is not None
    other.prune(NOON_S)
    assert other.places.count(caller.tenant_id) == 1


# -- stocks ------------------------------------------------------------------------------------


def add(storage: Storage, folder: Path, caller: ApiKeyRecord, text: str) -> None:
    """Add a document as an upload does."""
    data = text.encode()
    path = folder / f"file-{threading.get_ident()}"
    path.write_bytes(data)
    storage.documents.add(
        caller.tenant_id,
        path,
        sha256=f"{abs(hash(text)):064x}",
        filename="a.txt",
        kind="txt",
        media_type="text/plain",
        num_bytes=len(data),
        uploader=caller.prefix,
        admit=lambda session: storage.quotas.admit_document(session, caller, len(data)),
    )


@pytest.mark.parametrize(
    ("resource", "amount", "sentence"),
    [
        ("documents", 2, "may have 2 documents, and has 2"),
        ("queued_jobs", 2, "may have 2 documents that wait to be read, and has 2"),
        ("bytes", 25, "may have 25 B stored, and has 20 B"),
    ],
)
@pytest.mark.parametrize("of_key", [False, True])
def test_a_stock_is_never_exceeded_however_many_come_at_once(
    storage: Storage,
    caller: ApiKeyRecord,
    tmp_path: Path,
    resource: str,
    amount: int,
    sentence: str,
    of_key: bool,
) -> None:
    limit(storage, caller, key=of_key, **{resource: amount})

    def attempt(number: int) -> str:
        try:
            add(storage, tmp_path, caller, f"text {number:05}")
        except QuotaExceeded as error:
            return error.message
        return ""

    with ThreadPoolExecutor(4) as pool:
        messages = list(pool.map(attempt, range(6)))
    assert messages.count("") == 2
    assert sum(sentence in message for message in messages) == 4, messages
    assert len(list(storage.blobs.keys())) == 2, "what was refused is not kept"
    with pytest.raises(QuotaExceeded):
        storage.quotas.check_upload(caller, 10)


def test_the_limit_of_one_key_is_nothing_to_another(
    storage: Storage, caller: ApiKeyRecord, tmp_path: Path
) -> None:
    limit(storage, caller, key=True, documents=1)
    _, other = storage.keys.create(caller.tenant_id, "another")
    for one, text in ((caller, "mine"), (other, "theirs"), (other, "more")):
        add(storage, tmp_path, one, text)
    with pytest.raises(QuotaExceeded, match="This API key"):
        storage.quotas.check_upload(caller, 1)
    storage.quotas.check_upload(other, 1)
    assert used(storage, caller, Resource.DOCUMENTS) == 3


def test_a_tenants_limit_is_nothing_to_another_tenant(
    storage: Storage, caller: ApiKeyRecord, tmp_path: Path
) -> None:
    limit(storage, caller, documents=0)
    _, other = storage.keys.create(storage.tenants.create("other"), "other")
    storage.quotas.check_upload(other, 1)
    send_text(storage, tmp_path, other.tenant_id, "A text.")
    assert used(storage, caller, Resource.DOCUMENTS) == 0
