"""Receiving files: bounded, hashed, cleaned up, and their names only labels."""

import asyncio
import errno
import fcntl
import hashlib
import io
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request

from app.documents import upload
from app.documents.upload import display_name, receive_file, remove_leftovers
from app.http import errors

pytestmark = pytest.mark.anyio
MAX_BYTES = 3_000_000


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An app that receives a file and tells what arrived."""
    app = FastAPI()
    errors.install(app)

    @app.post("/")
    async def take(request: Request) -> dict[str, str | int]:
        async with receive_file(request, tmp_path / "incoming", MAX_BYTES) as file:
            stored = hashlib.sha256(file.path.read_bytes()).hexdigest()
            return {
                "name": file.filename,
                "sha256": file.sha256,
                "stored": stored,
                "size": file.num_bytes,
            }

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://test"
    ) as client:
        yield client


@pytest.fixture
def leftovers(tmp_path: Path):
    """What lies in the folder of incoming files."""
    return lambda: sorted((tmp_path / "incoming").glob("*"))


def form(parts: list[bytes], end: bytes = b"--cut--\r\n") -> dict[str, object]:
    body = b"".join(b"--cut\r\n" + part + b"\r\n" for part in parts) + end
    return {"content": body, "headers": {"content-type": "multipart/form-data; boundary=cut"}}


def part(disposition: bytes, content: bytes) -> bytes:
    return b"Content-Disposition: form-data; " + disposition + b"\r\n\r\n" + content


@pytest.mark.parametrize("num_bytes", [0, 1, 70_000, 2_500_000, MAX_BYTES])
async def test_a_file_arrives_whole(client, leftovers, num_bytes: int) -> None:
    content = os.urandom(num_bytes)
    got = (await client.post("/", files={"file": ("a.txt", content)})).json()
    assert got["size"] == num_bytes
    assert got["sha256"] == got["stored"] == hashlib.sha256(content).hexdigest()
    assert got["name"] == "a.txt"
    assert leftovers() == []


async def test_other_fields_are_passed_over(client) -> None:
    response = await client.post(
        "/", data={"purpose": "user_data"}, files={"file": ("a.txt", b"text")}
    )
    assert response.json()["size"] == 4


@pytest.mark.parametrize("is_sent_in_pieces", [False, True])
async def test_a_file_over_the_limit_is_refused_and_removed(
    client, leftovers, is_sent_in_pieces: bool
) -> None:
    content = b"x" * (MAX_BYTES + 1)  # in pieces, the last of them are not yet written
    file = io.BytesIO(content) if is_sent_in_pieces else content
    response = await client.post("/", files={"file": ("a.txt", file)})
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "upload_too_large"
    assert leftovers() == []


@pytest.mark.parametrize(
    "request_",
    [
        {"content": b"plain", "headers": {"content-type": "text/plain"}},
        {"content": b"", "headers": {}},
        {"content": b"x", "headers": {"content-type": "multipart/form-data"}},
        {"content": b"no parts", "headers": {"content-type": "multipart/form-data; boundary=cut"}},
        form([part(b'name="other"; filename="a.txt"', b"text")]),
        form([part(b'name="file"', b"a field, not a file")]),
        form([part(b'name="file"; filename="a.txt"', b"text")], end=b""),
        form([part(b'name="file"; filename="a.txt"', b"text")] * 2),
        form([b"no header\r\n\r\ntext"]),
        form([part(b'name="other"', b"x")] * 100),
    ],
)
async def test_what_is_no_upload_is_refused(client, leftovers, request_) -> None:
    response = await client.post("/", **request_)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_input"
    assert leftovers() == []


async def test_a_caller_who_leaves_leaves_no_file(client, leftovers) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield b'--cut\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        yield b"x" * 2_000_000
        assert len(leftovers()) == 1
        raise asyncio.CancelledError

    headers = {"content-type": "multipart/form-data; boundary=cut"}
    with pytest.raises(asyncio.CancelledError):
        await client.post("/", content=half(), headers=headers)
    assert leftovers() == []


async def test_a_full_disk_is_told_and_cleaned_up(client, leftovers, monkeypatch) -> None:
    def full(file: object, data: bytearray) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/secret/path")

    monkeypatch.setattr(upload, "_write", full)
    response = await client.post("/", files={"file": ("a.txt", b"text")})
    assert response.status_code == 507
    assert response.json()["error"]["code"] == "storage_full"
    assert "secret" not in response.text
    assert leftovers() == []


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\notes.txt", "notes.txt"),
        ("a\x00b\r\nX-Evil: 1.txt", "abX-Evil: 1.txt"),
        ("gnp\u202etxt.exe", "gnptxt.exe"),
        ("zażółć 漢字 💥.md", "zażółć 漢字 💥.md"),
        ("", "document"),
        ("/", "document"),
        ("..", ".."),
        ('quote".txt', 'quote".txt'),
    ],
)
def test_a_name_is_a_label(given: str, shown: str) -> None:
    assert display_name(given) == shown


def test_a_long_name_keeps_its_ending() -> None:
    assert display_name("x" * 5000 + ".docx").endswith(".docx")
    assert len(display_name("x" * 5000 + ".docx")) <= 200
    assert len(display_name("." + "x" * 5000)) <= 200


@pytest.mark.parametrize(
    "filename", [b"a\r\nX-Evil: 1.txt", b'a"; x="1.txt', b"\xff\xfe.txt", b"..\\..\\x.txt"]
)
async def test_a_hostile_name_changes_no_header(client, filename: bytes) -> None:
    response = await client.post(
        "/", **form([part(b'name="file"; filename="' + filename + b'"', b"t")])
    )
    assert "x-evil" not in response.headers
    assert response.status_code in (200, 400)
    assert set(response.headers) == {"content-length", "content-type"}


def test_leftovers_are_swept_and_what_is_being_received_is_kept(tmp_path: Path) -> None:
    leftover, other = tmp_path / "upload-a", tmp_path / "other"
    for path in (leftover, other):
        path.write_bytes(b"x")
    spool = upload._Spool(tmp_path, 10)
    os.utime(spool.path, (0, 0))  # however old it looks: clocks jump
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == [other, spool.path]
    spool.discard()
    assert list(tmp_path.iterdir()) == [other]
    remove_leftovers(tmp_path / "missing")


def test_a_file_that_was_swept_before_its_lock_is_made_anew(tmp_path: Path, monkeypatch) -> None:
    lock, swept = fcntl.flock, []

    def sweep_once(file, operation) -> None:
        if not swept:
            swept.append(file.name)
            remove_leftovers(tmp_path)
        lock(file, operation)

    monkeypatch.setattr(upload.fcntl, "flock", sweep_once)
    spool = upload._Spool(tmp_path, 10)
    assert str(spool.path) != swept[0]
    assert list(tmp_path.iterdir()) == [spool.path]
    spool.discard()
