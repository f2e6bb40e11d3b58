"""The authorisation matrix: each route x scope x whose document, held against what it must answer.

Routes and the scopes that they need come from OpenAPI. A route of which nothing is said here how to
call it is an error, so that a new route needs a row in `CALLS`. What is whose may stand in a body,
too: a document in a chat, an earlier answer in a question. `NAMING` has these.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from common.scopes import ALL_SCOPES, Scope
from storage.storage import Storage

OWN, FOREIGN = "own", "foreign"
NONE, REVOKED, EXPIRED, SUSPENDED = "none", "revoked", "expired", "suspended"
RELATIONS = (OWN, FOREIGN, NONE, REVOKED, EXPIRED, SUSPENDED)
REFUSALS = {
    NONE: (401, "invalid_api_key"),
    REVOKED: (401, "invalid_api_key"),
    EXPIRED: (401, "invalid_api_key"),
    SUSPENDED: (403, "tenant_suspended"),
}
Operation = tuple[str, str]  # method, path


@dataclass(frozen=True)
class Answered:
    """A response: its status, its error code or "", its body, and the headers that may differ."""

    status: int
    code: str
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


# Sends a request: method, path, API key or "", and the arguments `json` and `files`.
Send = Callable[..., Answered]


@dataclass(frozen=True)
class Call:
    """How a route is called.

    Attributes:
        status: of its success.
        code: what it says of the matrix's document, which is no PDF; none for a success.
        request: further arguments of the request.
        target: what the id in its path or its JSON names: "document", one to be "deleted", a "key",
            the "model" of a document, a "turn" of a conversation, or nothing.
        missing: the code for an id that names nothing; none if that is no error.
    """

    status: int = 200
    request: Mapping[str, Any] = field(default_factory=dict)
    target: str = ""
    missing: str = "document_not_found"
    code: str = ""


ASK = {"json": {"question": "When does the gate close?", "max_tokens": 2}}
CHAT = {
    "json": {
        "model": "lectern",
        "messages": [{"role": "user", "content": "When does the gate close?"}],
        "max_tokens": 2,
    }
}
RESPONSE = {"json": {"model": "lectern", "input": "When?", "max_output_tokens": 2}}
FILE = {"files": {"file": ("shared.txt", b"A text that two tenants have.")}}
NO_PAGES = Call(400, target="document", code="invalid_input")
CALLS: Mapping[Operation, Call] = {
    ("post", "/documents"): Call(202, FILE),
    ("get", "/documents"): Call(),
    ("get", "/documents/{document_id}"): Call(target="document"),
    ("patch", "/documents/{document_id}"): Call(request={"json": {}}, target="document"),
    ("delete", "/documents/{document_id}"): Call(204, target="deleted"),
    ("get", "/documents/{document_id}/events"): Call(target="document"),
    ("post", "/documents/{document_id}/ask"): Call(request=ASK, target="document"),
    ("post", "/documents/{document_id}/prefetch"): Call(202, target="document"),
    ("get", "/documents/{document_id}/content"): Call(target="document"),
    ("get", "/documents/{document_id}/text"): Call(target="document"),
    ("get", "/documents/{document_id}/pages/{page}/words"): NO_PAGES,
    ("get", "/documents/{document_id}/pages/{page}/image"): NO_PAGES,
    ("post", "/documents/{document_id}/retry"): Call(202, target="document"),
    ("post", "/documents/{document_id}/cancel"): Call(202, target="document"),
    ("post", "/documents/{document_id}/evict"): Call(202, target="document"),
    ("post", "/v1/chat/completions"): Call(request=CHAT),
    ("post", "/v1/responses"): Call(request=RESPONSE),
    ("post", "/v1/files"): Call(request=FILE),
    ("get", "/v1/files"): Call(),
    ("get", "/v1/files/{file_id}"): Call(target="document"),
    ("get", "/v1/files/{file_id}/content"): Call(target="document"),
    ("delete", "/v1/files/{file_id}"): Call(target="deleted"),
    ("get", "/v1/models"): Call(),
    ("get", "/v1/models/{model}"): Call(target="model", missing="model_not_found"),
    ("get", "/usage"): Call(),
    ("patch", "/tenant"): Call(request={"json": {"document_ttl_s": None}}),
    ("get", "/keys"): Call(),
    ("post", "/keys"): Call(201, {"json": {"name": "made", "scopes": ["admin"]}}),
    ("delete", "/keys/{key_id}"): Call(204, target="key", missing="key_not_found"),
}


# Calls whose query or JSON has an id, at `ID`.
ID = "{id}"
FILE_PART = {"type": "file", "file": {"file_id": ID}}
INPUT_FILE = {"type": "input_file", "file_id": ID}
TEXT_PART = {"type": "text", "text": "When does the gate close?"}
ANSWER = "answer_not_found"


def _naming(
    path: str, target: str, base: Mapping[str, Any], missing: str = "document_not_found", **id_: Any
) -> tuple[Operation, Call]:
    """A POST whose JSON has an id of `target`."""
    return ("post", path), Call(
        request={"json": base["json"] | id_}, target=target, missing=missing
    )


ASK_PATH, CHAT_PATH = "/documents/{document_id}/ask", "/v1/chat/completions"
RESPONSES_PATH = "/v1/responses"
NAMING: Sequence[tuple[Operation, Call]] = (
    (("get", f"/documents?name={ID}"), Call(target="document", missing="")),
    _naming(ASK_PATH, "turn", ASK, ANSWER, previous_answer_id=ID),
    _naming(RESPONSES_PATH, "turn", RESPONSE, ANSWER, previous_response_id=f"resp_{ID}"),
    _naming(
        RESPONSES_PATH, "document", RESPONSE,
        input=[{"role": "user", "content": [INPUT_FILE, TEXT_PART]}],
    ),
    _naming(RESPONSES_PATH, "document", RESPONSE, "model_not_found", model=f"lectern/{ID}"),
    _naming(
        CHAT_PATH, "document", CHAT, messages=[{"role": "user", "content": [FILE_PART, TEXT_PART]}]
    ),
    _naming(CHAT_PATH, "document", CHAT, "model_not_found", model=f"lectern/{ID}"),
)  # fmt: skip
SAID = "The gate closes when the last guard has gone."  # the answer of the turn

# Routes of the operator, which no API key opens; by how they refuse one.
OPERATORS: Mapping[Operation, frozenset[tuple[int, str]]] = {
    ("get", "/metrics"): frozenset({(403, "metrics_closed"), (401, "invalid_metrics_token")}),
}


@dataclass(frozen=True)
class WrongCell:
    """A cell that is not as it must be."""

    route: str
    scope: str
    relation: str
    expected: str
    found: str


class Matrix:
    """All cells.

    Args:
        storage: of the server, in which tenants and keys are made.
        send: sends a request to the server.
        document_id: a ready document of the tenant `owner`.
        add_document: adds a document of that tenant; returns its id.
    """

    def __init__(
        self,
        storage: Storage,
        send: Send,
        *,
        owner: UUID,
        document_id: str,
        add_document: Callable[[], str],
    ) -> None:
        self._storage = storage
        self._send = send
        self._owner = owner
        self._document_id = document_id
        self._turn_id = str(storage.turns.add(owner, UUID(document_id), "When?", SAID))
        self._add_document = add_document
        self._mark = uuid4()
        self._keys = {
            (relation, scope): self._make_key(relation, scope)
            for relation in RELATIONS
            for scope in ALL_SCOPES
        }
        self.num_cells = 0

    def wrong_cells(self, openapi: Mapping[str, Any]) -> Iterator[WrongCell]:
        """Try every cell; yield those that are wrong."""
        needed = scopes_of(openapi)
        calls = [*((operation, CALLS[operation]) for operation in needed), *NAMING]
        for (method, path), call in calls:
            scope_needed = needed[method, path.partition("?")[0]]
            for scope in ALL_SCOPES:
                for relation in RELATIONS:
                    self.num_cells += 1
                    yield from self._try((method, path), call, scope_needed, scope, relation)
        for operation, refusals in OPERATORS.items():
            for (relation, scope), key in self._keys.items():
                self.num_cells += 1
                found = self._send(*operation, key)
                if (found.status, found.code) not in refusals or self._secrets(found.text):
                    shown = f"{found.status} {found.code}".strip()
                    yield self._wrong(operation, scope, relation, "a refusal", shown)

    def _try(
        self, operation: Operation, call: Call, needed: Scope, scope: Scope, relation: str
    ) -> Iterator[WrongCell]:
        key = self._keys[relation, scope]
        found = self._request(operation, call, key, self._target(call.target, scope is needed))
        expected: tuple[int, str] = (call.status, call.code)
        if relation in REFUSALS:
            expected = REFUSALS[relation]
        elif scope is not needed:
            expected = (403, "insufficient_scope")
        elif relation == FOREIGN and call.target:
            expected = (404, call.missing) if call.missing else (call.status, call.code)
            unknown = self._request(operation, call, key, str(uuid4()))
            if (found.text, found.headers) != (unknown.text, unknown.headers):
                yield self._wrong(operation, scope, relation, unknown.text, found.text)
        leaked = [] if relation == OWN else self._secrets(found.text)
        if (found.status, found.code) != expected or leaked:
            shown = f"{found.status} {found.code} {' '.join(leaked)}".strip()
            yield self._wrong(operation, scope, relation, f"{expected[0]} {expected[1]}", shown)

    def _wrong(
        self, operation: Operation, scope: Scope, relation: str, expected: str, found: str
    ) -> WrongCell:
        return WrongCell(" ".join(operation), scope, relation, expected.strip(), found)

    def _request(self, operation: Operation, call: Call, key: str, target: str) -> Answered:
        method, path = operation
        document_id = self._document_id if call.target == "turn" else target
        for name, value in {
            "document_id": document_id,
            "file_id": target,
            "key_id": target,
            "id": target,
            "page": "1",
            "model": f"lectern/{target}",
        }.items():
            path = path.replace(f"{{{name}}}", value)
        request = dict(call.request)
        if "json" in request:
            request["json"] = json.loads(json.dumps(request["json"]).replace(ID, target))
        return self._send(method, path, key, **request)

    def _target(self, kind: str, may_change: bool) -> str:
        """Return the id that a request names, of the owner's tenant; one that it may use up."""
        if kind == "deleted" and may_change:
            return self._add_document()
        if kind == "key":
            _, record = self._storage.keys.create(self._owner, "to be revoked")
            return str(record.id)
        return self._turn_id if kind == "turn" else self._document_id

    def _secrets(self, text: str) -> list[str]:
        secrets = (self._document_id, self._turn_id, SAID, str(self._owner))
        return [one for one in secrets if one in text]

    def _make_key(self, relation: str, scope: Scope) -> str:
        storage, tenant_id, expires_at = self._storage, self._owner, None
        if relation == NONE:
            return ""
        if relation in (FOREIGN, SUSPENDED):
            name = f"{relation} {self._mark}"
            tenant_id = storage.tenants.find(name) or storage.tenants.create(name)
        if relation == EXPIRED:
            expires_at = datetime.now(UTC) - timedelta(seconds=1)
        key, record = storage.keys.create(tenant_id, relation, expires_at, (scope,))
        if relation == REVOKED:
            storage.keys.revoke(tenant_id, record.id)
        if relation == SUSPENDED:
            storage.tenants.suspend(tenant_id)
        return key


def scopes_of(openapi: Mapping[str, Any]) -> dict[Operation, Scope]:
    """Return the scope that each operation needs; probes, which need no key, are left out.

    Raises: ValueError for an operation that needs a key and names not exactly one scope.
    """
    needed: dict[Operation, Scope] = {}
    for path, methods in openapi["paths"].items():
        for method, described in methods.items():
            if not described.get("security"):
                continue
            scopes = [
                name for one in described["security"] for names in one.values() for name in names
            ]
            if len(scopes) != 1:
                raise ValueError(f"{method} {path} names the scopes {scopes}")
            needed[method, path] = Scope(scopes[0])
    return needed
