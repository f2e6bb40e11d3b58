"""`lectern key`: make, list and revoke API keys, on the server's own machine."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer
from rich.table import Table
from rich.text import Text

from cli.options import DataDir, given, read_settings
from cli.show import make_console, say, when
from common.errors import InvalidInput

if TYPE_CHECKING:  # SQLAlchemy takes time that the client's commands need not wait
    from storage.db.records import ApiKeyRecord
    from storage.keys import ApiKeys

MARK = "lk_"
MAKE = "Make one with `lectern key create NAME`."
MAX_DAYS = 36_500

app = typer.Typer(
    name="key",
    help="Make, list and revoke API keys, on the server's own machine.",
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
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it, once: only its hash is kept."""
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    with _keys(data_dir) as (keys, tenant_id):
        say(make_console(), keys.create(tenant_id, name, expires_at)[0])


@app.command("list")
def show(data_dir: DataDir = None) -> None:
    """List the keys, oldest first: how each begins, what it is for and whether it is valid."""
    console = make_console()
    with _keys(data_dir) as (keys, tenant_id):
        found = keys.list(tenant_id)
    if found:
        console.print(keys_table(found))
    else:
        say(console, f"No API keys here. {MAKE}")


@app.command()
def revoke(
    key: Annotated[
        str, typer.Argument(help="The key as `lectern key list` shows it, or the beginning of it.")
    ],
    data_dir: DataDir = None,
) -> None:
    """Revoke a key: a running server refuses the next request that comes with it."""
    console = make_console()
    with _keys(data_dir) as (keys, tenant_id):
        chosen = resolve(keys.list(tenant_id), key)
        keys.revoke(chosen.id)
        left = keys.list(tenant_id)
    label = f"{_shown(chosen)} ({chosen.name})"
    if chosen.revoked_at is not None:
        say(console, f"{label} is revoked already, since {_when(chosen.revoked_at)}.")
    else:
        say(console, f"Revoked {label}.")
    if not any(map(is_valid, left)):
        say(console, f"No valid key is left. {MAKE}")


def resolve(keys: Sequence["ApiKeyRecord"], text: str) -> "ApiKeyRecord":
    """The one key that begins with `text`, which may be the whole key or lack its `lk_`.

    Raises: InvalidInput if none or several do; it never repeats a secret.
    """
    beginning = text.strip().lower().removeprefix(MARK).partition("_")[0]
    found = [key for key in keys if beginning and key.prefix.startswith(beginning)]
    if not found:
        raise InvalidInput(f"No key begins with '{MARK}{beginning}'; `lectern key list` shows all.")
    if len(found) > 1:
        raise InvalidInput(f"{len(found)} keys begin with '{MARK}{beginning}'; give more of one.")
    return found[0]


def keys_table(keys: Iterable["ApiKeyRecord"]) -> Table:
    """One row a key; nothing in it opens anything."""
    table = Table(box=None, pad_edge=False)
    table.add_column("Key", no_wrap=True)
    table.add_column("Name", overflow="fold")
    for name in ("Made", "Status"):
        table.add_column(name, no_wrap=True)
    for key in keys:
        table.add_row(_shown(key), Text(key.name), _when(key.created_at), status_text(key))
    return table


def status_text(key: "ApiKeyRecord") -> Text:
    """Whether the key opens anything, and since or until when."""
    if key.revoked_at is not None:
        return Text(f"revoked {_when(key.revoked_at)}", style="red")
    if key.expires_at is None:
        return Text("valid", style="green")
    if is_valid(key):
        return Text(f"expires {_when(key.expires_at)}", style="green")
    return Text(f"expired {_when(key.expires_at)}", style="yellow")


def is_valid(key: "ApiKeyRecord") -> bool:
    """Whether the key is neither revoked nor expired."""
    expired = key.expires_at is not None and key.expires_at <= datetime.now(UTC)
    return key.revoked_at is None and not expired


@contextmanager
def _keys(data_dir: DataDir) -> Iterator[tuple["ApiKeys", UUID]]:
    """The keys and the default tenant, to which those of this command belong."""
    from storage.storage import open_storage

    with closing(open_storage(read_settings(**given(data_dir=data_dir)).storage())) as storage:
        yield storage.keys, storage.tenants.default()


def _shown(key: "ApiKeyRecord") -> str:
    """How the key's text begins: enough to tell it, of no use to open anything."""
    return MARK + key.prefix


def _when(moment: datetime) -> str:
    return when(int(moment.timestamp()))
