"""Walls between tenants, held against a real server: matrix, timing, canaries, deletion.

python -m bench.faults.tenants

The timing of a route is the area under the ROC curve of telling another tenant's id (or file) from
one that nobody has, by the response's time: one half is no difference.
"""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from bench.faults.matrix import Answered, Matrix
from bench.faults.program import program
from bench.faults.server import Caller, Reply, Server, serving, weights_of
from common.scopes import ALL_SCOPES
from storage.config import StorageConfig
from storage.storage import Storage, open_storage
from storage.traces import contains_any
from training.record import circumstances

PAIRS = 400
TEXT = "The gate of the east wing closes at 18:40. " * 10
CANARIES = {name: f"canary-{name}-{uuid4().hex[:8]}" for name in ("text", "file", "question")}
ERASED_S = 90.0
METRICS_TOKEN = "a-token-of-the-operator-for-metrics-alone"
Ask = Callable[[str], Reply]  # sends a request that names an id


def measure(options: Any) -> dict[str, Any]:
    """Run all of it against one server."""
    num_pairs = 40 if options.smoke else PAIRS
    with serving(options.model, LECTERN_SERVER__METRICS_TOKEN=METRICS_TOKEN) as server:
        config = StorageConfig(server.folder / "data")
        with closing(open_storage(config)) as storage:
            cells, wrong = _try_matrix(server, storage)
            timing = _time_routes(server, storage, num_pairs)
            leaks = _follow_canaries(server, storage)
    walls = {name: auc for name, auc in timing.items() if name != "own document (control)"}
    return {
        "benchmark": "walls between tenants over HTTP",
        **circumstances("cpu", weights_of(options.model)),
        "cells": cells,
        "wrong_cells": len(wrong),
        "wrong": wrong,
        "pairs": num_pairs,
        "routes": len(walls),
        "auc": timing,
        "largest_auc_distance": max(abs(auc - 0.5) for auc in walls.values()),
        **leaks,
    }


# -- matrix ------------------------------------------------------------------------------------


def _try_matrix(server: Server, storage: Storage) -> tuple[int, list[str]]:
    owner = storage.tenants.create("matrix")
    key, _ = storage.keys.create(owner, "owner")
    caller = server.caller(key)

    def upload(text: str) -> str:
        return str(caller.upload_patiently("a.txt", text.encode()).json()["id"])

    document_id = upload(TEXT)
    caller.wait_until_read(document_id)
    matrix = Matrix(
        storage,
        lambda method, path, key, **request: _send(server, method, path, key, **request),
        owner=owner,
        document_id=document_id,
        add_document=lambda: upload(f"{TEXT}{uuid4()}"),
    )
    wrong = [str(cell) for cell in matrix.wrong_cells(caller.call("GET", "/openapi.json").json())]
    caller.close()
    return matrix.num_cells, wrong


def _send(server: Server, method: str, path: str, key: str, **request: Any) -> Answered:
    with closing(server.caller(key)) as caller:
        if "files" in request:
            ((name, data),) = request["files"].values()
            reply = caller.upload(name, data, path)
        else:
            reply = caller.call_json(method.upper(), path, request.get("json"))
    code = "" if reply.status < 400 else str(reply.json()["error"]["code"])
    headers = {name: value for name, value in reply.headers.items() if name not in BY_CHANCE}
    return Answered(reply.status, code, reply.body.decode(errors="replace"), headers)


BY_CHANCE = ("x-request-id", "date", "server")


# -- timing ------------------------------------------------------------------------------------


def _time_routes(server: Server, storage: Storage, num_pairs: int) -> dict[str, float]:
    """Return the area for each route; the last one, own against unknown, must differ from .5."""
    owls, crows = storage.tenants.create("owls"), storage.tenants.create("crows")
    _, record = storage.keys.create(owls, "theirs")
    theirs = server.caller(storage.keys.create(owls, "owls")[0])
    mine = server.caller(storage.keys.create(crows, "crows", None, ALL_SCOPES)[0])
    foreign = str(theirs.upload_patiently("a.txt", TEXT.encode()).json()["id"])
    theirs.wait_until_read(foreign)
    own = str(mine.upload_patiently("b.txt", TEXT[::-1].encode()).json()["id"])
    mine.wait_until_read(own)
    question = {"question": "When does the gate close?", "max_tokens": 1}
    routes: dict[str, tuple[str, Ask]] = {
        "get document": (foreign, lambda one: mine.call("GET", f"/documents/{one}")),
        "change document": (
            foreign,
            lambda one: mine.call_json("PATCH", f"/documents/{one}", {"expires_after_s": 600}),
        ),
        "delete document": (foreign, lambda one: mine.call("DELETE", f"/documents/{one}")),
        "events": (foreign, lambda one: mine.call("GET", f"/documents/{one}/events")),
        "ask": (foreign, lambda one: mine.call_json("POST", f"/documents/{one}/ask", question)),
        "list after": (foreign, lambda one: mine.call("GET", f"/documents?after={one}")),
        "revoke key": (str(record.id), lambda one: mine.call("DELETE", f"/keys/{one}")),
    }
    areas = {name: _area([_pair(ask, known)] * num_pairs) for name, (known, ask) in routes.items()}
    theirs.close()  # the server has closed it meanwhile; the next call opens another one
    areas["upload of a file that another tenant has"] = _area(
        [_upload_pair(theirs, mine, number) for number in range(num_pairs)]
    )
    get = routes["get document"][1]
    control = [(lambda: get(own), lambda: get(_like(foreign)))] * num_pairs
    areas["own document (control)"] = _area(control)
    return areas


def _like(known: str) -> str:
    """Return an id that nobody has and that looks as old as a known one."""
    return known[:24] + uuid4().hex[:12]


def _pair(ask: Ask, known: str) -> tuple[Callable[[], object], Callable[[], object]]:
    return lambda: ask(known), lambda: ask(_like(known))


def _upload_pair(
    theirs: Caller, mine: Caller, number: int
) -> tuple[Callable[[], object], Callable[[], object]]:
    shared, fresh = (f"{TEXT}{number:06} {uuid4()}".encode() for _ in range(2))
    theirs.upload_patiently("a.txt", shared)
    return (
        lambda: mine.upload_patiently("a.txt", shared),
        lambda: mine.upload_patiently("a.txt", fresh),
    )


def _area(pairs: Sequence[tuple[Callable[[], object], Callable[[], object]]]) -> float:
    """Return how often the first of a pair of calls takes longer than the second, of all pairs."""
    first: list[float] = []
    second: list[float] = []
    for calls in pairs:
        both = [(first, calls[0]), (second, calls[1])]
        random.shuffle(both)
        for samples, call in both:
            started_s = time.perf_counter()
            call()
            samples.append(time.perf_counter() - started_s)
    wins = sum((a > b) + 0.5 * (a == b) for a in first for b in second)
    return wins / (len(first) * len(second))


# -- canaries and deletion ---------------------------------------------------------------------


def _follow_canaries(server: Server, storage: Storage) -> dict[str, Any]:
    """Plant canaries, look who else sees them, delete what has them, and look what is left."""
    owls = storage.tenants.create("canaries")
    crows = storage.tenants.create("others")
    key, _ = storage.keys.create(owls, "owl")
    theirs = server.caller(key)
    other = server.caller(storage.keys.create(crows, "crow")[0])
    text = f"{TEXT}{CANARIES['text']}"
    document_id = theirs.upload_patiently(f"{CANARIES['file']}.txt", text.encode()).json()["id"]
    theirs.wait_until_read(document_id)
    theirs.ask(document_id, f"Where is {CANARIES['question']}?")
    replies = [
        other.call("GET", path)
        for path in (
            "/documents",
            f"/documents/{document_id}",
            f"/documents/{document_id}/events",
            "/usage",
            "/keys",
            "/readyz",
            "/healthz",
            "/openapi.json",
        )
    ]
    replies.append(other.ask(document_id, "Where?"))
    metrics = server.caller(METRICS_TOKEN).call("GET", "/metrics")
    assert metrics.status == 200, metrics.body
    secrets = [*CANARIES.values(), key]
    log = (server.folder / "server.log").read_text()
    data_dir = server.folder / "data"
    seen = {
        "canaries_in_log": sum(one in log for one in secrets),
        "canaries_in_foreign_replies": sum(
            one.encode() in reply.body for one in secrets for reply in replies
        ),
        "canaries_in_metrics": sum(
            one.encode() in metrics.body for one in (*secrets, document_id, str(owls), "canaries")
        ),
        "files_with_canaries_before": len(_files_with(data_dir, CANARIES.values())),
    }
    deleted_s = time.monotonic()
    assert theirs.call("DELETE", f"/documents/{document_id}").status == 204
    assert theirs.call("GET", f"/documents/{document_id}").status == 404
    left = _files_with(data_dir, CANARIES.values())
    while left and time.monotonic() - deleted_s < ERASED_S:
        time.sleep(0.5)
        left = _files_with(data_dir, CANARIES.values())
    erased_s = time.monotonic() - deleted_s
    traces = [f"{trace.place}: {trace.what}" for trace in storage.find_traces(UUID(document_id))]
    storage.delete_tenant(owls)
    traces += [f"{trace.place}: {trace.what}" for trace in storage.find_traces(owls)]
    return {
        **seen,
        "files_with_canaries_after": len(left),
        "erased_s": erased_s,
        "traces": traces,
        "num_traces": len(traces),
    }


def _files_with(data_dir: Path, canaries: Any) -> list[Path]:
    return contains_any(data_dir, [canary.encode() for canary in canaries])


main = program("faults_tenants", __doc__, measure)


if __name__ == "__main__":
    main()
