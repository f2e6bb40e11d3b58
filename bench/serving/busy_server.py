"""What others notice of a busy server: fairness between keys, and 500 callers who leave.

    python -m bench.serving.busy_server

The real server with the bundled reader and one document. First a key asks alone, now and then, for
a first token; then it does so while another key has 100 questions under way. The server has a
process of its own for that, as the crowd of callers takes time, too. Then, with a server in this
process, callers leave at random moments, waiting ones and running ones; after each wave of them the
slots, the queue and the documents in use must be as before within two seconds.
"""

import asyncio
import gc
import random
import time
from argparse import Namespace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil

from bench.faults.program import program
from bench.faults.server import Caller, serving
from cli.listener import listen
from cli.serve import Stack, make_secrets, open_stack, serve_in_background
from cli.settings import Settings
from common.logging import configure
from engine.decode.running_answer import RunningAnswer
from engine.model.fingerprint import weights_fingerprint
from reader import HANDBOOK, WEIGHTS
from training.record import circumstances, percentiles

CROWD = 100  # questions that one key has under way
ALONE = 7
DISCONNECTS, WAVE = 500, 20
LIMIT_S = 2.0


def measure(options: Namespace) -> dict[str, Any]:
    """Measure both, on one server."""
    configure("ERROR")
    with serving(options.model) as server:
        path, document = upload(server.caller())
        other_key = server.make_key("another")
        fair = asyncio.run(
            measure_fairness(f"{server.url}{path}", server.key, other_key, options.smoke)
        )
    with TemporaryDirectory() as folder:
        settings = Settings(
            data_dir=Path(folder),
            model=options.model or str(WEIGHTS),
            stored_answer_hours=0,  # every question is worked on
        )
        stack, listener = open_stack(settings), listen("127.0.0.1", 0)
        first_key = make_secrets(stack).api_key
        assert first_key is not None  # the folder is fresh
        with serve_in_background(stack, listener) as url:
            path, document = upload(Caller(url, first_key))
            gone = asyncio.run(measure_disconnects(stack, f"{url}{path}", first_key, options.smoke))
    return {
        "benchmark": "busy server",
        **circumstances("cpu", weights_fingerprint(Path(options.model or WEIGHTS))),
        "document_tokens": document.get("num_tokens"),
        "fairness": fair,
        "disconnects": gone,
    }


def upload(caller: Caller) -> tuple[str, dict[str, Any]]:
    """Upload the handbook and wait until it is ready; where it is asked, and the document."""
    text = (HANDBOOK / "handbook.md").read_bytes()
    document_id = caller.upload("handbook.md", text).json()["id"]
    document = caller.wait_until_read(document_id)
    assert document["status"] == "ready", document
    return f"/documents/{document_id}/ask", document


async def measure_fairness(path: str, greedy: str, modest: str, smoke: bool) -> dict[str, Any]:
    """First tokens of a key that asks one question at a time: alone, and beside another's 100."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=600, limits=limits) as client:
        await first_token_s(client, path, modest, 0)  # brings the document into memory
        alone = [await first_token_s(client, path, modest, number) for number in range(ALONE)]
        num_crowd = 12 if smoke else CROWD
        crowd = [
            asyncio.create_task(ask(client, path, greedy, number, max_tokens=64))
            for number in range(num_crowd)
        ]
        await asyncio.sleep(2.0)
        beside: list[float] = []
        while len(beside) < ALONE and not all(task.done() for task in crowd):
            beside.append(await first_token_s(client, path, modest, len(beside)))
        still_there = sum(not task.done() for task in crowd)
        statuses = await asyncio.gather(*crowd)
    return {
        "questions_of_the_other_key": num_crowd,
        "of_these_unanswered_at_the_end": still_there,
        "statuses": sorted(set(statuses)),
        "alone_s": percentiles(alone),
        "beside_s": percentiles(beside),
        "times_alone": median(beside) / median(alone),
        "worst_times_alone": max(beside) / median(alone),
    }


async def measure_disconnects(stack: Stack, path: str, key: str, smoke: bool) -> dict[str, Any]:
    """Let callers leave at random moments, in waves; look how soon nothing is left of them."""
    draw, services = random.Random(0), stack.services
    process, seconds = psutil.Process(), []
    before_bytes = process.memory_info().rss
    for _ in range((40 if smoke else DISCONNECTS) // WAVE):
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=600, limits=limits) as client:
            tasks = [
                asyncio.create_task(ask(client, path, key, number, max_tokens=400))
                for number in range(WAVE)
            ]
            for task in tasks:
                await asyncio.sleep(draw.uniform(0.0, 0.2))
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        left_s = time.perf_counter()
        while not is_idle(stack):
            if time.perf_counter() - left_s > 10 * LIMIT_S:
                raise SystemExit(f"Something is left: {services.question_queue.load()}")
            await asyncio.sleep(0.005)
        seconds.append(time.perf_counter() - left_s)
    gc.collect()
    left = sum(isinstance(one, RunningAnswer) for one in gc.get_objects())
    return {
        "callers_who_left": len(seconds) * WAVE,
        "longest_s_until_nothing_was_left": max(seconds),
        "seconds": percentiles(seconds),
        "answers_left_in_memory": left,
        "more_bytes_than_before": process.memory_info().rss - before_bytes,
    }


def is_idle(stack: Stack) -> bool:
    """Whether no slot, no place of the queue and no document is in use."""
    load = stack.services.question_queue.load()
    leased = stack.services.resident_documents.occupancy().device.leased_bytes
    return load.running + load.waiting + leased == 0


async def first_token_s(client: httpx.AsyncClient, path: str, key: str, number: int) -> float:
    """Seconds until the first piece of an answer."""
    began_s = time.perf_counter()
    headers = {"authorization": f"Bearer {key}"}
    body = {"question": question_of(number), "max_tokens": 4, "stream": True, "ignore_eos": True}
    found = 0.0
    async with client.stream("POST", path, json=body, headers=headers) as response:
        assert response.status_code == 200, response.status_code
        async for line in response.aiter_lines():
            if line == "event: piece" and not found:
                found = time.perf_counter() - began_s
    assert found, "an answer without text"
    return found


async def ask(client: httpx.AsyncClient, path: str, key: str, number: int, max_tokens: int) -> int:
    """Ask and read all of the answer; the response's status."""
    headers = {"authorization": f"Bearer {key}"}
    body = {
        "question": question_of(number),
        "max_tokens": max_tokens,
        "stream": True,
        "ignore_eos": True,
    }
    async with client.stream("POST", path, json=body, headers=headers) as response:
        async for line in response.aiter_lines():
            if line == "event: error":
                return 0
        return response.status_code


def question_of(number: int) -> str:
    """A question of its own for every number."""
    return f"Which number does entry {number} of the handbook have, and who looks after it?"


main = program("busy_server", __doc__, measure)

if __name__ == "__main__":
    main()
