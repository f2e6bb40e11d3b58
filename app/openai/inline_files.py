"""Files that come inside a message: stored as documents, and waited for until they are read."""

import asyncio
import base64
import binascii
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from app.documents.adding import add_document
from app.documents.upload import received_bytes
from app.documents.wishes import UploadWishes
from app.http.exchange import INLINE_FILE_BYTES
from app.openai.schemas import FileReference
from app.services.document_loader import check_ready, ready_document
from app.services.services import Services
from app.services.upload_room import STOPPING
from common.errors import InvalidInput, NotReady, ScopeMissing, ShuttingDown
from common.scopes import Scope
from storage.db.records import ApiKeyRecord, DocumentRecord

LOOK_S = 0.2
FILENAME = "file"
IsGone = Callable[[], Awaitable[bool]]  # whether the caller has closed the connection


async def read_inline_file(
    services: Services, caller: ApiKeyRecord, file: FileReference, param: str, is_gone: IsGone
) -> DocumentRecord:
    """Store a file's data as a document, and wait until it can be asked about.

    The same data again is the same document. A new one is kept as long as conversations are.

    Args:
        file: with `file_data`, base64 or a data URL of it.
        param: name of the parameter that holds the messages.
    Raises: ScopeMissing if the key may not upload; InvalidInput, UploadTooLarge; what the
        inspection finds; DocumentFailed; DocumentNotReady if it takes longer than a question may;
        ClientDisconnect.
    """
    if Scope.WRITE not in caller.scopes:
        raise ScopeMissing(
            f"A file inside a message is an upload: this key lacks the scope `{Scope.WRITE}`."
        )
    if services.question_queue.is_draining:
        raise ShuttingDown(STOPPING)
    data = await run_in_threadpool(decode, file.file_data or "", param)
    room, folder = services.upload_room, services.data_dir / "incoming"
    most_bytes = min(INLINE_FILE_BYTES, services.config.max_upload_bytes)
    await run_in_threadpool(services.storage.quotas.check_upload, caller, len(data))
    wishes = UploadWishes(ttl_s=int(3600 * services.storage.config.conversation_hours))
    name = file.filename or FILENAME
    async with received_bytes(data, name, folder, most_bytes, room.run) as upload:
        kind = await room.inspect(upload.path, upload.filename, caller.owner)
        document = await room.run(add_document, services, caller, upload, kind, wishes)
    return await _wait_until_read(services, caller, document.id, is_gone)


def decode(text: str, param: str) -> bytes:
    """Decode base64, or a data URL of it. Raises: InvalidInput."""
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.endswith(";base64"):
            text = "?"
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(
            f"{param}: file_data is base64, or a data URL of it.", param=param
        ) from error


async def _wait_until_read(
    services: Services, caller: ApiKeyRecord, document_id: UUID, is_gone: IsGone
) -> DocumentRecord:
    documents = services.storage.documents
    until_s = time.monotonic() + services.config.question_timeout_s
    while True:
        document = await run_in_threadpool(documents.get, caller.tenant_id, document_id)
        try:
            check_ready(document)
            return document
        except NotReady:
            if time.monotonic() >= until_s:
                return await run_in_threadpool(
                    ready_document, services.storage, caller.tenant_id, document_id
                )
        if services.question_queue.is_draining:
            raise ShuttingDown(STOPPING)
        if await is_gone():
            raise ClientDisconnect
        await asyncio.sleep(LOOK_S)
