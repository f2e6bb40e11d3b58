"""Nothing that a route depends on takes a thread, which callers without a key could use up."""

import inspect
from collections.abc import Iterator

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.testclient import TestClient


def calls(dependant: Dependant) -> Iterator[object]:
    """What a route calls before its own function, and that function."""
    yield dependant.call
    for inner in dependant.dependencies:
        yield from calls(inner)


def test_routes_and_all_that_they_depend_on_are_coroutines(client: TestClient) -> None:
    found = set()
    for context in iter_route_contexts(client.app.routes):  # type: ignore[attr-defined]
        route = getattr(context, "route", context)
        assert isinstance(route, APIRoute)
        found |= set(calls(route.dependant))
    assert len(found) > 15
    names = [repr(call) for call in found if not is_coroutine(call)]
    assert names == []


def is_coroutine(call: object) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
