"""A client of the server that asks many questions at once and notes when tokens come.

It is aiohttp, as in the load programs of vLLM and PegaFlow, because httpx takes up to two
milliseconds of a request and a tenth of one for each token, which would be measured too.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from bench.serving.load.workloads import Request, Workload

TIMEOUT_S = 1800.0
LINE_BYTES = 1 << 22  # of the last event, which holds the whole answer with its evidence


@dataclass(frozen=True)
class Outcome:
    """What became of one request.

    Attributes:
        first_token_ms: from the moment at which it had a place in flight to the first text.
        last_token_ms: likewise, to the last text.
        ended_s: when that came, on the clock of `time.perf_counter`.
        answer_ms: from the last text to the whole answer with its evidence.
        num_tokens: tokens of the answer.
        loaded: share of the document's cache that was read for each token.
        cache_hit: whether the document was in memory.
        timings_ms: what the server says that its parts took; those of an answer add up.
        error: the code of the error; empty if it was answered.
    """

    document: int
    first_token_ms: float
    last_token_ms: float
    ended_s: float
    answer_ms: float = 0.0
    num_tokens: int = 0
    loaded: float = 0.0
    cache_hit: bool = False
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


class LoadClient:
    """Calls a server on kept connections.

    Args:
        url, key: of the server.
        budget: what each question asks for.
        ignore_eos: whether answers go on to their last token, whatever the model says.
        mode: "free", or "quote" for answers that quote the document.
    """

    def __init__(
        self, url: str, key: str, budget: str, *, ignore_eos: bool, mode: str = "free"
    ) -> None:
        self._budget, self._mode = budget, mode
        self._ignore_eos = ignore_eos
        self._http = aiohttp.ClientSession(
            url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=aiohttp.ClientTimeout(TIMEOUT_S),
            connector=aiohttp.TCPConnector(limit=0),
            read_bufsize=LINE_BYTES,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def upload(self, name: str, text: str) -> tuple[str, dict[str, Any]]:
        """Upload a text and wait until it is read; return its id and its record.

        Raises: RuntimeError if it is refused or fails.
        """
        form = aiohttp.FormData()
        form.add_field("file", text.encode(), filename=name, content_type="text/plain")
        async with self._http.post("/documents", data=form) as reply:
            if reply.status != 202:
                raise RuntimeError(f"the upload of {name} was refused: {await reply.text()}")
            document_id = str((await reply.json())["id"])
        while True:
            async with self._http.get(f"/documents/{document_id}") as reply:
                record: dict[str, Any] = await reply.json()
            if record["status"] == "failed":
                raise RuntimeError(f"{name} was not read: {record}")
            if record["status"] == "ready":
                return document_id, record
            await asyncio.sleep(0.1)

    async def run(self, workload: Workload, ids: list[str]) -> tuple[float, list[Outcome]]:
        """Send a workload's requests; return when the first was sent, and all outcomes.

        Args:
            ids: of its documents.
        """
        places = asyncio.Semaphore(workload.in_flight or len(workload.requests))
        started_s = time.perf_counter()

        async def send(request: Request) -> Outcome:
            if request.at_s is not None:
                await asyncio.sleep(max(0.0, started_s + request.at_s - time.perf_counter()))
            async with places:
                return await self.ask(request, ids[request.document])

        outcomes = await asyncio.gather(*(send(request) for request in workload.requests))
        return started_s, list(outcomes)

    async def ask(self, request: Request, document_id: str) -> Outcome:
        """Ask one question and read its answer to the end."""
        body: dict[str, Any] = {
            "question": request.question,
            "budget": self._budget,
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "stream": True,
            "mode": self._mode,
        }
        if self._ignore_eos:
            body["ignore_eos"] = True
        started_s, first_s, last_s = time.perf_counter(), 0.0, 0.0
        answer: dict[str, Any] = {}
        error = "no_answer"
        try:
            path = f"/documents/{document_id}/ask"
            async with self._http.post(path, json=body) as reply:
                if reply.status != 200:
                    error = (await reply.json())["error"]["code"]
                else:
                    async for event, data in _events(reply):
                        if event == "answer":
                            answer, error = data, ""
                        elif event == "error":
                            error = data["error"]["code"]
                        else:
                            last_s = time.perf_counter()
                            first_s = first_s or last_s
        except (aiohttp.ClientError, TimeoutError) as failure:
            error = type(failure).__name__
        now_s = time.perf_counter()
        last_s = last_s or now_s  # an answer without any text
        return Outcome(
            document=request.document,
            first_token_ms=1000 * ((first_s or last_s) - started_s),
            last_token_ms=1000 * (last_s - started_s),
            ended_s=last_s,
            answer_ms=1000 * (now_s - last_s),
            num_tokens=answer["usage"]["completion_tokens"] if answer else 0,
            loaded=answer["budget"]["loaded_decode"] if answer else 0.0,
            cache_hit=bool(answer and answer["cache_hit"]),
            timings_ms=answer["timings_ms"] if answer else {},
            error=error,
        )


async def _events(reply: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the data of each server-sent event."""
    event = ""
    async for line in reply.content:
        if line.startswith(b"event: "):
            event = line[7:].decode().strip()
        elif line.startswith(b"data: "):
            yield event, json.loads(line[6:])
