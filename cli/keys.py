"""`lectern keys`: make, list and revoke API keys, on the server's own machine."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer
from rich.table import Table
from rich.text import Text

from cli.command_group import CommandGroup
from cli.exit_codes import NoSuchName
from cli.limits import Assignments, parse_limits
from cli.local_storage import changing_storage, local_settings, looking_at_storage
from cli.names import did_you_mean
from cli.options import DataDir
from cli.show import format_moment, make_console, say
from cli.tenants import get_tenant, unknown_tenant
from common.errors import InvalidInput
from common.scopes import ALL_SCOPES, parse_scopes

if TYPE_CHECKING:  # importing SQLAlchemy takes time, which other commands should not need
    from storage.db.records import ApiKeyRecord
    from storage.storage import Storage

MARK = "lk_"
DEFAULT = "default"
Tenant = Annotated[str, typer.Option("--tenant", help="Name of the tenant that has the key.")]
HOW_TO_MAKE = "Make one with `lectern keys create NAME`."
MAX_DAYS = 36_500

app = typer.Typer(
    name="keys",
    help="Make, list, limit and revoke API keys, on the server's own machine.",
    cls=CommandGroup,
    no_args_is_help=True,
    epilog="Works on the database directly, whether the server runs or not.",
)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for, as a label.")],
    days: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_DAYS, help="Days until it expires; never by default.", show_default=False
        ),
    ] = None,
    tenant: Tenant = DEFAULT,
    scopes: Annotated[str, typer.Option(help="What it may do, separated by commas.")] = ",".join(
        ALL_SCOPES
    ),
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it, once: only its hash is kept."""
    granted = parse_scopes(scopes.split(","))
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    with _storage(data_dir, tenant) as (storage, tenant_id):
        say(make_console(), storage.keys.create(tenant_id, name, expires_at, granted)[0])


@app.command("list")
def show(tenant: Tenant = DEFAULT, data_dir: DataDir = None) -> None:
    """List a tenant's keys, oldest first: how each begins, what it may do, whether it is valid."""
    console = make_console()
    with looking_at_storage(local_settings(data_dir)) as storage:
        tenant_id = None if storage is None else storage.tenants.find(tenant)
        if storage is not None and tenant_id is None and tenant != DEFAULT:
            raise unknown_tenant(storage, tenant)
        records = [] if storage is None or tenant_id is None else storage.keys.list(tenant_id)
    if records:
        console.print(keys_table(records))
    else:
        say(console, f"No API keys here. {HOW_TO_MAKE}")


@app.command()
def revoke(
    key: Annotated[
        str, typer.Argument(help="The key as `lectern keys list` shows it, or the beginning of it.")
    ],
    tenant: Tenant = DEFAULT,
    data_dir: DataDir = None,
) -> None:
    """Revoke a key: a running server refuses the next request that comes with it."""
    console = make_console()
    with _storage(data_dir, tenant) as (storage, tenant_id):
        chosen = resolve(storage.keys.list(tenant_id), key)
        storage.keys.revoke(tenant_id, chosen.id)
        remaining = storage.keys.list(tenant_id)
    label = f"{_public_part(chosen)} ({chosen.name})"
    if chosen.revoked_at is not None:
        say(console, f"{label} is revoked already, since {_when(chosen.revoked_at)}.")
    else:
        say(console, f"Revoked {label}.")
    if not any(map(is_valid, remaining)):
        say(console, f"No valid key is left. {HOW_TO_MAKE}")


@app.command()
def limit(
    key: Annotated[
        str, typer.Argument(help="The key as `lectern keys list` shows it, or the beginning of it.")
    ],
    assignments: Assignments,
    tenant: Tenant = DEFAULT,
    data_dir: DataDir = None,
) -> None:
    """Set or remove limits of a key, within those of its tenant; servers follow in two seconds."""
    amounts = parse_limits(assignments)
    with _storage(data_dir, tenant) as (storage, tenant_id):
        chosen = resolve(storage.keys.list(tenant_id), key)
        storage.quotas.limits.set_for_key(chosen.id, amounts)
        kept = storage.quotas.limits.of_key(chosen.id)
    shown = " ".join(f"{resource}={amount}" for resource, amount in sorted(kept.items()))
    say(
        make_console(), f"{_public_part(chosen)} ({chosen.name}): {shown or 'no limits of its own'}"
    )


def resolve(keys: Sequence["ApiKeyRecord"], text: str) -> "ApiKeyRecord":
    """Return the one key that a text stands for.

    Args:
        text: the whole key or the beginning of it, with or without `lk_`.
    Raises: InvalidInput if no key or several begin like this; the message contains no secret.
    """
    beginning = text.strip().lower().removeprefix(MARK).partition("_")[0]
    fitting = [key for key in keys if beginning and key.prefix.startswith(beginning)]
    if not fitting:
        hint = did_you_mean(text.strip(), (key.name for key in keys))
        raise NoSuchName(
            f"No key begins with '{MARK}{beginning}'; `lectern keys list` shows all.{hint}"
        )
    if len(fitting) > 1:
        raise InvalidInput(f"{len(fitting)} keys begin with '{MARK}{beginning}'; give more of one.")
    return fitting[0]


def keys_table(keys: Iterable["ApiKeyRecord"]) -> Table:
    """Make a table of keys, which contains no secrets."""
    table = Table(box=None, pad_edge=False)
    table.add_column("Key", no_wrap=True)
    table.add_column("Name", overflow="fold")
    for name in ("Scopes", "Made", "Status"):
        table.add_column(name, no_wrap=True)
    for key in keys:
        scopes = "all" if set(key.scopes) == set(ALL_SCOPES) else ",".join(key.scopes)
        made = _when(key.created_at)
        table.add_row(_public_part(key), Text(key.name), scopes, made, status_text(key))
    return table


def status_text(key: "ApiKeyRecord") -> Text:
    """Return whether the key is valid, and since or until when."""
    if key.revoked_at is not None:
        return Text(f"revoked {_when(key.revoked_at)}", style="red")
    if key.expires_at is None:
        return Text("valid", style="green")
    if is_valid(key):
        return Text(f"expires {_when(key.expires_at)}", style="green")
    return Text(f"expired {_when(key.expires_at)}", style="yellow")


def is_valid(key: "ApiKeyRecord") -> bool:
    """Return whether the key is neither revoked nor expired."""
    expired = key.expires_at is not None and key.expires_at <= datetime.now(UTC)
    return key.revoked_at is None and not expired


@contextmanager
def _storage(data_dir: DataDir, tenant: str) -> Iterator[tuple["Storage", UUID]]:
    """Open storage while the block runs; the block gets it and the tenant of that name."""
    with changing_storage(local_settings(data_dir)) as storage:
        storage.tenants.default()  # it is made by whoever comes first
        yield storage, get_tenant(storage, tenant).id


def _public_part(key: "ApiKeyRecord") -> str:
    """Return how the key's text begins, which identifies the key but is no secret."""
    return MARK + key.prefix


def _when(moment: datetime) -> str:
    return format_moment(int(moment.timestamp()))
