"""Documents in memory: bounded in each tier, loaded once, kept while they are used or pinned."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import (
    CorruptArtifact,
    DocumentTooLargeForMemory,
    GpuBusy,
    MemoryFull,
)
from engine.residents.documents import Lease, ResidentDocuments
from engine.residents.entry import Reason, Tier
from tests.engine.residents.memory import Document, Machine, Memory

LOTS = 1 << 40


@dataclass
class Stored:
    """A document on the disk, which counts its loads; a `Source`."""

    name: object
    num_bytes: int
    memory: Memory
    num_loads: int = 0
    num_loading: int = 0

    def __call__(self) -> "Stored":
        return self

    def load(self) -> Document:
        """See `Source.load`."""
        self.num_loads += 1
        self.num_loading += 1
        assert self.num_loading == 1
        try:
            return Document(self.name, self.num_bytes, self.memory)
        finally:
            self.num_loading -= 1


class Bench:
    """Documents of a machine, and its disk."""

    def __init__(
        self, device: int, host: int = 0, room_timeout_s: float = 0.0, patience_s: float = 0.0
    ) -> None:
        self.machine = Machine(Memory(device, patience_s), Memory(host, patience_s))
        self.documents = ResidentDocuments[Document](device, host, self.machine, room_timeout_s)
        self.disk: dict[Hashable, Stored] = {}

    def stored(self, name: Hashable, num_bytes: int = 40) -> Stored:
        return self.disk.setdefault(name, Stored(name, num_bytes, self.machine.device))

    def lease(
        self, name: Hashable, num_bytes: int = 40, *, pinned: bool = False
    ) -> Lease[Document]:
        source = self.stored(name, num_bytes)
        return self.documents.lease(name, source, document=name, pinned=pinned)

    def use(self, name: Hashable, num_bytes: int = 40) -> Tier:
        """Use a document for a moment; return where it was."""
        with self.lease(name, num_bytes) as lease:
            assert lease.cache.name == name
            return lease.tier


def test_a_second_question_finds_the_document_on_the_device() -> None:
    bench = Bench(100)
    with bench.lease("a") as first, bench.lease("a") as second:
        assert (first.hit, second.hit, second.load_ms) == (False, True, 0)
        assert second.cache is first.cache
    occupancy = bench.documents.occupancy()
    assert (occupancy.hits, occupancy.misses) == (1, 1)


def test_the_document_used_the_longest_ago_goes_first() -> None:
    bench = Bench(100)
    for name in "abac":
        bench.use(name)
    assert [bench.use(name) for name in "acb"] == [Tier.DEVICE, Tier.DEVICE, Tier.DISK]
    assert bench.documents.occupancy().device.evictions == {Reason.ROOM: 2}


def test_what_makes_room_goes_to_the_hosts_memory_and_comes_back_from_there() -> None:
    bench = Bench(device=80, host=40)
    for name in "abc":
        bench.use(name)
    assert bench.documents.tiers() == {"a": Tier.HOST, "b": Tier.DEVICE, "c": Tier.DEVICE}
    assert bench.use("a") is Tier.HOST
    assert bench.stored("a").num_loads == 1
    assert bench.documents.occupancy().loads == {Tier.DISK: 3, Tier.HOST: 1}
    assert bench.machine.host.most_bytes <= 40


def test_the_host_rather_loses_a_copy_of_what_is_on_the_device() -> None:
    bench = Bench(device=80, host=120)
    for name in "abcda":  # "a" and "b" went to the host; "a" came back, and "c" went
        bench.use(name)
    assert bench.documents.occupancy().host.documents == 3
    bench.use("e")  # "d" takes the place of the copy of "a"
    on_host = dict.fromkeys("bcd", Tier.HOST)
    assert bench.documents.tiers() == on_host | dict.fromkeys("ae", Tier.DEVICE)


def test_a_document_larger_than_the_device_is_refused_at_once() -> None:
    bench = Bench(100, room_timeout_s=60)
    bench.use("small")
    with pytest.raises(DocumentTooLargeForMemory):
        bench.lease("large", 101)
    assert bench.stored("large").num_loads == 0
    assert bench.use("small") is Tier.DEVICE


def test_many_questions_at_once_load_a_document_once() -> None:
    bench, gate = Bench(100), threading.Event()
    stored = bench.stored("a")

    def open_slowly() -> Stored:
        gate.wait(10)
        return stored

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(bench.documents.lease, "a", open_slowly) for _ in range(8)]
        gate.set()
        leases = [future.result(10) for future in waiting]
    assert len({id(lease.cache) for lease in leases}) == 1
    assert stored.num_loads == 1
    for lease in leases:
        lease.close()
        lease.close()
    assert bench.documents.occupancy().device.leased_bytes == 0


def test_a_failed_load_reaches_all_who_wait_and_is_tried_again() -> None:
    bench, gate = Bench(100), threading.Event()

    def fail() -> Stored:
        gate.wait(10)
        raise CorruptArtifact("bits flipped")

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(bench.documents.lease, "a", fail) for _ in range(4)]
        gate.set()
        for future in waiting:
            with pytest.raises(CorruptArtifact):
                future.result(10)
    assert bench.documents.occupancy().device.num_bytes == 0
    assert bench.use("a") is Tier.DISK


def test_a_document_in_use_stays_and_a_load_waits_for_its_room() -> None:
    bench = Bench(100, room_timeout_s=10)
    lease = bench.lease("a", 80)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bench.use, "b", 80)
        assert not waiting.done()
        assert lease.cache.num_bytes == bench.machine.device.num_bytes
        lease.close()
        del lease
        assert waiting.result(10) is Tier.DISK


def test_a_refusal_says_what_fills_the_memory() -> None:
    bench = Bench(1000)
    with bench.lease("pinned", 600, pinned=True), bench.lease("asked", 300):
        pass
    lease = bench.lease("asked", 300)
    with pytest.raises(MemoryFull, match=r"500 B.*1000 B, pinned documents have 600 B"):
        bench.lease("b", 500)
    lease.close()
    assert bench.documents.occupancy().device.num_bytes == 900


def test_a_pinned_document_stays_until_it_is_unpinned() -> None:
    bench = Bench(100)
    bench.use("a", 60)
    bench.documents.set_pinned("a", True)
    with pytest.raises(MemoryFull):
        bench.lease("b", 60)
    bench.documents.set_pinned("a", False)
    assert bench.use("b", 60) is Tier.DISK


def test_a_device_without_memory_evicts_others_and_tries_once_more() -> None:
    bench = Bench(100)
    bench.documents = ResidentDocuments[Document](LOTS, LOTS, bench.machine)  # a wrong limit
    bench.machine.host.limit_bytes = LOTS
    bench.use("a", 60)
    assert bench.use("b", 60) is Tier.DISK
    assert bench.documents.occupancy().device.evictions == {Reason.OUT_OF_MEMORY: 1}
    assert bench.use("a", 60) is Tier.HOST
    with bench.lease("a", 60), pytest.raises(GpuBusy):
        bench.lease("b", 60)
    assert bench.documents.occupancy().device.num_bytes == 60


def test_what_was_made_on_the_device_is_resident_without_a_load() -> None:
    bench = Bench(100)
    bench.use("other", 60)
    with bench.documents.room(60) as room:  # evicts the other one
        made = Document("a", 60, bench.machine.device)
        lease = bench.documents.put("a", made, document="a", room=room)
    with bench.lease("a") as found:
        assert found.hit
        assert found.cache is made
    with pytest.raises(MemoryFull):  # it cannot be evicted before it is stored
        bench.lease("b", 60)
    lease.close()
    del lease, found, made
    assert bench.use("b", 60) is Tier.DISK
    assert bench.stored("a").num_loads == 0


def test_room_that_is_not_used_is_given_back() -> None:
    bench = Bench(100)
    with bench.documents.room(60), pytest.raises(MemoryFull):
        bench.lease("a", 60)
    assert bench.use("a", 60) is Tier.DISK


def test_a_document_that_was_read_again_replaces_its_earlier_cache() -> None:
    bench = Bench(100)
    old = bench.documents.lease("old", bench.stored("old"), document="doc")
    new = Document("new", 40, bench.machine.device)
    bench.documents.put("new", new, document="doc").close()
    assert old.cache.name == "old"  # whoever uses it keeps it
    old.close()
    del old
    assert bench.documents.occupancy().device.num_bytes == 40
    assert bench.machine.device.num_bytes == 40


def test_a_dropped_document_stays_counted_until_nobody_uses_it() -> None:
    bench = Bench(100)
    lease = bench.lease("a")
    bench.documents.drop("a")
    bench.documents.drop("unknown")
    assert bench.documents.occupancy().device.num_bytes == 40
    lease.close()
    assert bench.documents.occupancy().device.num_bytes == 0
    assert bench.use("a") is Tier.DISK


class Addresses:
    """Follows what is on the device, as a table of addresses does; a `Listener`."""

    def __init__(self) -> None:
        self.present: dict[Document, Hashable] = {}

    @property
    def keys(self) -> set[Hashable]:
        return set(self.present.values())

    def entered(self, key: Hashable, cache: Document) -> None:
        assert cache not in self.present
        self.present[cache] = key

    def left(self, key: Hashable, cache: Document) -> None:
        assert self.present.pop(cache) == key


def test_a_listener_follows_what_is_on_the_device() -> None:
    bench, table = Bench(100, host=100), Addresses()
    bench.use("a")
    bench.documents.listen(table)
    assert table.keys == {"a"}
    with bench.lease("b"):
        bench.documents.drop("b")
        assert table.keys == {"a", "b"}
    assert table.keys == {"a"}
    for name in "cde":
        bench.use(name)
        assert table.keys == {
            key for key, tier in bench.documents.tiers().items() if tier is Tier.DEVICE
        }


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["use", "use", "hold", "put", "pin", "unpin", "drop", "evict"]),
        st.integers(0, 7),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(operations=OPERATIONS, device=st.integers(40, 160), host=st.integers(0, 120))
def test_limits_leases_and_pins_hold_whatever_is_done(
    operations: list[tuple[str, int]], device: int, host: int
) -> None:
    run = _Run(Bench(device, host))
    for name, number in operations:
        run.do(name, number)
    run.check_end()


@pytest.mark.parametrize("seed", range(3))
def test_limits_leases_and_pins_hold_under_threads(seed: int) -> None:
    run = _Run(Bench(150, 90, room_timeout_s=0.02, patience_s=10.0))

    def work(number: int) -> None:
        chance = random.Random(1000 * seed + number)
        names = ("use", "use", "hold", "put", "pin", "unpin", "drop", "evict")
        for _ in range(150):
            run.do(chance.choice(names), chance.randrange(8))

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(work, number) for number in range(6)]:
            future.result(60)
    run.check_end()


class _Run:
    """Does operations on documents of different sizes and checks what must hold throughout."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.table = Addresses()
        bench.documents.listen(self.table)
        self.held: list[Lease[Document]] = []
        self.errors: Counter[str] = Counter()

    def do(self, name: str, number: int) -> None:
        operation: Callable[[int], None] = getattr(self, f"_{name}")
        try:
            operation(number)
        except (MemoryFull, DocumentTooLargeForMemory) as error:
            self.errors[error.code] += 1  # GpuBusy never comes: the limits are the memories' own
        self._check()

    def _check(self) -> None:
        machine, occupancy = self.bench.machine, self.bench.documents.occupancy()
        assert machine.device.most_bytes <= machine.device.limit_bytes
        assert machine.host.most_bytes <= machine.host.limit_bytes
        for load in (occupancy.device, occupancy.host):
            assert 0 <= load.num_bytes <= load.limit_bytes
        for lease in tuple(self.held):
            assert lease.cache in self.table.present

    def check_end(self) -> None:
        while self.held:
            self.held.pop().close()
        self.bench.documents.clear()
        occupancy = self.bench.documents.occupancy()
        assert (occupancy.device.num_bytes, occupancy.host.num_bytes) == (0, 0)
        machine = self.bench.machine
        assert (machine.device.num_bytes, machine.host.num_bytes) == (0, 0)
        assert not self.table.present

    def _use(self, number: int) -> None:
        with self.bench.lease(number, 10 + 7 * number) as lease:
            assert lease.cache.name == number
            assert lease.cache in self.table.present

    def _hold(self, number: int) -> None:
        if len(self.held) > 1:
            self.held.pop(0).close()
        self.held.append(self.bench.lease(number, 10 + 7 * number))

    def _put(self, number: int) -> None:
        documents, num_bytes = self.bench.documents, 10 + 7 * number
        with documents.room(num_bytes) as room:
            made = Document(number, num_bytes, self.bench.machine.device)
            documents.put(number, made, document=number, room=room).close()
            del made

    def _pin(self, number: int) -> None:
        self.bench.documents.set_pinned(number, True)

    def _unpin(self, number: int) -> None:
        self.bench.documents.set_pinned(number, False)

    def _drop(self, number: int) -> None:
        self.bench.documents.drop(number)

    def _evict(self, number: int) -> None:
        self.bench.documents.evict(10 * number)
