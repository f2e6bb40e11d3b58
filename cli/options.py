"""Options and arguments that several commands share."""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console

from cli.client import Client
from cli.settings import PREFIX, RENAMED, Settings, variables
from common.errors import InvalidInput

ARGUMENTS = f"{PREFIX}PROMPT__TEMPLATE_ARGUMENTS__"  # what follows is the template's
DEFAULT_URL = "http://127.0.0.1:8080"
URL_VARIABLE, KEY_VARIABLE = "LECTERN_URL", "LECTERN_API_KEY"

Url = Annotated[
    str, typer.Option("--url", envvar=URL_VARIABLE, help="The server's address.", metavar="URL")
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar=KEY_VARIABLE,
        help="An API key; the server prints the first one when it is first started.",
        show_envvar=True,
        metavar="KEY",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the server's JSON instead.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Where documents and caches are kept (LECTERN_DATA_DIR; ./lectern-data).",
        file_okay=False,
        show_default=False,
    ),
]


def environment_client(timeout_s: float) -> Client:
    """Return a client of the server that the environment names, for a shell that completes names.

    Args:
        timeout_s: seconds that an answer may take, as somebody waits for the key that they pressed.
    """
    return Client(
        os.environ.get(URL_VARIABLE, DEFAULT_URL), os.environ.get(KEY_VARIABLE), timeout_s=timeout_s
    )


def parse_budget(text: str) -> str | float:
    """Return a budget as the server takes it: `10%` and `0.1` as a number, or else the name.

    Raises: InvalidInput for a number that is no share.
    """
    number = text.strip().removesuffix("%").strip()
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        return text.strip()
    if not 0 < share <= 1:
        raise InvalidInput(f"The budget '{text}' is no share: write 10% or 0.1, at most 100%.")
    return share


def not_none(**options: Any) -> dict[str, Any]:
    """Return the options that are not None, which are those given on the command line."""
    return {name: value for name, value in options.items() if value is not None}


class InvalidSetting(InvalidInput):
    """A LECTERN_ variable or an option has a value that is not allowed."""

    code = "invalid_setting"


def read_settings(**values: Any) -> Settings:
    """Read the settings from the environment, and warn of unknown variables.

    Args:
        values: settings that take precedence over the environment.
    Raises: InvalidSetting with the variable's name.
    """
    try:
        settings = Settings(**values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = PREFIX + "__".join(str(part).upper() for part in first["loc"])
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            raise InvalidSetting(_unknown(name)) from error
        raise InvalidSetting(f"The setting {name} is wrong: {first['msg']}.") from error
    for name in unknown_variables(os.environ):
        _warn(f"{_unknown(name)} It is ignored.")
    for old, new in RENAMED.items():
        if old in os.environ:
            _warn(f"{old} is called {new} now; the old name still counts.")
    return settings


def unknown_variables(environment: Iterable[str]) -> tuple[str, ...]:
    """Return the names of variables that look like settings but are not.

    They are no error, because clusters set variables of their own for a service called `lectern`.
    """
    known = {*variables(), *RENAMED, URL_VARIABLE, KEY_VARIABLE}
    groups = {name.rpartition("__")[0] for name in known}  # a whole group can be given as JSON
    prefixed = (name for name in environment if name.upper().startswith(PREFIX))
    candidates = (name for name in prefixed if not name.upper().startswith(f"{PREFIX}TEST_"))
    return tuple(
        sorted(
            name
            for name in candidates
            if name.upper() not in known | groups and not name.upper().startswith(ARGUMENTS)
        )
    )


def _unknown(name: str) -> str:
    nearest = get_close_matches(name.upper(), list(variables()), n=1, cutoff=0.7)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    return f"There is no setting {name}.{hint}"


def _warn(sentence: str) -> None:
    console = Console(stderr=True, highlight=False)
    console.print(f"Warning: {sentence}", markup=False, soft_wrap=True)
