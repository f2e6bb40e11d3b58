"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from common.errors import InvalidInput
from common.settings import Settings

DEFAULT_URL = "http://127.0.0.1:8080"

Url = Annotated[
    str, typer.Option("--url", envvar="LECTERN_URL", help="The server's address.", metavar="URL")
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        envvar="LECTERN_API_KEY",
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


def given(**options: Any) -> dict[str, Any]:
    """The options that were given on the command line."""
    return {name: value for name, value in options.items() if value is not None}


class InvalidSetting(InvalidInput):
    """A LECTERN_ variable or an option has a value that it cannot have."""

    code = "invalid_setting"


def read_settings(**values: Any) -> Settings:
    """Settings from the environment, with `values` on top.

    Raises: InvalidSetting with the variable's name.
    """
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = "LECTERN_" + "__".join(str(part).upper() for part in first["loc"])
        raise InvalidSetting(f"The setting {name} is wrong: {first['msg']}.") from error
