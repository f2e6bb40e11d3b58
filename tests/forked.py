"""Processes forked from one that has imported what they need, as importing it takes seconds."""

import os
import sys
from collections.abc import Mapping
from functools import cache
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

import pytest

IMPORTED = ["tests.faults.child", "cli.serve"]


@cache
def fork_context() -> ForkServerContext:
    """A context whose processes are forked from one that was started as `lectern` would be."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")  # read when transformers is imported
        patch.delenv("TRITON_INTERPRET", raising=False)
        forkserver.ensure_running()
    first = context.Process()  # it does nothing, and begins when all is imported
    first.start()
    first.join()
    return context


def fork_lectern(
    arguments: list[str], environment: Mapping[str, str], folder: Path, log: Path
) -> tuple[ForkServerProcess, Connection]:
    """Run the `lectern` command in a process of its own.

    Args:
        environment: all of its environment.
        folder: where it is run.
        log: a file to which its standard error is appended.
    Returns: the process, and the end of a pipe from which its standard output is read.
    """
    context = fork_context()
    output, inlet = context.Pipe(duplex=False)
    mask = os.umask(0)
    os.umask(mask)
    process = context.Process(
        target=_lectern, args=(arguments, dict(environment), folder, mask, inlet, log)
    )
    process.start()
    inlet.close()
    return process, output


def _lectern(
    arguments: list[str],
    environment: Mapping[str, str],
    folder: Path,
    mask: int,
    output: Connection,
    log: Path,
) -> None:
    """What the forked process does: become the command."""
    from cli.main import main

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.umask(mask)
    os.dup2(output.fileno(), sys.stdout.fileno())
    output.close()
    with log.open("a") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.argv = ["lectern", *arguments]
    main()
