"""Which connection is closed when there are too many."""

import pytest
from structlog.testing import capture_logs

from app.http.connections import RESERVE, Connections, address_group


class Fake:
    """A connection that notes whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close_to_make_room(self) -> None:
        assert not self.is_closed
        self.is_closed = True


def opened(register: Connections, count: int, address: str = "a") -> list[Fake]:
    fakes = [Fake() for _ in range(count)]
    for fake in fakes:
        register.add(fake, address)
    return fakes


def closed(fakes: list[Fake]) -> list[bool]:
    return [fake.is_closed for fake in fakes]


def test_the_oldest_connection_of_a_crowded_address_goes_first() -> None:
    register = Connections(max_connections=1000, per_address=3)
    others = opened(register, 3, "b")
    assert closed(opened(register, 5)) == [True, True, False, False, False]
    assert closed(others) == [False] * 3
    assert len(register) == 6


def test_one_that_had_a_key_goes_after_those_that_had_none() -> None:
    register = Connections(max_connections=1000, per_address=2)
    known, stranger = opened(register, 2)
    assert register.begin(known)
    register.wait(known, "a", known=True)
    (third,) = opened(register, 1)
    assert closed([known, stranger, third]) == [False, True, False]


def test_a_request_with_a_key_is_never_cut_off() -> None:
    register = Connections(max_connections=1000, per_address=1)
    busy = opened(register, 1)[0]
    assert register.begin(busy)
    assert closed(opened(register, 5)) == [True] * 4 + [False]
    assert not busy.is_closed
    register.remove(busy)
    assert len(register) == 1


def test_in_all_the_oldest_goes_but_some_may_always_wait() -> None:
    register = Connections(max_connections=100, per_address=1000)
    busy = opened(register, 90, "keys")
    assert all(register.begin(fake) for fake in busy)
    waiting = [opened(register, 1, f"host-{number}")[0] for number in range(RESERVE + 10)]
    assert closed(waiting) == [True] * 10 + [False] * RESERVE
    assert closed(busy) == [False] * 90
    late = waiting[-10:]
    assert [register.begin(fake) for fake in [*late, waiting[-11]]] == [True] * 10 + [False]


def test_a_request_of_a_proxy_counts_for_the_proxys_client() -> None:
    register = Connections(max_connections=1000, per_address=2)
    of_client, of_other = [], []
    for number in range(6):
        (fake,) = opened(register, 1, "proxy")
        register.wait(fake, "client" if number % 2 else "other", known=False)
        (of_client if number % 2 else of_other).append(fake)
    assert closed(of_client) == closed(of_other) == [True, False, False]


def test_what_was_closed_is_one_line_with_a_number() -> None:
    register = Connections(max_connections=1000, per_address=1)
    opened(register, 501)
    register.note_cut("slow_head")
    with capture_logs() as logs:
        register.log_cuts()
        register.log_cuts()
    counts = {line["code"]: line["num_connections"] for line in logs}
    assert counts == {"too_many_connections": 500, "slow_head": 1}


def test_nothing_is_kept_of_connections_that_are_gone() -> None:
    register = Connections(max_connections=10, per_address=10)
    for number in range(100):
        (fake,) = opened(register, 1, f"host-{number}")
        register.begin(fake)
        register.remove(fake)
        register.remove(fake)
    assert len(register) == 0
    assert not register._waiting_of


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("testclient", "testclient"),
        ("x" * 5000, "x" * 100),
    ],
)
def test_addresses_of_one_subscriber_count_as_one(host: str, group: str) -> None:
    assert address_group(host) == group
