"""The list of bugs, and where each is planted."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

LISTS = Path(__file__).parent
NOT_SEARCHED = frozenset({"bench", "tests", "training"})  # folders that hold no planted code
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class DoesNotApply(Exception):
    """The bug cannot be planted in this tree; the message says why."""


@dataclass(frozen=True)
class Mutation:
    """A bug.

    Attributes:
        name: unique; words that say what the bug is.
        file: where the function was when the bug was written, from the root of the tree.
        function: its qualified name, as in `Class.method`; or that of a class; empty for the text
            outside of functions, which must then be unique in the whole file.
        old: a text that is in the function exactly once.
        new: what replaces it.
        breaks: what goes wrong for a user, or what promise is broken.
        tests: files or test functions that should notice, few and quick.
    """

    name: str
    file: str
    function: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Planted:
    """A file of the tree with a bug in it.

    Attributes:
        path: the file, absolute.
        before, after: its text without and with the bug.
    """

    path: Path
    before: str
    after: str


def read_catalogue(folder: Path = LISTS) -> tuple[Mutation, ...]:
    """Read all lists of bugs in a folder, in the order of their files' names.

    Raises: ValueError if two bugs have the same name.
    """
    mutations = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]:
            mutations.append(Mutation(**{**entry, "tests": tuple(entry["tests"])}))
    names = [mutation.name for mutation in mutations]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"Several bugs are called {', '.join(sorted(repeated))}.")
    return tuple(mutations)


def plant(mutation: Mutation, root: Path) -> Planted:
    """Put a bug into the text of its file; nothing is written.

    Where the named file has no such function with this text any more, the function is searched for
    by its name in all other files of the packages.

    Args:
        root: of the tree.
    Raises: DoesNotApply if the text is not there exactly once, or if the result is no other
        program.
    """
    path = root / mutation.file
    places = _places(path, mutation) if path.is_file() else []
    if not places:
        places = [
            place
            for other in _searched_files(root)
            if other != path
            for place in _places(other, mutation)
        ]
    if len(places) != 1:
        raise DoesNotApply(
            f"'{mutation.old}' is in {len(places)} places of functions called "
            f"'{mutation.function}', not in one."
        )
    file, start = places[0]
    before = file.read_text(encoding="utf-8")
    after = before[:start] + mutation.new + before[start + len(mutation.old) :]
    try:
        is_same = _structure(before) == _structure(after)
    except SyntaxError as error:
        raise DoesNotApply(f"{file.name} is no Python with the bug: {error}.") from error
    if is_same:
        raise DoesNotApply(f"{file.name} does the same with the bug.")
    return Planted(file, before, after)


@lru_cache(maxsize=64)  # bugs of one file follow each other
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@lru_cache(maxsize=64)
def _structure(text: str) -> str:
    return ast.dump(_parsed(text))


def _places(path: Path, mutation: Mutation) -> list[tuple[Path, int]]:
    """Where a bug's text is within the function of its name: the file and the offset, each time."""
    text = path.read_text(encoding="utf-8")
    if not mutation.function:
        return [(path, start) for start in _occurrences(text, mutation.old, 0, len(text))]
    name = mutation.function.rpartition(".")[2]
    if mutation.old not in text or name not in text:
        return []
    return [
        (path, place)
        for start, end in _spans(text, mutation.function)
        for place in _occurrences(text, mutation.old, start, end)
    ]


def _occurrences(text: str, old: str, start: int, end: int) -> Iterator[int]:
    while (start := text.find(old, start, end)) >= 0:
        yield start
        start += len(old)


def _spans(text: str, qualified_name: str) -> Iterator[tuple[int, int]]:
    """Offsets of the beginning and the end of definitions of this name, decorators included."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for name, node in _definitions(_parsed(text), ""):
        if name == qualified_name:
            first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
            yield starts[first - 1], starts[node.end_lineno or node.lineno] - 1


def _definitions(
    node: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, DEFINITIONS):
            yield f"{prefix}{child.name}", child
            yield from _definitions(child, f"{prefix}{child.name}.")
        else:
            yield from _definitions(child, prefix)


def _searched_files(root: Path) -> Iterator[Path]:
    packages = (folder for folder in sorted(root.iterdir()) if (folder / "__init__.py").is_file())
    for package in packages:
        if package.name not in NOT_SEARCHED:
            yield from sorted(package.rglob("*.py"))
