"""A copy of the tree, in which bugs are planted and tests are run."""

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from bench.mutations.catalogue import DoesNotApply, Mutation, plant
from bench.mutations.pytest_runs import PytestRuns
from training.record import commit

MAX_ID_CHARS = 200
TESTS_FAILED = 1  # pytest's exit status
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py::.+?)(?: - .*)?$", re.MULTILINE)
KILLED, SURVIVED, NOT_PLANTED = "killed", "survived", "does not apply"
BROKEN, UNSOUND = "keeps its tests from being run", "its test fails without it as well"


def this_machine() -> str:
    """Describe the machine and the interpreter."""
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    )


@dataclass(frozen=True)
class Outcome:
    """What became of a bug.

    Attributes:
        outcome: one of the constants above.
        reason: the test that failed, or what kept the bug from being judged.
        seconds: how long the tests ran.
        machine: where they ran.
        commit: at which.
    """

    outcome: str
    reason: str
    seconds: float
    machine: str = field(default_factory=this_machine)
    commit: str = field(default_factory=commit)


class Trials:
    """Plants bugs in a copy of a tree and runs tests there; a context manager.

    Args:
        root: a copy that `copy_tree` has made, or a copy of that.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pytest = PytestRuns(root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pytest.__exit__()

    def failing(self, tests: Iterable[str], limit_s: float) -> frozenset[str]:
        """Run tests without a bug, and return those that fail all the same.

        Args:
            tests: ids of test cases. Where an id is no plain text, all cases of its function run,
                as it may be another one in each run.
            limit_s: seconds for all of them.
        Raises: RuntimeError if they cannot be run.
        """
        wanted = {test: test if _is_plain(test) else test.partition("[")[0] for test in tests}
        asked = sorted(set(wanted.values()))
        status, text = self._pytest.run(asked, limit_s) if asked else (0, "")
        if status not in (0, TESTS_FAILED):
            raise RuntimeError(f"The tests cannot be run without a bug:\n{text[-2000:]}")
        failed = FAILED.findall(text)
        return frozenset(
            test
            for test, name in wanted.items()
            if any(one == name or one.startswith(f"{name}[") for one in failed)
        )

    def try_out(self, mutation: Mutation, limit_s: float) -> Outcome:
        """Plant a bug, run its tests until one fails, and take it out again.

        Args:
            limit_s: seconds for all of its tests; without a failure by then it has survived.
        """
        try:
            planted = plant(mutation, self._root)
        except DoesNotApply as error:
            return Outcome(NOT_PLANTED, str(error), 0.0)
        started_s = time.monotonic()
        planted.path.write_text(planted.after, encoding="utf-8")
        try:
            status, text = self._pytest.run(["-x", *mutation.tests], limit_s)
        finally:
            planted.path.write_text(planted.before, encoding="utf-8")
        seconds = round(time.monotonic() - started_s, 1)
        if status == TESTS_FAILED:
            return Outcome(KILLED, FAILED.findall(text)[0], seconds)
        if status == 0:
            return Outcome(SURVIVED, "", seconds)
        if status is None:
            return Outcome(SURVIVED, f"no test had failed after {limit_s:g} s", seconds)
        last_line = text.strip().rpartition("\n")[2]
        return Outcome(BROKEN, f"pytest ended with {status}: {last_line[:200]}", seconds)


def _is_plain(test: str) -> bool:
    """Whether a test's id can be given to pytest as it was printed."""
    return len(test) < MAX_ID_CHARS and test.isascii() and test.isprintable() and "\\" not in test


def copy_tree(tree: Path, root: Path) -> None:
    """Copy a git checkout, with its changes, but not what git ignores.

    Args:
        tree: the checkout.
        root: the folder of the copy, which is made.
    """
    listed = subprocess.run(
        ["git", "-C", str(tree), "ls-files", "-coz", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (tree / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / name, root / name)
    # Bytecode that is checked by the source's hash: a bug of the same length is not overlooked.
    compiled = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."]
    subprocess.run([sys.executable, *compiled], cwd=root, check=True, stdout=subprocess.DEVNULL)
