"""The API keeps its own schema: requests are drawn from it, and responses held against it."""

import json
import re
import string
from dataclasses import replace
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as trials
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy
from starlette.testclient import TestClient

from app.documents import schemas as document_schemas
from app.http import schemas as http_schemas
from app.http.errors import STATUS
from app.questions import schemas as question_schemas
from app.services.services import Services
from app.tenants import schemas as tenant_schemas
from cli.settings import Settings
from common.scopes import Scope
from storage.quotas.resources import Resource
from tests.app.conftest import SharedApp
from tests.app.seeding import StorageSeeder

Schema = dict[str, Any]
Operation = tuple[str, str]  # method, path
ASK = ("post", "/documents/{document_id}/ask")
UPLOAD = ("post", "/documents")
LIST = ("get", "/documents")
DELETE = ("delete", "/documents/{document_id}")
CHANGE = ("patch", "/documents/{document_id}")
CHANGE_TENANT = ("patch", "/tenant")
MAKE_KEY = ("post", "/keys")
REVOKE_KEY = ("delete", "/keys/{key_id}")
WITH_JSON = (ASK, CHANGE, CHANGE_TENANT, MAKE_KEY)
PROBES = (("get", "/healthz"), ("get", "/readyz"))
OPERATIONS = (
    ASK,
    UPLOAD,
    LIST,
    DELETE,
    ("get", "/documents/{document_id}"),
    ("get", "/documents/{document_id}/events"),
    ("get", "/documents/{document_id}/text"),
    ("post", "/documents/{document_id}/retry"),
    ("post", "/documents/{document_id}/cancel"),
    ("post", "/documents/{document_id}/evict"),
    ("get", "/usage"),
    ("get", "/keys"),
    REVOKE_KEY,
    CHANGE,
    CHANGE_TENANT,
    MAKE_KEY,
    ("post", "/documents/{document_id}/prefetch"),
    *PROBES,
)


def has_tests_of_its_own(path: str) -> bool:
    """Whether a route's shapes are held by the tests of OpenAI's client or of pages, or no JSON."""
    return path.startswith("/v1/") or "/pages/" in path or path.endswith(("/content", "/metrics"))


CLOSED = tuple(operation for operation in OPERATIONS if operation not in PROBES)
UNKNOWN_ID = "6f0c3c1e-0000-4000-8000-000000000000"
MODELS = {
    name: model
    for schemas in (http_schemas, document_schemas, question_schemas, tenant_schemas)
    for name, model in vars(schemas).items()
    if getattr(model, "__module__", "") == schemas.__name__
}
NOT_UNDERSTOOD = frozenset({"invalid_request", "malformed_json", "malformed_body"})
TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
    "boolean": bool,
    "array": list,
    "object": dict,
}
ENUMS = {"Scope": list(Scope), "Resource": list(Resource)}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
ANY_JSON = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(), SCALARS, max_size=3)
SEGMENTS = st.text(
    st.characters(exclude_characters="/", codec="utf-8"), min_size=1, max_size=50
).filter(lambda text: text not in (".", ".."))
FRESH = count()
bounded = trials(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


# -- values ------------------------------------------------------------------------------------


def fitting(given: Schema) -> SearchStrategy[Any]:
    """Values that a schema allows; a keyword that is not known here is an error."""
    plain = {key: value for key, value in given.items() if key not in ("title", "default")}
    if "anyOf" in plain:
        return st.one_of([fitting(one) for one in plain["anyOf"]])
    if plain.get("$ref", "").endswith("/TurnBody"):
        return st.fixed_dictionaries(
            {"question": st.text(max_size=9), "answer": st.text(max_size=9)}
        )
    if "$ref" in plain:
        return st.sampled_from(ENUMS[plain["$ref"].rpartition("/")[2]])
    if "enum" in plain:
        return st.sampled_from(plain["enum"])
    match plain.pop("type"):
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "array":
            least, most = plain.pop("minItems", 0), plain.pop("maxItems", 4)
            drawn = st.lists(fitting(plain.pop("items")), min_size=least, max_size=most)
        case "object":
            names = fitting({"type": "string", **plain.pop("propertyNames")})
            plain.pop("maxProperties", None)  # more than are drawn
            drawn = st.dictionaries(names, fitting(plain.pop("additionalProperties")), max_size=3)
        case "string":
            least, most = plain.pop("minLength", 0), plain.pop("maxLength", 60)
            pattern = re.compile(plain.pop("pattern", ""))
            drawn = st.text(min_size=least, max_size=most).filter(pattern.search)
        case "integer":
            end = plain.pop("exclusiveMaximum", None)
            most = plain.pop("maximum", None) if end is None else int(end) - 1
            drawn = st.integers(int(plain.pop("minimum")), int(most))
        case "number":
            above = plain.pop("exclusiveMinimum", None)
            least = plain.pop("minimum", above)
            most = plain.pop("maximum")
            drawn = st.floats(least, most, exclude_min=above is not None)
    assert not plain, f"unknown keywords: {plain}"
    return drawn


def unfitting(given: Schema) -> SearchStrategy[Any]:
    """Values that a schema forbids: of another type, or out of bounds."""
    options = given.get("anyOf", [given])
    others = ANY_JSON.filter(lambda value: not any(has_type(value, one) for one in options))
    return st.one_of([others, *(out for one in options for out in out_of_bounds(one))])


def has_type(value: Any, given: Schema) -> bool:
    if isinstance(value, bool):
        return bool(given["type"] == "boolean")
    if isinstance(value, float) and value.is_integer():
        return given["type"] in ("integer", "number")
    return isinstance(value, TYPES[given["type"]])


def out_of_bounds(given: Schema) -> list[SearchStrategy[Any]]:
    found: list[SearchStrategy[Any]] = []
    if "enum" in given:
        found.append(st.text().filter(lambda text: text not in given["enum"]))
    if "maxLength" in given:
        found.append(st.text(string.ascii_letters, min_size=given["maxLength"] + 1))
    if given.get("minLength"):
        found.append(st.text(" \t\n", max_size=3))
    if "minimum" in given:
        found.append(st.integers(max_value=int(given["minimum"]) - 1))
    if "exclusiveMinimum" in given:
        found.append(st.integers(max_value=int(given["exclusiveMinimum"])))
    if "maximum" in given:
        found.append(st.integers(min_value=int(given["maximum"]) + 1))
    if "exclusiveMaximum" in given:
        found.append(st.integers(min_value=int(given["exclusiveMaximum"])))
    return found


def objects(given: Schema) -> SearchStrategy[Any]:
    """Objects that a schema allows."""
    drawn = {name: fitting(one) for name, one in given["properties"].items()}
    needed = {name: drawn.pop(name) for name in given.get("required", ())}
    return st.fixed_dictionaries(needed, optional=drawn)


@st.composite
def broken_objects(draw: st.DrawFn, given: Schema) -> Any:
    """Objects with one fault, or no objects at all."""
    fault = draw(st.sampled_from(("missing", "unknown", "wrong", "wrong", "wrong", "none")))
    if fault == "none":
        return draw(SCALARS | st.lists(SCALARS))
    made = draw(objects(given))
    if fault == "missing" and given.get("required"):
        made.pop(draw(st.sampled_from(given["required"])))
    elif fault in ("missing", "unknown"):
        assert given["additionalProperties"] is False
        made[draw(st.text().filter(lambda name: name not in given["properties"]))] = 1
    else:
        name = draw(st.sampled_from(sorted(given["properties"])))
        made[name] = draw(unfitting(given["properties"][name]))
    return made


# -- requests ----------------------------------------------------------------------------------


class Api:
    """The app, its schema, and a document that can be asked."""

    def __init__(self, client: TestClient, seeder: StorageSeeder, described: Schema) -> None:
        self.client, self.seeder, self.described = client, seeder, described
        self.ready_id = seeder.ready(client)

    def __repr__(self) -> str:
        return "api"

    def operation(self, operation: Operation) -> Schema:
        method, path = operation
        found: Schema = self.described["paths"][path][method]
        return found

    def body(self, operation: Operation) -> Schema:
        content = self.operation(operation)["requestBody"]["content"]["application/json"]
        name = content["schema"]["$ref"].rpartition("/")[2]
        found: Schema = self.described["components"]["schemas"][name]
        return found

    def address(self, data: DataObject, operation: Operation) -> str:
        """A path with an id of a document, of none, or any text."""
        if "{key_id}" in operation[1]:
            wanted = data.draw(st.just(UNKNOWN_ID) | SEGMENTS)
            return operation[1].replace("{key_id}", quote(wanted, safe=""))
        if "{document_id}" not in operation[1]:
            return operation[1]
        known = self.ready_id
        if operation == DELETE:  # each deletes its own
            known = self.seeder.upload(self.client, f"document {next(FRESH)}")
        wanted = data.draw(st.sampled_from((known, known, UNKNOWN_ID)) | SEGMENTS)
        return operation[1].replace("{document_id}", quote(wanted, safe=""))

    def send(self, operation: Operation, address: str, request: Schema) -> Any:
        return self.client.request(operation[0].upper(), address, **request)


def good_request(data: DataObject, api: Api, operation: Operation) -> Schema:
    """What the schema says may be sent."""
    if operation in WITH_JSON:
        return as_json(json.dumps(data.draw(objects(api.body(operation)))).encode())
    if operation == UPLOAD:
        content = data.draw(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
        return {"files": {"file": (data.draw(st.text(min_size=1, max_size=60)), content)}}
    params = {one["name"]: one["schema"] for one in queries(api, operation)}
    drawn = {name: data.draw(st.none() | fitting(one)) for name, one in params.items()}
    return {"params": {name: value for name, value in drawn.items() if value is not None}}


def bad_request(data: DataObject, api: Api, operation: Operation) -> Schema:
    """What the schema forbids."""
    if operation in WITH_JSON:
        return data.draw(
            broken_objects(api.body(operation)).map(lambda made: as_json(json.dumps(made).encode()))
            | st.binary().filter(is_no_json).map(as_json)
        )
    if operation == UPLOAD:
        form = {"content-type": "multipart/form-data; boundary=b"}
        return data.draw(
            ANY_JSON.map(lambda made: as_json(json.dumps(made).encode()))
            | st.binary().map(lambda content: {"content": content, "headers": form})
            | st.text(min_size=1)
            .filter(lambda name: name != "file")
            .map(lambda name: {"files": {name: ("a.txt", b"A text.")}})
        )
    chosen = data.draw(st.sampled_from(queries(api, operation)))
    options = chosen["schema"].get("anyOf", [chosen["schema"]])
    outside = [out for one in options for out in out_of_bounds(one)]
    if all(one["type"] in ("integer", "null") for one in options):
        outside.append(st.text(string.ascii_letters, max_size=60))
    return {"params": {chosen["name"]: data.draw(st.one_of(outside))}}


def queries(api: Api, operation: Operation) -> list[Schema]:
    return [one for one in api.operation(operation).get("parameters", ()) if one["in"] == "query"]


def as_json(content: bytes) -> Schema:
    return {"content": content, "headers": {"content-type": "application/json"}}


def is_no_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return True
    return False


# -- responses ---------------------------------------------------------------------------------


def check(api: Api, operation: Operation, response: Any) -> str | None:
    """Hold a response against the schema; return its error code, if it is a refusal."""
    status, documented = response.status_code, api.operation(operation)["responses"]
    described = documented.get(str(status)) or documented.get(f"{status // 100}XX")
    assert described is not None, f"{operation} does not say that it answers {status}"
    if status == 204:
        assert response.content == b""
        return None
    kind = response.headers["content-type"].partition(";")[0]
    assert kind in described["content"]
    body = described["content"][kind].get("schema", {})
    if "$ref" in body:
        model = MODELS[body["$ref"].rpartition("/")[2]]
        assert model.model_validate(response.json()).model_dump() == response.json()
    if status < 400 or operation in PROBES:
        return None
    error = response.json()["error"]
    assert STATUS[error["code"]] == status
    assert error["message"].endswith(".")
    return str(error["code"])


# -- tests -------------------------------------------------------------------------------------


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A server of short answers."""
    short = replace(settings.server, max_answer_tokens=4)
    return settings.model_copy(update={"server": short})


@pytest.fixture(scope="module")
def described(shared_app: SharedApp) -> Schema:
    """The schema, which every app makes anew though it is the same."""
    found: Schema = shared_app.client.get("/openapi.json").json()
    return found


@pytest.fixture
def api(client: TestClient, seeder: StorageSeeder, described: Schema) -> Api:
    """The API with a ready document."""
    return Api(client, seeder, described)


def test_every_operation_is_tried_and_all_but_probes_want_a_key(api: Api) -> None:
    paths = api.described["paths"]
    described = {(method, path) for path in paths for method in paths[path]}
    assert {one for one in described if not has_tests_of_its_own(one[1])} == set(OPERATIONS)
    closed = {one for one in OPERATIONS if api.operation(one).get("security")}
    assert closed == set(CLOSED)


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
@bounded
@given(data=st.data())
def test_a_request_that_fits_is_understood(
    api: Api, operation: Operation, data: DataObject
) -> None:
    address = api.address(data, operation)
    response = api.send(operation, address, good_request(data, api, operation))
    if operation != ("get", "/readyz"):  # no worker runs here, which it says
        assert response.status_code < 500
    code = check(api, operation, response)
    assert code not in NOT_UNDERSTOOD
    if operation == UPLOAD:
        assert code != "invalid_input"
    if response.status_code == 204:
        gone = [("get", ""), ("delete", ""), ("get", "/events")]
        again = [api.client.request(method, address + tail) for method, tail in gone]
        assert {one.status_code for one in again} == {404}, "nothing deleted can be used"


@pytest.mark.parametrize("operation", [*WITH_JSON, UPLOAD, LIST], ids=" ".join)
@bounded
@given(data=st.data())
def test_a_request_that_does_not_fit_is_refused(
    api: Api, operation: Operation, data: DataObject
) -> None:
    address = operation[1].replace("{document_id}", api.ready_id)
    response = api.send(operation, address, bad_request(data, api, operation))
    assert 400 <= response.status_code < 500, response.text
    assert check(api, operation, response) is not None


@pytest.mark.parametrize("operation", CLOSED, ids=" ".join)
@trials(bounded, max_examples=10)
@given(data=st.data())
def test_without_a_key_nothing_else_of_a_request_counts(
    api: Api, operation: Operation, data: DataObject
) -> None:
    has_input = operation in (*WITH_JSON, UPLOAD, LIST)
    make = bad_request if has_input and data.draw(st.booleans()) else good_request
    address, request = api.address(data, operation), make(data, api, operation)
    key = data.draw(st.sampled_from((None, "Bearer lk_1_2", "Basic a2V5")))
    kept = api.client.headers.pop("authorization")
    try:
        headers = request.pop("headers", {}) | ({} if key is None else {"authorization": key})
        response = api.send(operation, address, {**request, "headers": headers})
    finally:
        api.client.headers["authorization"] = kept
    assert response.status_code == 401
    assert check(api, operation, response) == "invalid_api_key"
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_stopping_server_keeps_the_schema(api: Api, services: Services) -> None:
    good = {
        ASK: {"json": {"question": "When does the gate close?"}},
        UPLOAD: {"files": {"file": ("a.txt", b"A new text.")}},
        CHANGE: {"json": {}},
        CHANGE_TENANT: {"json": {"document_ttl_s": None}},
        MAKE_KEY: {"json": {"name": "made"}},
    }
    services.question_queue.drain()
    statuses = {}
    for operation in sorted(OPERATIONS, key=lambda one: one == DELETE):
        address = operation[1].replace("{document_id}", api.ready_id).replace("{key_id}", "none")
        response = api.send(operation, address, good.get(operation, {}))
        code = check(api, operation, response)
        expected = {REVOKE_KEY: "key_not_found", ASK: "shutting_down", UPLOAD: "shutting_down"}
        assert code == expected.get(operation)
        statuses[operation] = response.status_code
    refused = {operation for operation, status in statuses.items() if status == 503}
    assert refused == {ASK, UPLOAD, ("get", "/readyz")}
