"""Notifiers save waiting; without a server, or with a broken one, nothing is lost but time."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from common import plugins
from common.status import DocumentStatus
from storage import notify as notifiers
from storage.config import StorageConfig
from storage.notify.base import DocumentState, Notifier, NotifierConfig
from storage.notify.poll import PollNotifier
from storage.notify.redis import RedisNotifier
from storage.storage import open_storage
from tests.services import redis_url
from tests.storage.relay import Relay

READY = DocumentState(DocumentStatus.READY)


class WatchedDocument:
    """A document whose state a test changes."""

    def __init__(self) -> None:
        self.id = uuid4()
        self.state: DocumentState | None = DocumentState(DocumentStatus.QUEUED)

    def read_state(self) -> DocumentState | None:
        return self.state


@pytest.fixture
def document() -> WatchedDocument:
    """A document that waits to be read."""
    return WatchedDocument()


@pytest.fixture(params=plugins.names(notifiers))
def name(request: pytest.FixtureRequest) -> str:
    """Every kind of notifier."""
    return str(request.param)


@pytest.fixture
def pair(name: str, document: WatchedDocument) -> Iterator[tuple[Notifier, Notifier]]:
    """The notifiers of a server and of a worker; without Redis both are in one process."""
    url = redis_url() if name == "redis" else ""
    channel = f"test-{uuid4().hex}"
    config = NotifierConfig(url=url, poll_s=0.02, channel=channel)
    server: Notifier = plugins.build(notifiers, name, config)
    worker: Notifier = server if name == "poll" else plugins.build(notifiers, name, config)
    yield server, worker
    server.close()
    worker.close()


def begin_listening(notifier: Notifier) -> None:
    """Wait once, which may end at once because of a message from before the subscription."""
    notifier.wait_for_job(0.0)


def test_a_notification_wakes_a_worker_that_waits(pair: tuple[Notifier, Notifier]) -> None:
    server, worker = pair
    begin_listening(worker)
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(worker.wait_for_job(20.0)))
    waiter.start()
    time.sleep(0.05)
    server.notify_workers()
    waiter.join(10.0)
    assert woken == [True]


def test_a_notification_while_nobody_waits_is_not_lost(pair: tuple[Notifier, Notifier]) -> None:
    server, worker = pair
    begin_listening(worker)
    for _ in range(3):
        server.notify_workers()
    assert worker.wait_for_job(5.0)
    assert not worker.wait_for_job(0.02), "three notifications count as one"


def test_every_thread_hears_what_was_announced_while_it_was_busy(
    pair: tuple[Notifier, Notifier],
) -> None:
    server, worker = pair
    begin_listening(worker)
    has_heard, is_quiet = threading.Event(), threading.Event()

    def be_quick() -> None:
        while not is_quiet.is_set():
            if worker.wait_for_job(0.02):
                has_heard.set()

    quick = threading.Thread(target=be_quick)
    quick.start()  # with Redis it listens there from now on
    has_heard.wait(0.1)
    has_heard.clear()
    server.notify_workers()
    try:
        assert has_heard.wait(10.0)
        assert worker.wait_for_job(10.0), "this thread was busy meanwhile"
    finally:
        is_quiet.set()
        quick.join()


def test_waiting_ends_by_itself(pair: tuple[Notifier, Notifier]) -> None:
    begin_listening(pair[1])
    assert not pair[1].wait_for_job(0.02)


def test_watchers_see_every_state_until_the_end(
    pair: tuple[Notifier, Notifier], document: WatchedDocument
) -> None:
    server, worker = pair
    seen: list[tuple[str, int]] = []
    for state in server.watch(document.id, document.read_state):
        seen.append((state.status, state.tokens_done))
        done = state.tokens_done + 1
        status = DocumentStatus.READY if done == 3 else DocumentStatus.READING
        document.state = DocumentState(status, tokens_done=done)
        worker.notify_watchers(document.id)
    assert seen == [("queued", 0), ("reading", 1), ("reading", 2), ("ready", 3)]


def test_watching_ends_when_the_document_is_deleted(
    pair: tuple[Notifier, Notifier], document: WatchedDocument
) -> None:
    states = pair[0].watch(document.id, document.read_state)
    assert next(states).status == "queued"
    document.state = None
    assert list(states) == []


def test_watching_ends_when_the_watcher_stops(
    pair: tuple[Notifier, Notifier], document: WatchedDocument
) -> None:
    stop = threading.Event()
    states = pair[0].watch(document.id, document.read_state, stop.is_set)
    assert next(states).status == "queued"
    stop.set()
    assert list(states) == []


def test_a_message_is_quicker_than_polling(document: WatchedDocument) -> None:
    config = NotifierConfig(redis_url(), 60.0, f"test-{uuid4().hex}")
    notifier: Notifier = plugins.build(notifiers, "redis", config)
    states = notifier.watch(document.id, document.read_state)
    assert next(states).status == "queued"
    document.state = READY
    notifier.notify_watchers(document.id)
    assert list(states) == [READY]
    notifier.close()


def test_a_state_that_has_not_changed_is_not_repeated(
    pair: tuple[Notifier, Notifier], document: WatchedDocument
) -> None:
    server, worker = pair
    states = server.watch(document.id, document.read_state)
    next(states)
    assert document.state is not None
    document.state = replace(document.state)
    worker.notify_watchers(document.id)
    timer = threading.Timer(0.1, lambda: setattr(document, "state", READY))
    timer.start()
    assert list(states) == [READY]
    timer.join()


# -- Redis is unavailable ----------------------------------------------------------------------


def make(document: WatchedDocument, url: str, backoff_s: float = 0.0) -> RedisNotifier:
    config = NotifierConfig(url, poll_s=0.02, channel=f"test-{uuid4().hex}")
    return RedisNotifier(config, backoff_s=backoff_s)


def test_without_redis_everything_goes_on_with_one_warning(document: WatchedDocument) -> None:
    notifier = make(document, "redis://127.0.0.1:9/0")
    with capture_logs() as logs:
        for _ in range(3):
            notifier.notify_workers()
            notifier.notify_watchers(document.id)
        assert notifier.wait_for_job(5.0), "notifications of this process still arrive"
        assert not notifier.wait_for_job(0.02)
        states = notifier.watch(document.id, document.read_state)
        assert next(states).status == "queued"
        document.state = READY
        assert list(states) == [READY]
    assert [line["log_level"] for line in logs] == ["warning"]
    notifier.close()


def test_a_redis_that_hangs_is_not_asked_for_a_while(document: WatchedDocument) -> None:
    redis_url()
    with Relay("127.0.0.1", 6379) as relay:
        notifier = make(document, f"redis://127.0.0.1:{relay.port}/0", backoff_s=60.0)
        notifier.notify_workers()
        relay.hang()
        before_s = time.monotonic()
        for _ in range(50):
            notifier.notify_workers()
            notifier.notify_watchers(document.id)
        assert time.monotonic() - before_s < 5
        notifier.close()


def test_redis_is_used_again_when_it_comes_back(document: WatchedDocument) -> None:
    redis_url()
    with Relay("127.0.0.1", 6379) as relay:
        notifier = make(document, f"redis://127.0.0.1:{relay.port}/0")
        begin_listening(notifier)
        with capture_logs() as logs:
            relay.cut()
            notifier.wait_for_job(0.05)
            notifier.notify_workers()
            begin_listening(notifier)
            notifier.wait_for_job(0.02)
            notifier.notify_workers()
            assert notifier.wait_for_job(5.0)
        assert [line["log_level"] for line in logs] == ["warning", "info"]
        notifier.close()


def test_storage_is_opened_with_the_notifier_that_its_settings_name(tmp_path: Path) -> None:
    storage = open_storage(StorageConfig(tmp_path / "data"))
    assert isinstance(storage.notifier, PollNotifier)
    storage.close()
    with_redis = open_storage(StorageConfig(tmp_path / "data", redis_url=redis_url()))
    assert isinstance(with_redis.notifier, RedisNotifier)
    with_redis.close()
