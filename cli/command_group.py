"""A group of commands whose help tells the exit codes."""

from typing import Any

from typer.core import TyperGroup

from cli.exit_codes import TOLD


class CommandGroup(TyperGroup):
    """A group that tells the exit codes below its own help and that of each of its commands."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, which tells the exit codes if it has no other last words."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and TOLD not in (command.epilog or ""):
            command.epilog = "\n\n".join(filter(None, (command.epilog, TOLD)))
        return command
