"""Check the list of excerpts that no reader was trained on (data/tables/held_out_excerpts.txt).

    python -m training.held_out              # against the tables of today
    python -m training.held_out --history    # and against every commit's tables; minutes
    python -m training.held_out --prune      # and take from the list what fails, until nothing does

An id may stand in the list if it names an excerpt, and if none of the excerpt's statements and of
its questions that have an answer (no evaluation asks the others) is worded, up to slots, as one
that training draws, or, in the release's set, that every evaluation draws; with `--history` also,
as one that an excerpt had in any commit in which it was on the training side. That is more than any
run has seen. Before there was a list, an excerpt's side followed from the checksum of its first
statement. Exits with status 1 if an id fails.
"""

import argparse
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

from training.data.attributes import attributes
from training.data.excerpt_split import (
    EVALUATION,
    HELD_OUT_TABLE,
    RELEASE,
    TRAIN,
    excerpt_id,
    excerpts,
    held_out_ids,
    read_excerpts,
)
from training.data.grammar import patterns_of
from training.data.scenes import scenes
from training.data.split import is_held_out
from training.data.templates import (
    FOLDER,
    FactRecord,
    Field,
    options_of,
    parse_fact_record,
    parse_record,
    template_list,
    template_lists,
)
from training.data.timetables import sorts

LIST = f"training/data/tables/{HELD_OUT_TABLE}.txt"
FOLDERS = ("training/data/tables/excerpts", "reader/data/excerpts", "training/data/excerpts")
_PRODUCTIONS = ("question", "who type", "when type", "clock type", "where type", "amount type",
                "length type", "spelling type", "colour type")  # fmt: skip
_TABLES = ("wordings", "frames", "needles", "assignments", "clauses")
_FILE = FOLDER / f"{HELD_OUT_TABLE}.txt"
_SLOT = re.compile(r"\{\w+(?::\w+)?\}")
_STOPS = re.compile(r"[^\w{}' ]+")
_SIDE_STOP = re.compile(r"\|(?![^\[]*\])")  # behind a timetable's verb, and not between options


def wordings_of(template: str) -> Iterator[str]:
    """What a template says up to slots, case and marks, with every choice made."""
    for made in product(*options_of(_SLOT.sub("{}", template))):
        yield " ".join(_STOPS.sub(" ", "".join(made)).lower().split())


def templates_of(record: FactRecord, *, unanswerable: bool) -> tuple[str, ...]:
    """A record's statements and questions, those without an answer only if they are wanted."""
    asked = tuple(text for text, _ in record.questions)
    return (*record.statements, *asked, *(record.unanswerable if unanswerable else ()))


def _all_wordings(templates: Iterable[str]) -> frozenset[str]:
    return frozenset(wording for text in templates for wording in wordings_of(text))


def listed_templates() -> Iterator[str]:
    """Every template by which training states or asks, but for those that a grammar derives."""
    for table in _TABLES:
        for pool in template_lists(table).values():
            yield from pool
    phrases = template_list("frames", "noun phrases")
    frames = (*template_lists("frames").values(), template_list("wordings", "list frames"))
    for frame, phrase in product((one for pool in frames for one in pool), phrases):
        yield frame.replace("{NP}", phrase).replace(",.", ".").replace(",?", "?")
    for attribute in attributes():
        yield from (*attribute.statements, *attribute.questions)
    for part in (part for sort in sorts() for part in sort.parts):
        yield from ("{S} " + _SIDE_STOP.sub(" ", clause) for clause in part.clauses)
        yield from part.questions
    for record in (*scenes(), *excerpts(TRAIN)):
        yield from templates_of(record, unanswerable=True)


@cache
def trained_wordings() -> frozenset[str]:
    """The wordings of everything that training says and asks today."""
    derived = (pattern for name in _PRODUCTIONS for pattern in patterns_of(name))
    return _all_wordings((*listed_templates(), *derived))


def failures(earlier: frozenset[str] = frozenset()) -> dict[str, str]:
    """The ids of the list that may not stand in it, each with the reason.

    Args:
        earlier: wordings that were trained on in other commits.
    """
    sections = held_out_ids()
    listed = frozenset().union(*sections.values())
    wordings = {
        name: _all_wordings(templates_of(parse_fact_record(record), unanswerable=False))
        for record in read_excerpts()
        if (name := excerpt_id(record)) in listed
    }
    found = dict.fromkeys(sorted(listed - wordings.keys()), "names no excerpt")
    evaluated = frozenset().union(*(wordings.get(one, ()) for one in sections[EVALUATION]))
    for one in sorted(wordings):
        for known, who in (
            (trained_wordings(), "training says today"),
            (earlier, "training said in an earlier commit"),
            (evaluated if one in sections[RELEASE] else frozenset(), "every evaluation says"),
        ):
            if shared := sorted(wordings[one] & known):
                found.setdefault(one, f"{who}: {shared[0]}")
    return found


def wordings_of_history(root: Path) -> frozenset[str]:
    """The wordings of all excerpts that were on the training side in any commit.

    Raises: SystemExit if the checkout has no whole history.
    """
    if _git(root, "rev-parse", "--is-shallow-repository").strip() != "false":
        raise SystemExit("The checkout is shallow: fetch the whole history first.")
    commits = _git(root, "log", "--format=%H", "--", *FOLDERS, LIST).split()
    blobs: dict[str, list[list[Field]]] = {}
    trained: dict[str, list[Field]] = {}
    for commit in commits:
        listed = _listed_at(root, commit)
        for blob in _blobs_of(root, commit):
            if blob not in blobs:
                blobs[blob] = list(_records_of(_git(root, "cat-file", "blob", blob)))
            for record in blobs[blob]:
                if not _is_held_out_at(record, listed):
                    trained[excerpt_id(record)] = record
    return _all_wordings(
        template
        for record in map(parse_fact_record, trained.values())
        for template in templates_of(record, unanswerable=True)
    )


def _is_held_out_at(record: Sequence[Field], listed: frozenset[str] | None) -> bool:
    """Whether an excerpt was held out in a commit; by the older rule where there was no list."""
    if listed is not None:
        return excerpt_id(record) in listed
    return is_held_out(parse_fact_record(record).statements[0])


def _listed_at(root: Path, commit: str) -> frozenset[str] | None:
    """The ids of the list in a commit, or None where there was no list."""
    if not _git(root, "ls-tree", commit, "--", LIST):
        return None
    lines = _git(root, "show", f"{commit}:{LIST}").splitlines()
    return frozenset(line for line in lines if re.fullmatch(r"[0-9a-f]{16}", line))


def _blobs_of(root: Path, commit: str) -> Iterator[str]:
    """The objects of a commit's tables of excerpts."""
    for line in _git(root, "ls-tree", "-r", commit, "--", *FOLDERS).splitlines():
        about, _, path = line.partition("\t")
        if path.endswith(".txt"):
            yield about.split()[2]


def _records_of(text: str) -> Iterator[list[Field]]:
    lines = text.splitlines()
    while lines and lines[0].startswith("#"):
        del lines[0]
    return map(parse_record, "\n".join(lines).strip("\n").split("\n\n"))


def prune(failed: Iterable[str]) -> None:
    """Take ids from the list; what it no longer names is trained on, from the next process on."""
    gone = frozenset(failed)
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    _FILE.write_text("".join(f"{line}\n" for line in lines if line not in gone), encoding="utf-8")


def _git(root: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    )
    return run.stdout


def main() -> None:
    """Check the list, and prune it if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--history", action="store_true", help="compare with every commit, too")
    parser.add_argument("--prune", action="store_true", help="take from the list what fails")
    options = parser.parse_args()
    earlier = frozenset[str]()
    if options.history:
        earlier = wordings_of_history(Path(__file__).parents[1])
    found = failures(earlier)
    for one, reason in found.items():
        print(one, reason)
    sizes = ", ".join(f"{side} {len(excerpts(side))}" for side in (TRAIN, EVALUATION, RELEASE))
    print(f"excerpts: {sizes}; {len(found)} fail")
    if options.prune and found:
        prune(found)
        print("taken from the list: run it again, for what left the list is trained on now")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
