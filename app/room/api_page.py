"""The page `/docs`: what the OpenAPI schema says, for people; it loads nothing from other hosts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.room.guard import RoomRoute, csrf_token
from app.web.pages import render

router = APIRouter(include_in_schema=False, route_class=RoomRoute)
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Field:
    """A parameter of a call, or a field of a body."""

    name: str
    place: str
    kind: str
    is_required: bool


@dataclass(frozen=True)
class Operation:
    """A call.

    Attributes:
        scope: what a key needs for it; empty for calls without a key.
        body, answer: names of the schemas of what is sent and of what comes back.
    """

    method: str
    path: str
    summary: str
    description: str
    scope: str
    fields: tuple[Field, ...]
    body: str
    answer: str


@router.get("/docs")
async def docs_page(request: Request) -> Response:
    """Show every call, and the fields of every body."""
    schema: Schema = request.app.openapi()
    return render(
        "room/docs.html",
        csrf=csrf_token(request),
        version=schema["info"]["version"],
        operations=tuple(operations_of(schema)),
        models=tuple(models_of(schema)),
    )


def operations_of(schema: Schema) -> Iterator[Operation]:
    """Yield the calls of an OpenAPI schema in their order."""
    for path, methods in schema["paths"].items():
        for method, described in methods.items():
            scopes = [
                name
                for one in described.get("security", ())
                for names in one.values()
                for name in names
            ]
            summary, _, rest = str(described.get("description", "")).partition("\n")
            sent = described.get("requestBody", {}).get("content", {})
            yield Operation(
                method.upper(),
                path,
                summary or described.get("summary", ""),
                rest.strip(),
                ", ".join(scopes),
                tuple(
                    Field(one["name"], one["in"], _kind(one["schema"]), one.get("required", False))
                    for one in described.get("parameters", ())
                ),
                ", ".join(_kind(one.get("schema", {})) or kind for kind, one in sent.items()),
                _answer(described["responses"]),
            )


def models_of(schema: Schema) -> Iterator[tuple[str, str, tuple[Field, ...]]]:
    """Yield name, description and fields of every body in an OpenAPI schema."""
    for name, model in sorted(schema.get("components", {}).get("schemas", {}).items()):
        needed = model.get("required", ())
        fields = tuple(
            Field(field, "", _kind(one), field in needed)
            for field, one in model.get("properties", {}).items()
        )
        yield name, model.get("description", ""), fields


def _answer(responses: Schema) -> str:
    for status, response in responses.items():
        if status.startswith("2"):
            content = response.get("content", {})
            kinds = [_kind(one.get("schema", {})) or kind for kind, one in content.items()]
            return f"{status} {', '.join(kinds)}".strip()
    return ""


def _kind(schema: Schema) -> str:
    """Describe what a schema allows in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(filter(None, map(_kind, schema["anyOf"]))))
    if "enum" in schema:
        return " or ".join(f'"{value}"' for value in schema["enum"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    kind = str(schema.get("type", ""))
    if kind == "array":
        return f"list of {_kind(schema.get('items', {})) or 'anything'}"
    return kind
