"""Reading over HTTP: when a document can be asked, when it is stored, and who waits meanwhile.

    python -m bench.serving.reading --tokens 16384 131072 --beside 131072 --model FOLDER
    python -m bench.serving.reading --tokens 16384 --before CHECKOUT --rounds 3

A server with its embedded worker, in a process of its own. Each document is uploaded, asked for one
token as soon as it says that it can be, and waited for until it is stored; processor time is noted
too, which does not depend on what else a machine does; beside it stands plain
writing of as many bytes in files as large, fsynced, in the same folder. With `--beside` a document
is read while questions about another one are answered without a break, and the time between their
tokens is noted. With `--before` an earlier checkout's server does the same, in turns.
"""

import argparse
import http.client
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import psutil
import torch
from tokenizers import Tokenizer

from app.config import ServerConfig
from bench import RESULTS
from bench.faults.server import ROOT, Caller, Server, serving, weights_of
from bench.random_llama import SEED
from reader import WEIGHTS
from training.record import circumstances, drawn, percentiles, write

WORDS = ("lamps", "copper coins", "letters", "grey horses", "maps", "harbour", "old mill", "garden")
QUESTION = "Who sold 7 maps at the harbour, and what did the library count?"
POLL_S = {"cuda": 0.1, "cpu": 0.25}  # rarely where answering it takes what is measured
ANSWER_TOKENS = 400
LONGEST = 12  # waits of which it is told when they ended
TIMEOUT_S = 900.0
WARM_TOKENS = 3000
FIGURES = (
    "askable_s",
    "first_answer_s",
    "ready_s",
    "plain_writing_s",
    "after_prefill_s",
    "after_prefill_per_plain_writing",
    "calibrate_per_askable",
    "prefill_per_ready",
)


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[16_384])
    parser.add_argument("--beside", type=int, default=0, help="tokens of a document read meanwhile")
    parser.add_argument("--model", default="", help="a model's folder; none: the bundled reader")
    parser.add_argument("--drawn", default="", help="the shape of random weights in that folder")
    parser.add_argument("--before", type=Path, default=None, help="an earlier checkout")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--resident-bytes", type=int, default=0)
    parser.add_argument("--name", default="reading")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result: dict[str, Any] = {
        "benchmark": "reading over HTTP",
        **circumstances(device, drawn(options.drawn, SEED) if options.drawn else weights_of("")),
        "data_folder": os.environ.get("TMPDIR", "/tmp"),
        "rounds": [],
    }

    def keep() -> None:
        """Write what is there; after each document, in case that the rest is cut off."""
        result["summary"] = summarise(result["rounds"], options.tokens)
        write(options.name, result, options.out)

    for number in range(options.rounds):
        found: dict[str, Any] = {}
        result["rounds"].append(found)
        if options.before is not None:
            _measure_server(options, options.before, number, found.setdefault("before", {}), keep)
        _measure_server(options, ROOT, number, found.setdefault("now", {}), keep)
        print(json.dumps(found, indent=1), write(options.name, result, options.out), flush=True)


def _measure_server(
    options: argparse.Namespace,
    root: Path,
    number: int,
    found: dict[str, Any],
    keep: Callable[[], None],
) -> None:
    """Measure one server; `found` grows with each document, whereupon `keep` is called."""
    settings = {"LECTERN_WORKER__DEADLINE_BASE_S": "3600"}  # on a machine that others use too
    named = {field.name for field in fields(ServerConfig)}
    if options.resident_bytes and "resident_cache_bytes" in named:
        settings["LECTERN_SERVER__RESIDENT_CACHE_BYTES"] = str(options.resident_bytes)
    with serving(options.model, root, **settings) as server:
        try:
            _read(server, WARM_TOKENS, seed=99)  # kernels are compiled and chosen here
            for num_tokens in options.tokens:
                print(f"{num_tokens} tokens", flush=True)
                found[str(num_tokens)] = _read(server, num_tokens, seed=number)
                if torch.cuda.is_available():  # libraries chose kernels for its shapes: once more
                    found[f"{num_tokens} first"] = found[str(num_tokens)]
                    found[str(num_tokens)] = _read(server, num_tokens, seed=number + 1000)
                keep()
            if options.beside:
                found["beside"] = _beside(server, options.beside, min(options.tokens))
                keep()
        finally:
            log = (server.folder / "server.log").read_text()
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / f"{options.name}.log").write_text(log[-200_000:])


def drawn_text(num_tokens: int, seed: int) -> bytes:
    """Sentences about people, numbers and things that have so many tokens of the bundled reader."""
    draw, sentences = Random(seed), []
    for _ in range(num_tokens // 6):
        name = "".join(draw.choices("abdefgiklmnorstu", k=draw.randint(3, 9))).title()
        one, other = draw.sample(WORDS, 2)
        sentences.append(f"{name} sold {draw.randint(2, 9999)} {one} near the {other}.")
    text = " ".join(sentences)
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    if len(offsets) < num_tokens:
        raise SystemExit(f"The text has {len(offsets)} tokens: too few.")
    return text[: offsets[num_tokens - 1][0]].encode()


def _read(server: Server, num_tokens: int, seed: int) -> dict[str, Any]:
    """Upload a document, ask it as soon as possible, wait until it is stored."""
    data, caller = drawn_text(num_tokens, seed), server.caller()
    processor_s, started = _processor_s(server), time.monotonic()
    document_id = caller.upload(f"{num_tokens}-{seed}.txt", data).json()["id"]
    found: dict[str, Any] = {"upload_s": time.monotonic() - started}
    document = _wait_for(caller, document_id, ("readable", "ready"))
    found["askable_s"], found["askable_status"] = time.monotonic() - started, document["status"]
    reply = caller.ask(document_id, QUESTION, max_tokens=1)
    found["first_answer_s"] = time.monotonic() - started
    found["first_answer_status"] = reply.status
    if reply.status == 200:
        found["first_answer_cache_hit"] = reply.json()["cache_hit"]
        found["first_answer_timings_ms"] = reply.json()["timings_ms"]
    document = _wait_for(caller, document_id, ("ready",))
    found["ready_s"] = time.monotonic() - started
    found["processor_s"] = _processor_s(server) - processor_s
    found["num_tokens"] = document["num_tokens"]
    found["cache_bytes"] = document.get("stored_bytes", document.get("cache_bytes"))  # its old name
    found["reading_ms"] = spent = document["reading_ms"]
    found["plain_writing_s"] = _plain_writing(server.folder / "data", document_id)
    if isinstance(spent, dict):
        stored_s = (spent["cluster"] + spent["calibrate"] + spent["pack"]) / 1000
        found["after_prefill_s"] = stored_s
        found["after_prefill_per_plain_writing"] = stored_s / found["plain_writing_s"]
        found["prefill_per_ready"] = spent["prefill"] / 1000 / found["ready_s"]
        found["calibrate_per_askable"] = spent["calibrate"] / 1000 / found["askable_s"]
    print(json.dumps(found), flush=True)
    caller.call("DELETE", f"/documents/{document_id}")
    caller.close()
    return found


def _processor_s(server: Server) -> float:
    """Seconds that the server's processor cores have worked so far."""
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _wait_for(
    caller: Caller,
    document_id: str,
    statuses: Sequence[str],
    seen: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Poll a document until it has one of the statuses; `seen` is shown each state."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        document: dict[str, Any] = caller.call("GET", f"/documents/{document_id}").json()
        seen(document)
        if document["status"] in statuses:
            return document
        if document["status"] == "failed":
            raise SystemExit(f"The document failed: {document['error']}")
        time.sleep(POLL_S["cuda" if torch.cuda.is_available() else "cpu"])
    raise TimeoutError(f"no {statuses} within {TIMEOUT_S:g} s")


def _plain_writing(folder: Path, document_id: str) -> float:
    """Seconds to write and sync as many bytes as the document's files have, file by file."""
    (stored,) = (folder / "artifacts").glob(f"{document_id}.*")
    sizes = [path.stat().st_size for path in stored.iterdir()]
    data = memoryview(os.urandom(1 << 20) * (max(sizes) // (1 << 20) + 1))
    plain = folder / "plain"
    plain.mkdir()
    started = time.perf_counter()
    for number, size in enumerate(sizes):
        with (plain / str(number)).open("wb", buffering=0) as file:
            unwritten = data[:size]
            while len(unwritten):
                unwritten = unwritten[file.write(unwritten) :]
            os.fsync(file.fileno())
    seconds = time.perf_counter() - started
    for path in plain.iterdir():
        path.unlink()
    plain.rmdir()
    return seconds


# -- beside answers ------------------------------------------------------------------------------


def _beside(server: Server, num_tokens: int, asked_tokens: int) -> dict[str, Any]:
    """Gaps between the tokens of answers, alone and while a document is read."""
    caller = server.caller()
    text = drawn_text(asked_tokens, seed=0)
    asked_id = caller.upload(f"{asked_tokens}-asked.txt", text).json()["id"]
    _wait_for(caller, asked_id, ("ready",))
    list(_answer_gaps(server, asked_id, 8))  # the document's graph is captured here
    alone = list(_answer_gaps(server, asked_id))
    usual = statistics.median(alone[1:])
    usual_first = statistics.median([next(_answer_gaps(server, asked_id, 2)) for _ in range(5)])
    is_read = threading.Event()
    gaps: list[float] = []
    waits: list[dict[str, float]] = []  # each gap beyond what is usual, and when it ended
    phases: dict[str, float] = {}

    def ask() -> None:
        while not is_read.is_set():
            for place, gap in enumerate(_answer_gaps(server, asked_id)):
                gaps.append(gap)
                beyond = gap - (usual if place else usual_first)
                waits.append({"ms": beyond, "ended_s": time.monotonic() - started, "token": place})

    def note_phase(document: dict[str, Any]) -> None:
        phase = (document.get("progress") or {}).get("phase") or document["status"]
        phases.setdefault(phase, time.monotonic() - started)

    data = drawn_text(num_tokens, seed=77)
    asking = threading.Thread(target=ask)
    started = time.monotonic()
    asking.start()
    try:
        document_id = caller.upload(f"{num_tokens}-beside.txt", data).json()["id"]
        _wait_for(caller, document_id, ("readable", "ready"), note_phase)
        askable_s = time.monotonic() - started
        is_read.set()
        document = _wait_for(caller, document_id, ("ready",))
    finally:
        is_read.set()
        asking.join()
    caller.close()
    waits.sort(key=lambda wait: -wait["ms"])
    found = {
        "asked_tokens": asked_tokens,
        "read_tokens": num_tokens,
        "askable_s": askable_s,
        "reading_ms": document["reading_ms"],
        "alone_ms": _described(alone[1:]),
        "beside_ms": _described(gaps),
        "first_token_alone_ms": usual_first,
        "longest_wait_ms": waits[0]["ms"],
        "longest_waits": waits[:LONGEST],
        "phases_began_s": phases,
    }
    print(json.dumps(found), flush=True)
    return found


def _described(gaps: Sequence[float]) -> dict[str, float]:
    ordered = sorted(gaps)
    late = {f"p{share}": ordered[len(ordered) * share // 100] for share in (95, 99)}
    return {**percentiles(ordered), **late, "max": ordered[-1]}


def _answer_gaps(server: Server, document_id: str, tokens: int = ANSWER_TOKENS) -> Iterator[float]:
    """Milliseconds until the first piece of an answer, then between each two pieces."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=TIMEOUT_S)
    body = {"question": QUESTION, "max_tokens": tokens, "stream": True}
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    before = time.perf_counter()
    connection.request("POST", f"/documents/{document_id}/ask", json.dumps(body), headers)
    response = connection.getresponse()
    for line in response:
        if line.startswith(b"event: piece"):
            now = time.perf_counter()
            yield 1000 * (now - before)
            before = now
        elif line.startswith(b"event: error"):
            raise SystemExit(f"a question failed: {response.readline().decode()}")
    connection.close()


# -- all rounds ----------------------------------------------------------------------------------


def summarise(rounds: Sequence[dict[str, Any]], tokens: Sequence[int]) -> dict[str, Any]:
    """Medians over the rounds that came so far, by number of tokens."""
    summary: dict[str, Any] = {}
    for name in map(str, tokens):
        done = [one for one in rounds if name in one.get("now", {})]
        if not done:
            continue
        now = [one["now"][name] for one in done]
        summary[name] = {
            figure: percentiles([one[figure] for one in now if figure in one])
            for figure in FIGURES
            if figure in now[0]
        }
        for of_before, figure in (
            ("ready_per_before", "ready_s"),
            ("processor_time_per_before", "processor_s"),
        ):
            ratios = [
                one["now"][name][figure] / one["before"][name][figure]
                for one in done
                if name in one.get("before", {})
            ]
            if ratios:
                summary[name][of_before] = percentiles(ratios)
    beside = [one["now"]["beside"] for one in rounds if "beside" in one.get("now", {})]
    if beside:
        summary["beside"] = {"longest_wait_ms": max(one["longest_wait_ms"] for one in beside)}
    return summary


if __name__ == "__main__":
    main()
