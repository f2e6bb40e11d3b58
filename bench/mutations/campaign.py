"""Plant many bugs, several at a time, and keep the outcomes as they come."""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from shutil import copytree
from tempfile import TemporaryDirectory

from bench.mutations.catalogue import Mutation
from bench.mutations.trial import KILLED, UNSOUND, Outcome, Trials, copy_tree
from training.record import commit

LIMIT_S = 300.0  # of one bug's tests
SOUND_LIMIT_S = 3600.0  # of all tests that caught a bug, without one


def run(
    tree: Path, mutations: Sequence[Mutation], jobs: int, resume: Path | None = None
) -> dict[str, Outcome]:
    """Plant bugs in copies of a tree, and print each outcome.

    In the end the tests that failed are run once more without a bug, as they say nothing if they
    fail then, too.

    Args:
        tree: a git checkout.
        mutations: the bugs.
        jobs: copies of the tree, and so bugs at a time.
        resume: a file of outcomes, to which further ones are added. Bugs that were caught are not
            tried again unless they, their own file or their tests were changed since.
    Returns: the outcomes by the bugs' names.
    """
    kept = _KeptOutcomes(tree, resume)
    outcomes = {one.name: outcome for one in mutations if (outcome := kept.find(one)) is not None}
    missing = [one for one in mutations if one.name not in outcomes]
    with _Copies.of(tree, jobs) as copies, ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(copies.try_out, one): one for one in missing}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                one, outcome = futures[future], future.result()
                outcomes[one.name] = outcome
                kept.add(one, outcome)
                print(
                    f"[{number}/{len(missing)}] {outcome.outcome}: {one.name} "
                    f"({outcome.seconds:.0f} s) {outcome.reason}",
                    flush=True,
                )
            catching = sorted({one.reason for one in outcomes.values() if one.outcome == KILLED})
            shares = [catching[number::jobs] for number in range(jobs)]
            unsound = frozenset[str]().union(*pool.map(copies.failing, shares))
        except BaseException:  # also an interruption: what has not begun is not begun any more
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {
        name: replace(one, outcome=UNSOUND) if one.reason in unsound else one
        for name, one in outcomes.items()
    }


class _Copies:
    """Copies of the tree, each used by one thread at a time."""

    def __init__(self, copies: Iterable[Trials]) -> None:
        self._free: SimpleQueue[Trials] = SimpleQueue()
        for copy in copies:
            self._free.put(copy)

    @classmethod
    @contextmanager
    def of(cls, tree: Path, number: int) -> Iterator["_Copies"]:
        """Make copies that are removed at the end of the block."""
        with TemporaryDirectory(prefix="mutations-") as folder, ExitStack() as stack:
            roots = [Path(folder) / f"copy{index}" for index in range(number)]
            copy_tree(tree, roots[0])
            for root in roots[1:]:
                copytree(roots[0], root)
            yield cls([stack.enter_context(Trials(root)) for root in roots])

    def try_out(self, mutation: Mutation) -> Outcome:
        """See `Trials.try_out`."""
        with self._one() as copy:
            return copy.try_out(mutation, LIMIT_S)

    def failing(self, tests: Sequence[str]) -> frozenset[str]:
        """See `Trials.failing`."""
        with self._one() as copy:
            return copy.failing(tests, SOUND_LIMIT_S)

    @contextmanager
    def _one(self) -> Iterator[Trials]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


class _KeptOutcomes:
    """Outcomes in a JSON file, by a hash of the bug and of the files that it is about.

    Those files are the one that the bug is planted in and the files of its tests. A bug that was
    caught is not tried again while they are the same; one that was not is, at every other commit.
    """

    def __init__(self, tree: Path, path: Path | None) -> None:
        self._tree, self._path = tree, path
        self._commit = commit()
        self._outcomes: dict[str, dict[str, str | float]] = {}
        if path is not None and path.is_file():
            self._outcomes = json.loads(path.read_text(encoding="utf-8"))

    def find(self, mutation: Mutation) -> Outcome | None:
        """Return a bug's outcome; None if it is to be tried."""
        known = self._outcomes.get(self._key(mutation))
        if known is None:
            return None
        outcome = Outcome(**known)  # type: ignore[arg-type]
        return outcome if outcome.outcome == KILLED or outcome.commit == self._commit else None

    def add(self, mutation: Mutation, outcome: Outcome) -> None:
        """Keep an outcome."""
        self._outcomes[self._key(mutation)] = asdict(outcome)
        if self._path is not None:
            self._path.write_text(json.dumps(self._outcomes, indent=1) + "\n", encoding="utf-8")

    def _key(self, mutation: Mutation) -> str:
        described = sha256(json.dumps(asdict(mutation), sort_keys=True).encode())
        for name in (mutation.file, *(test.partition("::")[0] for test in mutation.tests)):
            path = self._tree / name
            described.update(path.read_bytes() if path.is_file() else name.encode())
        return f"{mutation.name} {described.hexdigest()[:16]}"
