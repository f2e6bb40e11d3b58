"""Copies of the tree, in which bugs are planted and tests are run."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bench.mutations.catalogue import DoesNotApply, Mutation, plant

# A test that hangs has noticed the bug.
PYTEST_OPTIONS = ("-q", "--tb=no", "-p", "no:cacheprovider", "--timeout=120")
TESTS_FAILED = 1  # pytest's exit status
KILLED, SURVIVED, NOT_PLANTED = "killed", "survived", "does not apply"
BROKEN, NO_TESTS = "breaks the import of tests", "its tests fail or are skipped without it"


@dataclass(frozen=True)
class Outcome:
    """What became of a bug.

    Attributes:
        outcome: one of the constants above.
        reason: the test that failed, or what kept the bug from being judged.
        seconds: how long the tests ran.
    """

    outcome: str
    reason: str
    seconds: float


@dataclass(frozen=True)
class Copy:
    """A copy of the tree.

    Attributes:
        root: its folder.
    """

    root: Path

    @classmethod
    def of(cls, tree: Path, root: Path) -> "Copy":
        """Copy the files of a git checkout that git does not ignore, changed ones as they are.

        Args:
            tree: the checkout.
            root: a folder that is made.
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
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."],
            cwd=root,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return cls(root)

    def passing(self, tests: Iterable[str], limit_s: float) -> frozenset[str]:
        """Run tests without a bug, and return those that say something.

        Args:
            tests: files or test functions.
            limit_s: seconds for all of them.
        Returns: those of which at least one case passes and none fails.
        """
        wanted = sorted(set(tests))
        report = self.root / "junit.xml"
        report.unlink(missing_ok=True)
        if wanted:
            self._run([f"--junit-xml={report}", *wanted], limit_s)
        if not report.is_file():
            return frozenset()
        cases = [_case(case) for case in ElementTree.parse(report).iter("testcase")]
        return frozenset(test for test in wanted if _passes(test, cases))

    def try_out(self, mutation: Mutation, limit_s: float) -> Outcome:
        """Plant a bug, run its tests until one fails, and take it out again.

        Args:
            limit_s: seconds for all of its tests; without a failure by then it has survived.
        """
        try:
            planted = plant(mutation, self.root)
        except DoesNotApply as error:
            return Outcome(NOT_PLANTED, str(error), 0.0)
        started_s = time.monotonic()
        planted.path.write_text(planted.after, encoding="utf-8")
        try:
            status, text = self._run(["-x", *mutation.tests], limit_s)
        finally:
            planted.path.write_text(planted.before, encoding="utf-8")
        seconds = round(time.monotonic() - started_s, 1)
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", text, re.MULTILINE)
        if status == TESTS_FAILED:
            return Outcome(KILLED, failed[1] if failed else "", seconds)
        if status == 0:
            return Outcome(SURVIVED, "", seconds)
        if status is None:
            return Outcome(SURVIVED, f"no test had failed after {limit_s:g} s", seconds)
        return Outcome(BROKEN, text.strip().rpartition("\n")[2], seconds)

    def _run(self, arguments: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """Run pytest; returns its exit status, None after `limit_s`, and its output."""
        log = self.root / "pytest.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *PYTEST_OPTIONS, *arguments],
                cwd=self.root,
                env=os.environ | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                with suppress(ProcessLookupError):  # what the tests have started ends with them
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return status, log.read_text(encoding="utf-8", errors="replace")


def _case(case: ElementTree.Element) -> tuple[str, bool, bool]:
    """A test case's id, whether it passed, and whether it failed."""
    name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
    kinds = {child.tag for child in case}
    has_failed = bool(kinds & {"failure", "error"})
    return name, not has_failed and "skipped" not in kinds, has_failed


def _passes(test: str, cases: Sequence[tuple[str, bool, bool]]) -> bool:
    """Whether some case of a file or a test function passed, and none failed."""
    own = [case for case in cases if f"{case[0]}/".startswith((f"{test}/", f"{test}::", f"{test}["))]
    return any(passed for _, passed, _ in own) and not any(failed for _, _, failed in own)
