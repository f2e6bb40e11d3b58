"""`python -m bench.mutations`: plant the bugs of the list, and report those that survive."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import RESULTS
from bench.mutations.campaign import run
from bench.mutations.catalogue import Mutation, read_catalogue
from bench.mutations.trial import KILLED, Outcome
from training.record import commit, write

ROOT = Path(__file__).resolve().parents[2]
REQUIRED_SHARE = 0.95


def main(arguments: Sequence[str] | None = None) -> None:
    """Plant the bugs, print what became of them and write the result.

    Exits with status 1 if less than 95 % of them are caught.
    """
    parser = argparse.ArgumentParser(description="Plant bugs, and see whether the tests notice.")
    parser.add_argument(
        "--only", nargs="+", metavar="TEXT",
        help="bugs whose name, file or function holds one of these; no result is written",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help="bugs at a time, each in its own copy")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep outcomes here, and go on")
    parser.add_argument("--list", action="store_true", help="print the bugs, and do no more")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args(arguments)
    mutations = choose(read_catalogue(), options.only)
    if options.list:
        for mutation in mutations:
            print(f"{mutation.name}: {mutation.file} {mutation.function}: {mutation.breaks}")
        return
    outcomes = run(ROOT, mutations, options.jobs, options.resume)
    result = report(mutations, outcomes)
    for name in result["missed"]:
        print(f"MISSED {name}: {outcomes[name].outcome} {outcomes[name].reason}")
    print(f"{result['caught']} of {result['bugs']} bugs are caught")
    if not options.only:
        print(f"written to {write('mutations', result, options.out)}")
    sys.exit(0 if result["caught_share"] >= REQUIRED_SHARE else 1)


def choose(mutations: Sequence[Mutation], texts: Sequence[str] | None) -> tuple[Mutation, ...]:
    """Return the bugs whose name, file or function holds one of the texts; all without texts."""
    if texts is None:
        return tuple(mutations)
    return tuple(
        one
        for one in mutations
        if any(text in place for text in texts for place in (one.name, one.file, one.function))
    )


def report(mutations: Sequence[Mutation], outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Make the result: how many bugs were caught, in all and by package, and each one's outcome."""
    caught = [one for one in mutations if outcomes[one.name].outcome == KILLED]
    packages = sorted({_package(one) for one in mutations})
    return {
        "benchmark": "mutations",
        "commit": commit(),
        "commits": sorted({outcomes[one.name].commit for one in mutations}),
        "machines": sorted({outcomes[one.name].machine for one in mutations}),
        "bugs": len(mutations),
        "caught": len(caught),
        "caught_share": len(caught) / max(1, len(mutations)),
        "missed": [one.name for one in mutations if one not in caught],
        "packages": {
            package: {
                "bugs": sum(_package(one) == package for one in mutations),
                "caught": sum(_package(one) == package for one in caught),
            }
            for package in packages
        },
        "outcomes": {one.name: asdict(outcomes[one.name]) for one in mutations},
    }


def _package(mutation: Mutation) -> str:
    return mutation.file.partition("/")[0]
