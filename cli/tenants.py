"""`lectern tenant`: make, list, suspend and delete tenants, on the server's own machine."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from cli.command_group import CommandGroup
from cli.exit_codes import NoSuchName
from cli.limits import Assignments, parse_limits, use_table
from cli.local_storage import changing_storage, local_settings, looking_at_storage
from cli.names import did_you_mean
from cli.options import DataDir
from cli.show import format_moment, make_console, say
from common.errors import InvalidInput

if TYPE_CHECKING:  # importing SQLAlchemy takes time, which other commands should not need
    from storage.db.records import TenantRecord
    from storage.storage import Storage

DAY_S = 24 * 3600
MAX_DAYS = 36_500

app = typer.Typer(
    name="tenant",
    help="Make, list, suspend and delete tenants, on the server's own machine.",
    cls=CommandGroup,
    no_args_is_help=True,
    epilog="A tenant owns documents and keys, and two tenants share nothing. Works on the database "
    "directly, whether the server runs or not.",
)
Name = Annotated[str, typer.Argument(help="The tenant's name.")]


@app.command()
def create(
    name: Name,
    ttl_days: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_DAYS,
            help="Days after which its documents are deleted, unless an upload says otherwise.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Make a tenant. It has no key yet: `lectern keys create NAME --tenant TENANT` makes one."""
    with _storage(data_dir) as storage:
        storage.tenants.create(name, None if ttl_days is None else ttl_days * DAY_S)
    say(make_console(), f"Made the tenant {name}.")


@app.command("list")
def show(data_dir: DataDir = None) -> None:
    """List all tenants by name."""
    console = make_console()
    with looking_at_storage(local_settings(data_dir)) as storage:
        tenants = [] if storage is None else storage.tenants.list()
    if tenants:
        console.print(tenants_table(tenants))
    else:
        say(console, "No tenants here. The first start of a server makes one.")


@app.command("show")
def show_one(name: Name, data_dir: DataDir = None) -> None:
    """Show what a tenant may use, and what it has used."""
    with looking_at_storage(local_settings(data_dir)) as storage:
        if storage is None:
            raise NoSuchName(f"There is no tenant '{name}', as nothing is stored here yet.")
        uses = storage.quotas.use(get_tenant(storage, name).id)
    make_console().print(use_table(uses))


@app.command()
def limit(name: Name, assignments: Assignments, data_dir: DataDir = None) -> None:
    """Set or remove limits of a tenant; running servers follow within two seconds."""
    amounts = parse_limits(assignments)
    with _storage(data_dir) as storage:
        tenant = get_tenant(storage, name)
        storage.quotas.limits.set_for_tenant(tenant.id, amounts)
        uses = storage.quotas.use(tenant.id)
    make_console().print(use_table(uses))


@app.command()
def suspend(name: Name, data_dir: DataDir = None) -> None:
    """Refuse a tenant's keys from the next request on, and let its documents wait unread."""
    with _storage(data_dir) as storage:
        storage.tenants.suspend(get_tenant(storage, name).id)
    say(make_console(), f"Suspended {name}. `lectern tenant resume` lets it go on.")


@app.command()
def resume(name: Name, data_dir: DataDir = None) -> None:
    """Let a suspended tenant go on."""
    with _storage(data_dir) as storage:
        storage.tenants.resume(get_tenant(storage, name).id)
        storage.notifier.notify_workers()
    say(make_console(), f"{name} goes on.")


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Delete a tenant with its keys, documents, caches and answers, for good."""
    with _storage(data_dir) as storage:
        tenant = get_tenant(storage, name)
        if not yes:
            if not sys.stdin.isatty():
                raise InvalidInput("This deletes all of its documents, for good; say --yes.")
            typer.confirm(f"Delete {name}, its keys and all of its documents?", abort=True)
        num_documents = storage.delete_tenant(tenant.id)
    say(make_console(), f"Deleted {name} ({tenant.id}) and {num_documents} documents.")


def tenants_table(tenants: Sequence["TenantRecord"]) -> Table:
    """Make a table of tenants."""
    table = Table(box=None, pad_edge=False)
    table.add_column("Tenant", overflow="fold")
    for name in ("Id", "Made", "Status"):
        table.add_column(name, no_wrap=True)
    for tenant in tenants:
        status = Text("active", style="green")
        if tenant.suspended_at is not None:
            status = Text(f"suspended {_when(tenant.suspended_at)}", style="red")
        table.add_row(Text(tenant.name), str(tenant.id), _when(tenant.created_at), status)
    return table


def get_tenant(storage: "Storage", name: str) -> "TenantRecord":
    """Return the tenant of a name. Raises: NoSuchName, which tells the nearest names."""
    if storage.tenants.find(name) is None:
        raise unknown_tenant(storage, name)
    return storage.tenants.get(name)


def unknown_tenant(storage: "Storage", name: str) -> NoSuchName:
    """Return the error for a name that no tenant has."""
    hint = did_you_mean(name, (one.name for one in storage.tenants.list()))
    return NoSuchName(f"There is no tenant '{name}'; `lectern tenant list` shows all.{hint}")


def _storage(data_dir: DataDir) -> AbstractContextManager["Storage"]:
    """Open storage while the block runs."""
    return changing_storage(local_settings(data_dir))


def _when(moment: datetime) -> str:
    return format_moment(int(moment.timestamp()))
