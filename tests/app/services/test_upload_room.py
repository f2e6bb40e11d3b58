"""Slow files keep nothing else from being answered, and one key's files not those of others."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.config import ServerConfig
from app.services import upload_room
from app.services.upload_room import UploadRoom
from common.errors import Busy, DocumentRejected, EncryptedPdf, ShuttingDown
from common.owner import Owner
from ingest.inspect import Kind
from ingest.limits import MIB, Limits
from tests.ingest import samples

pytestmark = pytest.mark.anyio
MINE, YOURS = Owner("tenant", "mine"), Owner("tenant", "yours")


class SlowInspection:
    """Stands for processes that take until they are released; notes what they were given."""

    def __init__(self) -> None:
        self.limits: list[Limits] = []
        self.names: list[str] = []
        self.release = threading.Event()

    def __call__(self, path: Path, filename: str, limits: Limits, check: Any) -> Kind:
        self.limits.append(limits)
        self.names.append(filename)
        while not self.release.wait(0.01):
            check()
        return Kind("pdf", "application/pdf")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowInspection]:
    """Every file that takes a process is slow."""
    inspection = SlowInspection()
    monkeypatch.setattr(upload_room, "inspect_limited", inspection)
    yield inspection
    inspection.release.set()


@pytest.fixture
def stopping_s() -> list[float]:
    """For how many seconds the server has been stopping, as the last item."""
    return [0.0]


@pytest.fixture
def room(stopping_s: list[float]) -> UploadRoom:
    """Room with two processes."""
    return UploadRoom(ServerConfig(), Limits(), lambda: stopping_s[-1])


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    """A file that takes a process."""
    return put(tmp_path, "a.pdf", samples.encrypted_pdf(""))


@pytest.fixture
def docx(tmp_path: Path) -> Path:
    """Another file that takes a process."""
    return put(tmp_path, "a.docx", samples.docx_file())


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 threads set no asyncio event
            await asyncio.sleep(0.005)


async def test_plain_files_wait_for_no_process(
    room: UploadRoom, slow: SlowInspection, pdf: Path, tmp_path: Path
) -> None:
    waiting = [asyncio.create_task(room.inspect(pdf, "a.pdf", MINE)) for _ in range(20)]
    text = put(tmp_path, "a.txt", b"plain text")
    plain = put(tmp_path, "b.pdf", samples.pdf())
    async with asyncio.timeout(10):
        assert (await room.inspect(text, "a.txt", MINE)).name == "txt"
        assert (await room.inspect(plain, "b.pdf", MINE)).name == "pdf"
    slow.release.set()
    await asyncio.gather(*waiting)


async def test_another_keys_file_is_next_however_many_one_key_sent(
    room: UploadRoom, slow: SlowInspection, pdf: Path
) -> None:
    waiting = [asyncio.create_task(room.inspect(pdf, "mine", MINE)) for _ in range(20)]
    await until(lambda: slow.names == ["mine"])
    waiting.append(asyncio.create_task(room.inspect(pdf, "yours", YOURS)))
    await until(lambda: slow.names == ["mine", "yours"])
    slow.release.set()
    await asyncio.gather(*waiting)
    assert len(slow.names) == 21


async def test_processes_keep_the_limits_of_extraction_and_share_their_memory(
    slow: SlowInspection, pdf: Path
) -> None:
    slow.release.set()
    config = ServerConfig(inspections=4, inspection_memory_bytes=400 * MIB)
    for limits, timeout_s, memory_bytes in (
        (Limits(), 10.0, 100 * MIB),
        (Limits(timeout_s=3.0, memory_bytes=64 * MIB), 3.0, 64 * MIB),
    ):
        await UploadRoom(config, limits, lambda: 0.0).inspect(pdf, "a.pdf", MINE)
        assert (slow.limits[-1].timeout_s, slow.limits[-1].memory_bytes) == (
            timeout_s,
            memory_bytes,
        )


async def test_a_file_that_waits_in_vain_is_taken_for_what_it_seems_or_refused(
    room: UploadRoom,
    slow: SlowInspection,
    pdf: Path,
    docx: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upload_room, "WAIT_S", 0.1)
    first = asyncio.create_task(room.inspect(pdf, "a.pdf", MINE))
    await until(lambda: slow.names)
    assert (await room.inspect(pdf, "a.pdf", MINE)).name == "pdf"
    with pytest.raises(Busy) as refused:
        await room.inspect(docx, "a.docx", MINE)
    assert refused.value.retry_after_s
    assert not first.done(), "a file whose process runs is not given up"
    slow.release.set()
    await first


async def test_a_stopping_server_ends_the_processes(
    room: UploadRoom, slow: SlowInspection, pdf: Path, stopping_s: list[float]
) -> None:
    running = asyncio.create_task(room.inspect(pdf, "a.pdf", MINE))
    await until(lambda: slow.names)
    stopping_s.append(6.0)
    with pytest.raises(ShuttingDown):
        await running


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("a.pdf", samples.encrypted_pdf("secret"), EncryptedPdf),
        ("a.docx", samples.zip_bomb(30_000_000), DocumentRejected),
    ],
)
async def test_real_processes_refuse_what_cannot_be_read(
    room: UploadRoom, tmp_path: Path, name: str, data: bytes, error: type[DocumentRejected]
) -> None:
    with pytest.raises(error):
        await room.inspect(put(tmp_path, name, data), name, MINE)


async def test_a_slow_file_is_accepted_when_its_time_is_over(tmp_path: Path) -> None:
    limits = Limits(timeout_s=0.5)
    room = UploadRoom(ServerConfig(), limits, lambda: 0.0)
    path = put(tmp_path, "slow.pdf", samples.slow_pdf(20_000))
    async with asyncio.timeout(30):
        assert (await room.inspect(path, "slow.pdf", MINE)).name == "pdf"
