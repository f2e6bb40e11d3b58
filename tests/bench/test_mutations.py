"""Planted bugs: every one of the list applies today, and the program tells what became of each."""

import ast
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import ClassVar, Self

import pytest

from bench.mutations import campaign, program, pytest_runs
from bench.mutations.catalogue import DoesNotApply, Mutation, plant, read_catalogue
from bench.mutations.trial import (
    BROKEN,
    KILLED,
    NOT_PLANTED,
    SURVIVED,
    UNSOUND,
    Outcome,
    this_machine,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"app", "cli", "common", "engine", "ingest", "precompute", "storage", "workers"}
PRICES = '''"""Prices."""


def price(pounds: int, member: bool) -> int:
    total = 3 * pounds
    return total - 1 if member else total


class Till:
    def price(self, pounds: int) -> int:
        return 3 * pounds
'''
TESTS = """
import os

import pytest

from shop.prices import price


def test_price():
    assert price(2, False) == 6
    assert price(0, False) == 0


def test_that_always_fails():
    assert price(1, False) == 4


@pytest.mark.parametrize("text", [" \\ \xe9"])
def test_price_of_an_odd_name(text):
    assert price(4, False) == 12


def test_that_ends_the_process():
    if price(2, False) != 6:
        os.kill(os.getpid(), 9)
"""
BUG = Mutation(
    "prices are halved",
    "shop/prices.py",
    "price",
    "3 * pounds",
    "2 * pounds",
    "We lose money.",
    ("tests/test_prices.py::test_price",),
)


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))


@cache
def coroutines_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.AsyncFunctionDef))


# -- the list ------------------------------------------------------------------------------------


def test_every_bug_applies_to_this_tree() -> None:
    problems = []
    for mutation in read_catalogue():
        try:
            plant(mutation, ROOT)
        except DoesNotApply as error:
            problems.append(f"{mutation.name}: {error}")
    assert not problems, "\n".join(problems)


def test_every_bug_names_tests_that_exist() -> None:
    for mutation in read_catalogue():
        assert mutation.tests, mutation.name
        for test in mutation.tests:
            file, _, function = test.partition("::")
            path = ROOT / file
            assert path.is_file(), f"{mutation.name}: {file}"
            function = function.partition("[")[0]
            found = functions_of(path) | coroutines_of(path)
            assert not function or function in found, f"{mutation.name}: {test}"


def test_bugs_are_planted_in_every_package() -> None:
    mutations = read_catalogue()
    counts = Counter(mutation.file.partition("/")[0] for mutation in mutations)
    assert set(counts) == PACKAGES
    assert all(count >= 10 for package, count in counts.items() if package != "common")
    assert len(mutations) >= 150
    assert all(mutation.breaks.endswith(".") for mutation in mutations)


# -- where a bug is planted ----------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A tree of one package with its tests, under git."""
    root = tmp_path / "shop-tree"
    files = {"shop/__init__.py": "", "shop/prices.py": PRICES, "tests/test_prices.py": TESTS}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def test_a_bug_is_planted_in_its_function_alone(shop: Path) -> None:
    planted = plant(BUG, shop)
    assert planted.path == shop / "shop/prices.py"
    assert planted.before == PRICES
    assert planted.after == PRICES.replace("total = 3 * pounds", "total = 2 * pounds")
    planted = plant(replace(BUG, function="Till.price"), shop)
    assert planted.after == PRICES.replace("return 3 * pounds", "return 2 * pounds")


def test_a_function_that_moved_is_found_by_its_name(shop: Path) -> None:
    (shop / "shop/tills").mkdir()
    (shop / "shop/prices.py").rename(shop / "shop/tills/sums.py")
    assert plant(BUG, shop).path == shop / "shop/tills/sums.py"
    (shop / "tests/prices.py").write_text(PRICES)  # a test's own function is not searched
    assert plant(BUG, shop).path == shop / "shop/tills/sums.py"
    (shop / "shop/copy.py").write_text(PRICES)
    with pytest.raises(DoesNotApply, match="in 2 places"):
        plant(BUG, shop)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"function": "cost"}, "in 0 places"),
        ({"old": "4 * pounds"}, "in 0 places"),
        ({"old": "total", "new": "sum"}, "in 3 places"),
        ({"function": "", "old": "3 * pounds"}, "in 2 places"),
        ({"new": "3 *"}, "no Python"),
        ({"new": "(3 * pounds)"}, "does the same"),
    ],
)
def test_a_bug_that_does_not_apply_says_why(shop: Path, change: dict[str, str], why: str) -> None:
    with pytest.raises(DoesNotApply, match=why):
        plant(replace(BUG, **change), shop)


def test_two_bugs_of_a_name_are_refused(tmp_path: Path) -> None:
    entry = 'name = "a"\nfile = "b"\nfunction = ""\nold = "c"\nnew = "d"\nbreaks = "e"\ntests = []'
    (tmp_path / "list.toml").write_text(f"[[mutation]]\n{entry}\n" * 2)
    with pytest.raises(ValueError, match="called a"):
        read_catalogue(tmp_path)


# -- what became of it ---------------------------------------------------------------------------


def named(name: str, test: str, **changes: str) -> Mutation:
    return replace(BUG, name=name, tests=(f"tests/test_prices.py::{test}",), **changes)


def test_each_bug_is_tried_in_a_copy_and_judged(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytest_runs, "PRELOADED", ())  # these tests need no large library
    bugs = [
        BUG,
        named("members get no discount", "test_price", old="total - 1", new="total - 0"),
        named("nobody shops here", "test_price", old="visitors", new="guests"),
        named("caught by a test that always fails", "test_that_always_fails"),
        named("caught by a case whose id cannot be given", "test_price_of_an_odd_name"),
        named("the module cannot be imported", "test_price", old="-> int", new="-> Int"),
        named("the process ends", "test_that_ends_the_process"),
    ]
    kept = tmp_path / "outcomes.json"
    found = campaign.run(shop, bugs, 1, kept)
    assert {name: one.outcome for name, one in found.items()} == {
        "prices are halved": KILLED,
        "caught by a case whose id cannot be given": KILLED,
        "members get no discount": SURVIVED,
        "nobody shops here": NOT_PLANTED,
        "caught by a test that always fails": UNSOUND,
        "the module cannot be imported": BROKEN,
        "the process ends": BROKEN,
    }
    assert found["prices are halved"].reason == "tests/test_prices.py::test_price"
    assert (shop / "shop/prices.py").read_text() == PRICES
    assert not (shop / "shop/__pycache__").exists()
    assert len(json.loads(kept.read_text())) == len(bugs)


class Tried:
    """In place of `Trials`: every bug has the same outcome, and each is noted."""

    names: ClassVar[list[str]] = []
    outcome: ClassVar[str] = KILLED

    def __init__(self, *_: Path) -> None:
        self.failing = lambda *_: frozenset[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def try_out(self, mutation: Mutation, _: float) -> Outcome:
        self.names.append(mutation.name)
        return Outcome(self.outcome, "a test", 1.0)


def test_a_run_goes_on_where_it_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bugs = [BUG, named("members get no discount", "test_price")]
    kept = tmp_path / "outcomes.json"
    monkeypatch.setattr(campaign, "Trials", Tried)
    monkeypatch.setattr(campaign, "copy_tree", lambda _, root: root.mkdir())
    monkeypatch.setenv("BENCH_COMMIT", "0123456")

    def tried(mutations: Sequence[Mutation]) -> int:
        Tried.names.clear()
        assert len(campaign.run(tmp_path, mutations, 2, kept)) == len(mutations)
        return len(Tried.names)

    assert tried(bugs[:1]) == 1
    assert tried(bugs) == 1
    assert tried([replace(BUG, new="1 * pounds"), bugs[1]]) == 1  # a bug that was changed
    monkeypatch.setenv("BENCH_COMMIT", "1234567")
    assert tried(bugs) == 0, "what was caught stays so"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_prices.py").write_text(TESTS)
    assert tried(bugs) == 2, "with other tests it may not"
    monkeypatch.setattr(Tried, "outcome", SURVIVED)
    (tmp_path / "tests/test_prices.py").write_text("")
    assert (tried(bugs), tried(bugs)) == (2, 0)
    monkeypatch.setenv("BENCH_COMMIT", "2345678")
    assert tried(bugs) == 2, "what was not caught is tried again at another commit"


def outcomes_of(num_killed: int) -> Callable[..., dict[str, Outcome]]:
    """A run of which so many bugs are caught."""

    def run(_: Path, mutations: Sequence[Mutation], *__: object) -> dict[str, Outcome]:
        return {
            one.name: Outcome(KILLED if index < num_killed else SURVIVED, "", 1.0)
            for index, one in enumerate(mutations)
        }

    return run


@pytest.mark.parametrize(("num_killed", "status"), [(20, 0), (19, 0), (18, 1)])
def test_fewer_than_95_of_100_are_a_failure(
    num_killed: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bugs = tuple(replace(BUG, name=f"bug {number}") for number in range(20))
    monkeypatch.setattr(program, "read_catalogue", lambda: bugs)
    monkeypatch.setattr(program, "run", outcomes_of(num_killed))
    with pytest.raises(SystemExit) as ended:
        program.main(["--out", str(tmp_path)])
    assert ended.value.code == status
    result = json.loads((tmp_path / "mutations.json").read_text())
    assert (result["bugs"], result["caught"]) == (20, num_killed)
    assert result["missed"] == [f"bug {number}" for number in range(num_killed, 20)]
    assert result["packages"] == {"shop": {"bugs": 20, "caught": num_killed}}
    assert result["commit"]
    assert result["machines"] == [this_machine()]


def test_a_choice_of_bugs_writes_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bugs = (BUG, replace(BUG, name="tills are closed", function="Till.price"))
    monkeypatch.setattr(program, "read_catalogue", lambda: bugs)
    monkeypatch.setattr(program, "run", outcomes_of(1))
    with pytest.raises(SystemExit):
        program.main(["--only", "Till", "--out", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []
    assert "1 of 1 bugs are caught" in capsys.readouterr().out
    program.main(["--only", "halved", "shop/prices.py", "--list"])
    assert len(capsys.readouterr().out.splitlines()) == 2
