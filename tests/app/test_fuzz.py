"""Requests that mean nothing: refused, whatever they hold, and never a 500."""

import json
import random

import pytest
from starlette.testclient import TestClient

from tests.app.seeding import StorageSeeder

VALUES = (
    None, True, -1, 0, 10**30, 1e308, "", "\x00", "x" * 3000, "😀" * 50, [], [[[]]], {}, {"$ne": 1},
    "../../etc/passwd", "%00", "'; DROP TABLE documents; --", "NaN", ["question"],
)  # fmt: skip
FIELDS = ("question", "budget", "max_tokens", "temperature", "top_p", "seed", "stream", "nonsense")
PATHS = (
    "/documents", "/documents/{}", "/documents/{}/ask", "/documents/{}/events", "/admin/login",
    "/documents/%00", "/documents/" + "x" * 3000, "//documents", "/documents?limit=-1&after=x",
)  # fmt: skip
TYPES = ("application/json", "multipart/form-data; boundary=b", "text/plain", "x" * 200, "")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW")


@pytest.fixture
def document_id(client: TestClient, seeder: StorageSeeder) -> str:
    """A ready document that nothing of this may harm."""
    return seeder.ready(client)


def body(rng: random.Random) -> bytes:
    """Broken JSON, JSON of wrong values, a broken form, or any bytes."""
    picked = {field: rng.choice(VALUES) for field in rng.sample(FIELDS, rng.randint(0, 5))}
    forms = (
        json.dumps(picked).encode(),
        json.dumps(picked).encode()[: rng.randint(0, 40)],
        b"--b\r\nContent-Disposition: form-data; name=file" + rng.randbytes(30) + b"\r\n--b",
        b"[" * rng.randint(1, 5000),
        rng.randbytes(rng.randint(0, 500)),
    )
    return rng.choice(forms)


def test_nonsense_is_refused(client: TestClient, document_id: str) -> None:
    rng, statuses = random.Random(4), set()
    for number in range(400):
        method, path = rng.choice(METHODS), rng.choice(PATHS)
        if (method, path) == ("DELETE", "/documents/{}"):
            continue
        if "/events" in path and method in ("GET", "HEAD"):
            continue  # an honest request
        path = path.replace("{}", rng.choice((document_id, "x", "-1")))
        headers = {"content-type": rng.choice(TYPES)}
        response = client.request(method, path, content=body(rng), headers=headers)
        assert response.status_code < 500, (number, method, path, response.text)
        statuses.add(response.status_code)
    assert statuses >= {400, 404, 405, 422}, "it reaches every kind of refusal"
    assert client.get(f"/documents/{document_id}").json()["status"] == "ready"
