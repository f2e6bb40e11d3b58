"""Models of keys and quotas, which OpenAPI shows and responses are made of."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.http.schemas import MAX_TTL_S, MIN_TTL_S, Body
from common.scopes import ALL_SCOPES, Scope
from storage.db.records import ApiKeyRecord
from storage.quotas.quotas import ResourceUse
from storage.quotas.resources import Resource

MAX_AMOUNT = 2**62
MAX_DAYS = 36_500
Amount = Annotated[int, Field(ge=0, le=MAX_AMOUNT, strict=True)]


class ResourceBody(Body):
    """How much of a resource may be used and was used, by the tenant and by the key of the request.

    A limit is null for any amount, what was used where it is not counted, and `resets_in_s` for
    what is not counted by the minute or the day.
    """

    limit: int | None
    used: int | None
    key_limit: int | None
    key_used: int | None
    resets_in_s: float | None


class QuotaBody(Body):
    """What the tenant may use, and has used."""

    object: Literal["usage"]
    tenant_id: str
    tenant: str
    key_id: str
    scopes: list[Scope]
    document_ttl_s: int | None
    resources: dict[Resource, ResourceBody]


class TenantChange(BaseModel):
    """What is to change for the tenant; `document_ttl_s` null keeps documents for ever."""

    model_config = ConfigDict(extra="forbid")

    document_ttl_s: int | None = Field(ge=MIN_TTL_S, le=MAX_TTL_S, strict=True)


class NewKeyBody(BaseModel):
    """A key to be made: a label, what it may do, how long it is valid, and limits of its own."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    scopes: list[Scope] = Field(default=list(ALL_SCOPES), min_length=1, max_length=len(ALL_SCOPES))
    expires_in_days: int | None = Field(default=None, ge=1, le=MAX_DAYS, strict=True)
    limits: dict[Resource, Amount] = Field(default={})


class KeyBody(Body):
    """A key without its secret; times are Unix seconds."""

    id: str
    object: Literal["key"]
    name: str
    prefix: str
    scopes: list[Scope]
    created_at: int
    expires_at: int | None
    revoked_at: int | None


class MadeKeyBody(KeyBody):
    """A key that has just been made; `key` is shown only now."""

    key: str


class KeyList(Body):
    """All keys of the tenant, oldest first."""

    object: Literal["list"]
    data: list[KeyBody]


def key_fields(key: ApiKeyRecord) -> dict[str, object]:
    """Return the fields of a key's body."""
    return {
        "id": str(key.id),
        "object": "key",
        "name": key.name,
        "prefix": key.prefix,
        "scopes": list(key.scopes),
        "created_at": int(key.created_at.timestamp()),
        "expires_at": _unix_seconds(key.expires_at),
        "revoked_at": _unix_seconds(key.revoked_at),
    }


def resource_body(use: ResourceUse) -> ResourceBody:
    """Make the body of a resource."""
    return ResourceBody(
        limit=use.limit,
        used=use.used,
        key_limit=use.key_limit,
        key_used=use.key_used,
        resets_in_s=None if use.reset_s is None else round(use.reset_s, 1),
    )


def _unix_seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())
