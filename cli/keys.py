"""Making API keys on the server's own machine."""

from contextlib import closing

from rich.console import Console

from cli.show import say
from common.settings import Settings
from storage import open_storage


def make_key(console: Console, settings: Settings, name: str) -> None:
    """Print a new key for the default tenant; only its hash is kept."""
    with closing(open_storage(settings)) as storage:
        say(console, storage.keys.create_default(name))
