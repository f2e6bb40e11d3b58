"""The work for an upload must not show whether another tenant has the same file.

The work is counted, not timed: it is the SQL statements and file operations in their order.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event
from starlette.testclient import TestClient

from app.services.services import Services
from tests.app.seeding import TEXT, StorageSeeder

FILE_EVENTS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"})
BY_CHANCE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|upload-\w+|req_\w+")
QUESTION = {"question": "When does the gate close?", "max_tokens": 2}
Headers = dict[str, str]


class FileLog:
    """Names of the file operations below a folder, while one is being watched."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.work: list[str] = []
        sys.addaudithook(self._hear)  # for good: hooks cannot be taken off

    def _hear(self, name: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None or name not in FILE_EVENTS:
            return
        paths = [str(path) for path in arguments if str(path).startswith(str(self.folder))]
        if paths:
            self.work.append(BY_CHANCE.sub("*", " ".join((name, *paths))))


FILES = FileLog()


@contextmanager
def counted(services: Services) -> Iterator[list[str]]:
    """Fill a list with the SQL statements and file operations of the block."""

    def hear(_: Any, __: Any, statement: str, *___: Any) -> None:
        FILES.work.append(BY_CHANCE.sub("*", statement))

    FILES.folder, FILES.work = services.data_dir, []
    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield FILES.work
    finally:
        event.remove(Engine, "before_cursor_execute", hear)
        FILES.folder = None


def send(client: TestClient, text: str, headers: Headers | None = None) -> Any:
    return client.post("/documents", files={"file": ("a.txt", text.encode())}, headers=headers)


def seen(response: Any) -> tuple[int, dict[str, str], dict[str, Any]]:
    """A response without what chance and the clock put into it."""
    headers = {name: BY_CHANCE.sub("*", value) for name, value in response.headers.items()}
    body = {name: BY_CHANCE.sub("*", str(value)) for name, value in response.json().items()}
    return response.status_code, headers, {**body, "created_at": None}


def settle(services: Services) -> None:
    """Wait until what is written to SQL after answers has been written."""
    is_done = threading.Event()
    services.background_writes.add(is_done.set)
    assert is_done.wait(10)


# -- what the other tenant may have done with the file -----------------------------------------


def nothing(_: TestClient, __: StorageSeeder, ___: Headers) -> None:
    """It is queued."""


def read(_: TestClient, seeder: StorageSeeder, __: Headers) -> None:
    seeder.publish()


def ask(client: TestClient, seeder: StorageSeeder, headers: Headers) -> None:
    seeder.publish()
    [document] = client.get("/documents", headers=headers).json()["data"]
    path = f"/documents/{document['id']}/ask"
    assert client.post(path, json=QUESTION, headers=headers).status_code == 200


def see_it_fail(_: TestClient, seeder: StorageSeeder, __: Headers) -> None:
    seeder.fail("document_too_long", "It has 9 tokens, the model holds 8.")


def delete(client: TestClient, _: StorageSeeder, headers: Headers) -> None:
    [document] = client.get("/documents", headers=headers).json()["data"]
    assert client.delete(f"/documents/{document['id']}", headers=headers).status_code == 204


@pytest.mark.parametrize("did", [nothing, read, ask, see_it_fail, delete])
def test_an_upload_is_the_same_work_whether_another_tenant_has_the_file_or_nobody(
    client: TestClient,
    services: Services,
    seeder: StorageSeeder,
    other_tenant: Headers,
    did: Callable[[TestClient, StorageSeeder, Headers], None],
) -> None:
    theirs, unknown = TEXT, TEXT[::-1]
    assert send(client, theirs, other_tenant).status_code == 202
    did(client, seeder, other_tenant)
    send(client, "The first upload opens connections.")
    settle(services)

    with counted(services) as for_theirs:
        having = send(client, theirs)
    with counted(services) as for_nobodys:
        lacking = send(client, unknown)

    assert for_theirs == for_nobodys
    assert seen(having) == seen(lacking)
    assert having.json()["status"] == "queued"
    with counted(services) as for_own:
        send(client, theirs)
    assert for_own != for_nobodys, "the count tells what is known from what is not"
    assert sum("INSERT INTO jobs" in step for step in for_nobodys) == 1
    assert sum("blobs/*" in step for step in for_nobodys) >= 2, "files are counted, too"


def test_a_question_is_the_same_work_whether_another_tenant_has_asked_or_nobody(
    client: TestClient, services: Services, seeder: StorageSeeder, other_tenant: Headers
) -> None:
    assert send(client, TEXT, other_tenant).status_code == 202
    ask(client, seeder, other_tenant)
    mine = seeder.ready(client)
    other = seeder.ready(client, TEXT[::-1])
    work, answers = [], []
    for document_id in (mine, other):
        settle(services)
        with counted(services) as steps:
            answers.append(client.post(f"/documents/{document_id}/ask", json=QUESTION).json())
        # Sorted, as several threads open files at the same time.
        work.append(sorted(step for step in steps if "artifacts" in step))
    assert [answer["cache_hit"] for answer in answers] == [False, False]
    assert work[0] == work[1]
    assert any("open" in step for step in work[0]), "it is loaded from the disk"


def test_deleting_leaves_another_tenants_file(
    client: TestClient, seeder: StorageSeeder, other_tenant: Headers
) -> None:
    send(client, TEXT, other_tenant)
    ask(client, seeder, other_tenant)
    mine = seeder.ready(client)
    assert client.delete(f"/documents/{mine}").status_code == 204
    [document] = client.get("/documents", headers=other_tenant).json()["data"]
    path = f"/documents/{document['id']}/ask"
    assert client.post(path, json=QUESTION, headers=other_tenant).json()["cache_hit"] is True
