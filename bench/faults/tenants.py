"""Walls between tenants, held against a real server: matrix, timing, canaries, deletion.

python -m bench.faults.tenants

The timing of a route is the area under the ROC curve of telling another tenant's id (or file) from
one that nobody has, by the response's time: one half is no difference.
"""

import random
import time
from collections.abc import Callable, Iterable, Sequence
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
CANARIES = {
    name: f"canary-{name}-{uuid4().hex[:8]}"
    for name in ("text", "file", "turn", "response", "instruction", "alone")
}
NEVER_STORED = f"canary-question-{uuid4().hex[:8]}"  # of a question that is not kept
ERASED_S = 90.0
METRICS_TOKEN = "a-token-of-the-operator-for-metrics-alone"
Ask = Callable[[str], Reply]  # sends a request that names an id


def measure(options: Any) -> dict[str, Any]:
    """Run all of it against one server."""
    num_pairs = 40 if options.smoke else PAIRS
    settings = {
        "LECTERN_SERVER__METRICS_TOKEN": METRICS_TOKEN,
        "LECTERN_STORED_ANSWER_HOURS": "1",
    }
    with serving(options.model, **settings) as server:
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
    question = {"question": "When does the gate close?", "max_tokens": 1}
    turn = theirs.call_json("POST", f"/documents/{foreign}/ask", question | {"keep": True})
    own = str(mine.upload_patiently("b.txt", TEXT[::-1].encode()).json()["id"])
    mine.wait_until_read(own)
    response = {"model": f"lectern/{own}", "input": "When?", "max_output_tokens": 1}
    routes: dict[str, tuple[str, Ask]] = {
        "get document": (foreign, lambda one: mine.call("GET", f"/documents/{one}")),
        "change document": (
            foreign,
            lambda one: mine.call_json("PATCH", f"/documents/{one}", {"expires_after_s": 600}),
        ),
        "delete document": (foreign, lambda one: mine.call("DELETE", f"/documents/{one}")),
        "events": (foreign, lambda one: mine.call("GET", f"/documents/{one}/events")),
        "ask": (foreign, lambda one: mine.call_json("POST", f"/documents/{one}/ask", question)),
        "earlier answer": (
            turn.json()["answer_id"],
            lambda one: mine.call_json(
                "POST", f"/documents/{own}/ask", question | {"previous_answer_id": one}
            ),
        ),
        "earlier response": (
            turn.json()["answer_id"],
            lambda one: mine.call_json(
                "POST", "/v1/responses", response | {"previous_response_id": f"resp_{one}"}
            ),
        ),
        "list after": (foreign, lambda one: mine.call("GET", f"/documents?after={one}")),
        "revoke key": (str(record.id), lambda one: mine.call("DELETE", f"/keys/{one}")),
    }
    areas = {name: _area([_pair(ask, known)] * num_pairs) for name, (known, ask) in routes.items()}
    theirs.close()  # the server has closed it meanwhile; the next call opens another one
    areas["upload of a file that another tenant has"] = _area(
        [_upload_pair(theirs, mine, number) for number in range(num_pairs)]
    )
    shared = str(mine.upload_patiently("a.txt", TEXT.encode()).json()["id"])
    mine.wait_until_read(shared, timeout_s=7200.0)  # behind all files of the pairs
    theirs.close()
    areas["question that another tenant has asked"] = _area(
        [_question_pair((theirs, foreign), (mine, shared), n) for n in range(num_pairs)]
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


def _question_pair(
    theirs: tuple[Caller, str], mine: tuple[Caller, str], number: int
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Let them ask a question about the same file; return calls that ask that and a fresh one."""
    asked, fresh = (f"When does gate {number:06} {uuid4().hex} close?" for _ in range(2))
    theirs[0].ask(theirs[1], asked, 1)
    caller, document_id = mine
    return (
        lambda: caller.ask(document_id, asked, 1),
        lambda: caller.ask(document_id, fresh, 1),
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
    theirs.ask(document_id, f"Where is {NEVER_STORED}?")
    previous = _converse(theirs, document_id)
    alone = _respond(theirs, "lectern", f"Who knows {CANARIES['alone']}?").json()["id"]
    shared = _share_file(theirs, other)
    replies = [
        other.call("GET", path)
        for path in (
            "/documents",
            f"/documents/{document_id}",
            f"/documents/{document_id}/events",
            f"/documents?name={CANARIES['file']}.txt",
            "/v1/files",
            "/v1/models",
            "/usage",
            "/keys",
            "/readyz",
            "/healthz",
            "/openapi.json",
        )
    ]
    replies.append(other.ask(document_id, "Where?"))
    foreign = _go_on(other, shared, [*previous, alone])
    metrics = server.caller(METRICS_TOKEN).call("GET", "/metrics")
    assert metrics.status == 200, metrics.body
    secrets = [*CANARIES.values(), NEVER_STORED, key]
    log = (server.folder / "server.log").read_text()
    data_dir = server.folder / "data"
    seen = {
        "canaries": len(CANARIES),
        "canaries_in_log": sum(one in log for one in secrets),
        "canaries_in_foreign_replies": sum(
            one.encode() in reply.body for one in secrets for reply in [*replies, *foreign]
        ),
        "canaries_in_metrics": sum(
            one.encode() in metrics.body for one in (*secrets, document_id, str(owls), "canaries")
        ),
        "canaries_not_stored": sum(not _files_with(data_dir, [one]) for one in CANARIES.values()),
        "questions_stored": len(_files_with(data_dir, [NEVER_STORED])),
        "files_with_canaries_before": len(_files_with(data_dir, CANARIES.values())),
        "foreign_conversations_gone_on_with": _num_answers(foreign),
        "foreign_answers_reused": _num_reused(theirs, other, shared),
    }
    deleted_s = time.monotonic()
    assert theirs.call("DELETE", f"/documents/{document_id}").status == 204
    assert theirs.call("GET", f"/documents/{document_id}").status == 404
    of_document = [one for name, one in CANARIES.items() if name != "alone"]
    num_left = _num_files_left(data_dir, of_document)
    erased_s = time.monotonic() - deleted_s
    gone_on = _num_answers(_go_on(theirs, shared, previous))
    assert _num_answers(_go_on(theirs, shared, [alone])) == 1, "it is about no document"
    traces = [f"{trace.place}: {trace.what}" for trace in storage.find_traces(UUID(document_id))]
    storage.delete_tenant(owls)
    traces += [f"{trace.place}: {trace.what}" for trace in storage.find_traces(owls)]
    return {
        **seen,
        "files_with_canaries_after": num_left,
        "files_with_canaries_after_tenant": _num_files_left(data_dir, CANARIES.values()),
        "conversations_gone_on_with_after": gone_on,
        "erased_s": erased_s,
        "traces": traces,
        "num_traces": len(traces),
    }


def _converse(caller: Caller, document_id: str) -> list[str]:
    """Have conversations about a document with canaries; return the ids to go on from."""
    path = f"/documents/{document_id}/ask"
    said = {"question": f"Who kept {CANARIES['turn']}?", "max_tokens": 4, "keep": True}
    first = caller.call_json("POST", path, said).json()["answer_id"]
    following = said | {"question": f"And {CANARIES['turn']}?", "previous_answer_id": first}
    second = caller.call_json("POST", path, following).json()["answer_id"]
    model, told = f"lectern/{document_id}", f"Tell {CANARIES['response']}."
    response = _respond(caller, model, told, instructions=CANARIES["instruction"])
    return [first, second, response.json()["id"]]


def _respond(caller: Caller, model: str, text: str, **fields: Any) -> Reply:
    body = {"model": model, "input": text, "max_output_tokens": 4, **fields}
    return caller.call_json("POST", "/v1/responses", body)


def _share_file(*callers: Caller) -> dict[Caller, str]:
    """Upload the same file, without canaries, for each caller; return each one's document."""
    ids = {}
    for caller in callers:
        ids[caller] = str(caller.upload_patiently("shared.txt", TEXT.encode()).json()["id"])
        caller.wait_until_read(ids[caller])
    return ids


def _go_on(caller: Caller, documents: dict[Caller, str], previous: Sequence[str]) -> list[Reply]:
    """Try to go on with conversations, natively and under `/v1`, about the caller's own file."""
    replies = []
    for one in previous:
        answer_id = one.removeprefix("resp_")
        body = {"question": "And then?", "max_tokens": 2, "previous_answer_id": answer_id}
        if not one.startswith("resp_"):
            path = f"/documents/{documents[caller]}/ask"
            replies.append(caller.call_json("POST", path, body))
        response_id = f"resp_{UUID(answer_id).hex}"
        replies.append(_respond(caller, "lectern", "And?", previous_response_id=response_id))
    return replies


def _num_answers(replies: Sequence[Reply]) -> int:
    """How many replies are anything but that there is no such earlier answer."""
    return sum(
        reply.status != 404 or reply.json()["error"]["code"] != "answer_not_found"
        for reply in replies
    )


def _num_reused(theirs: Caller, other: Caller, documents: dict[Caller, str]) -> int:
    """How often another tenant gets a stored answer, or kept turns, of a file that both have."""
    question = {"question": "When does the gate close?", "max_tokens": 4}
    turns = {"turns": [{"question": "Who closes it?", "answer": "The guard."}]}

    def ask(caller: Caller, body: dict[str, Any]) -> bool:
        reply = caller.call_json("POST", f"/documents/{documents[caller]}/ask", body)
        kept = reply.json()["usage"]["kept_tokens"]
        return reply.headers["x-lectern-answer"] == "stored" or kept > 0

    for body in (question, question | turns):
        deadline_s = time.monotonic() + ERASED_S
        while not ask(theirs, body) and time.monotonic() < deadline_s:
            time.sleep(0.1)  # it is stored beside the answer
        assert ask(theirs, body), "one's own answers are used again"
    return sum(ask(other, body) for body in (question, question | turns))


def _num_files_left(data_dir: Path, canaries: Iterable[str]) -> int:
    """Wait until no file has a canary any more; return how many still have one after a while."""
    wanted, deadline_s = list(canaries), time.monotonic() + ERASED_S
    while (left := _files_with(data_dir, wanted)) and time.monotonic() < deadline_s:
        time.sleep(0.5)
    return len(left)


def _files_with(data_dir: Path, canaries: Iterable[str]) -> list[Path]:
    return contains_any(data_dir, [canary.encode() for canary in canaries])


main = program("faults_tenants", __doc__, measure)


if __name__ == "__main__":
    main()
