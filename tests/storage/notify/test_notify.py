"""Bells save waiting; without one, and with a broken one, nothing is lost but time."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from common import plugins
from storage import notify as bells
from storage.config import StorageConfig
from storage.notify import poll
from storage.notify.base import Bell, BellConfig, Event
from storage.notify.redis import RedisBell
from storage.storage import open_storage
from tests.services import redis_url
from tests.storage.relay import Relay


class Document:
    """A document's state that a test changes at will."""

    def __init__(self) -> None:
        self.id = uuid4()
        self.state: Event | None = {"status": "queued", "tokens_done": 0}

    def look(self, _: object) -> Event | None:
        return self.state


@pytest.fixture
def document() -> Document:
    """A document being read."""
    return Document()


@pytest.fixture(params=plugins.names(bells))
def name(request: pytest.FixtureRequest) -> str:
    """Every bell there is."""
    return str(request.param)


@pytest.fixture
def pair(name: str, document: Document) -> Iterator[tuple[Bell, Bell]]:
    """A server's bell and a worker's; polling can ring within one process alone."""
    url = redis_url() if name == "redis" else ""
    config = BellConfig(document.look, url=url, poll_s=0.02, channel=f"test-{uuid4().hex}")
    one: Bell = plugins.build(bells, name, config)
    two: Bell = one if name == "poll" else plugins.build(bells, name, config)
    yield one, two
    one.close()
    two.close()


def settled(bell: Bell) -> None:
    """Let a bell begin to listen; the first wait may return at once for what it has missed."""
    bell.wait(0.0)


def test_a_ring_wakes_whoever_waits(pair: tuple[Bell, Bell]) -> None:
    server, worker = pair
    settled(worker)
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(worker.wait(20.0)))
    waiter.start()
    time.sleep(0.05)
    server.ring()
    waiter.join(10.0)
    assert woken == [True]


def test_a_ring_while_nobody_waits_is_not_forgotten(pair: tuple[Bell, Bell]) -> None:
    server, worker = pair
    settled(worker)
    for _ in range(3):
        server.ring()
    assert worker.wait(5.0)
    assert not worker.wait(0.02), "three rings are one"


def test_waiting_ends_by_itself(pair: tuple[Bell, Bell]) -> None:
    settled(pair[1])
    assert not pair[1].wait(0.02)


def test_watchers_see_every_state_until_the_end(
    pair: tuple[Bell, Bell], document: Document
) -> None:
    server, worker = pair
    seen: list[Event] = []
    for state in server.subscribe(document.id):
        seen.append(state)
        done = state["tokens_done"] + 1
        document.state = {"status": "ready" if done == 3 else "reading", "tokens_done": done}
        worker.publish(document.id, {"tokens_done": done})
    assert [(state["status"], state["tokens_done"]) for state in seen] == [
        ("queued", 0),
        ("reading", 1),
        ("reading", 2),
        ("ready", 3),
    ]


def test_watching_ends_when_the_document_goes(pair: tuple[Bell, Bell], document: Document) -> None:
    watching = pair[0].subscribe(document.id)
    assert next(watching)["status"] == "queued"
    document.state = None
    assert list(watching) == []


def test_a_watcher_who_goes_is_let_go(pair: tuple[Bell, Bell], document: Document) -> None:
    gone = threading.Event()
    watching = pair[0].subscribe(document.id, gone.is_set)
    assert next(watching)["status"] == "queued"
    gone.set()
    assert list(watching) == []


def test_a_message_is_quicker_than_polling(document: Document) -> None:
    config = BellConfig(document.look, redis_url(), poll_s=60.0, channel=f"test-{uuid4().hex}")
    bell: Bell = plugins.build(bells, "redis", config)
    watching = bell.subscribe(document.id)
    assert next(watching)["status"] == "queued"
    document.state = {"status": "ready"}
    bell.publish(document.id, {"phase": "end"})
    assert [state["status"] for state in watching] == ["ready"]
    bell.close()


# -- Redis is away -----------------------------------------------------------------------------


def make(document: Document, url: str, away_s: float = 0.0) -> RedisBell:
    config = BellConfig(document.look, url, poll_s=0.02, channel=f"test-{uuid4().hex}")
    return RedisBell(config, away_s=away_s)


def test_without_redis_everything_goes_on_with_one_warning(document: Document) -> None:
    bell = make(document, "redis://127.0.0.1:9/0")
    with capture_logs() as logs:
        for _ in range(3):
            bell.ring()
            bell.publish(document.id, {"phase": "prefill"})
        assert bell.wait(5.0), "a ring of this process is heard all the same"
        assert not bell.wait(0.02)
        watching = bell.subscribe(document.id)
        assert next(watching)["status"] == "queued"
        document.state = {"status": "ready"}
        assert [state["status"] for state in watching] == ["ready"]
    assert [line["log_level"] for line in logs] == ["warning"]
    bell.close()


def test_a_redis_that_hangs_is_left_alone_for_a_while(document: Document) -> None:
    redis_url()
    with Relay("127.0.0.1", 6379) as relay:
        bell = make(document, f"redis://127.0.0.1:{relay.port}/0", away_s=60.0)
        bell.ring()
        relay.hang()
        before_s = time.monotonic()
        for _ in range(50):
            bell.ring()
            bell.publish(document.id, {"phase": "prefill"})
        assert time.monotonic() - before_s < 5
        bell.close()


def test_redis_that_comes_back_rings_again(document: Document) -> None:
    redis_url()
    with Relay("127.0.0.1", 6379) as relay:
        bell = make(document, f"redis://127.0.0.1:{relay.port}/0")
        settled(bell)
        with capture_logs() as logs:
            relay.cut()
            bell.wait(0.05)
            bell.ring()
            settled(bell)
            bell.wait(0.02)
            bell.ring()
            assert bell.wait(5.0)
        assert [line["log_level"] for line in logs] == ["warning", "info"]
        bell.close()


def test_a_data_folder_is_opened_with_the_bell_that_its_settings_name(tmp_path: Path) -> None:
    settings = StorageConfig(tmp_path / "data")
    storage = open_storage(settings)
    assert isinstance(storage.bell, poll.PollBell)
    storage.close()
    with_redis = open_storage(StorageConfig(tmp_path / "data", redis_url=redis_url()))
    assert isinstance(with_redis.bell, RedisBell)
    with_redis.close()
