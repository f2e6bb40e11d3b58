"""Every log call of the program, found in its source and run on values that quote a text.

A call that is added is run here by itself. Every name in it that the module does not define stands
for a value whose text is a canary, except for ids, counts and codes; an exception is being handled
whose message, notes, causes and local variables quote the canary, too. None of it may be printed.
"""

import ast
import builtins
import importlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import structlog

from common.logging import configure
from tests.common.test_logging import restored_logging

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("app", "cli", "common", "engine", "ingest", "precompute", "storage", "workers")
LEVELS = ("debug", "info", "warning", "error", "critical", "exception", "log")
MAKERS = ("get_logger", "getLogger", "_log")
CANARY = "canary-dotterel"
# What may be printed: ids, counts, codes and names of our own.
SAFE_NAMES = ("id", "code", "status", "attempt", "owner", "cost")
SAFE_ENDINGS = ("_owner", "_id", "_ids", "_ms", "_s", "_bytes")
# Calls that print a value for a reason of their own: (file, name), and why it quotes no text.
REVIEWED = {
    ("engine/decode/graph_pool.py", "refusal"): "says what the model lacks",
    ("engine/decode/graph_pool.py", "_variants"): "names a variant of the model",
    ("engine/attend/clusters_gpu.py", "reason"): "says what kernels lack",
    ("engine/residents/documents.py", "tier"): "one of our own words",
    ("app/services/services.py", "tier"): "one of our own words",
    ("app/services/services.py", "num_bytes"): "a number",
    ("app/services/services.py", "num_tokens"): "a number",
    ("engine/decode/batch_runner.py", "cause"): "one of our own words",
    ("engine/decode/batch_runner.py", "refusal"): "says what the document's cache lacks",
    ("engine/decode/batch_runner.py", "variant"): "names a variant of the model",
    ("engine/decode/batch_runner.py", "lookup"): "names how clusters are scored",
    ("engine/decode/batch_runner.py", "self"): "numbers of graphs",
    ("engine/engine.py", "reason"): "says what the model lacks",
    ("cli/worker_process.py", "process"): "its exit code is a number",
    ("precompute/clustering/faiss.py", "device"): "one of our own words",
    ("engine/residents/documents.py", "reason"): "one of our own words",
    ("storage/artifacts/store.py", "name"): "a folder's name, made of ids",
    ("app/http/request_log.py", "values"): "the fields of a RequestLine, which have their own test",
    ("app/http/request_log.py", "route"): "a route's path, which has names of parameters only",
    ("engine/model/loader.py", "names"): "names of generation settings",
    ("storage/artifacts/space.py", "reason"): "one of our own words",
    ("storage/artifacts/space.py", "freed"): "a number",
    ("app/questions/answer_job.py", "timings_ms"): "milliseconds",
    ("app/questions/answer_job.py", "usage"): "numbers",
    ("app/questions/answer_job.py", "budget"): "numbers",
    ("app/questions/answer_job.py", "cache_hit"): "true or false",
    ("app/questions/answer_job.py", "is_stored"): "true or false",
    ("cli/tracing.py", "name"): "the name of an exporter, which the operator has set",
    ("app/services/checks.py", "name"): "the name of a check, which is our own",
    ("common/logging.py", "what"): "what asyncio calls the error, without arguments",
    ("common/logging.py", "name"): "a thread's name",
}


class Quoting:
    """A value whose text is the canary, as are those of its attributes, items and results."""

    def __init__(self, path: str) -> None:
        self.quoted_in = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(self.quoted_in, name)

    def __call__(self, *_: Any, **__: Any) -> "Quoting":
        return self

    def __getitem__(self, _: Any) -> "Quoting":
        return self

    def __iter__(self) -> Iterator[str]:
        return iter([CANARY])

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return CANARY

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return CANARY

    def __float__(self) -> float:
        return 1.0

    def __round__(self, _: int = 0) -> float:
        return 1.0


class Harmless(str):
    """An id, a count or a code, or a method that returns one, or a mapping that has none."""

    def keys(self) -> tuple[str, ...]:
        return ()

    def __getitem__(self, _: Any) -> "Harmless":
        return self

    def __getattr__(self, name: str) -> "Harmless":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> "Harmless":
        return self


def stand_in(path: str, name: str) -> Any:
    """What a name stands for while a call is run."""
    plain = name.removeprefix("_")
    is_safe = plain in SAFE_NAMES or plain.endswith(SAFE_ENDINGS) or plain.startswith("num_")
    return Harmless(f"<{name}>") if is_safe or (path, name) in REVIEWED else Quoting(path)


class Locals(dict[str, Any]):
    """Names that a call uses and the module does not define."""

    def __init__(self, path: str, known: dict[str, Any]) -> None:
        super().__init__(vars(builtins) | known)
        self._path = path

    def __missing__(self, name: str) -> Any:
        return stand_in(self._path, name)


@dataclass(frozen=True)
class LogCall:
    """A call that writes a line, or binds values for lines to come.

    Attributes:
        path: the file, below the root.
        line: where in it.
        code: the call, on a logger called `the_logger`.
    """

    path: str
    line: int
    code: CodeType

    @property
    def module(self) -> str:
        """The name of its module."""
        return self.path.removesuffix(".py").replace("/", ".")


def is_logger(node: ast.expr) -> bool:
    """Whether an expression is a logger: `log`, `self._log`, or a call that makes one."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in ("log", "_log", "logger")
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in MAKERS or (name == "bind" and is_logger_method(node.func))
    return False


def is_logger_method(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and is_logger(node.value)


def find_calls(path: Path) -> Iterator[LogCall]:
    """The calls of one file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        is_line = node.func.attr in (*LEVELS, "bind") and is_logger(node.func.value)
        if is_line or node.func.attr in ("bound_contextvars", "bind_contextvars"):
            logger = ast.Name("the_logger", ast.Load())
            method = ast.Attribute(logger, node.func.attr, ast.Load())
            call = ast.Expression(ast.Call(method, node.args, node.keywords))
            code = compile(ast.fix_missing_locations(call), str(path), "eval")
            yield LogCall(str(path.relative_to(ROOT)), node.lineno, code)


CALLS = [
    call
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    for call in find_calls(path)
]


class Recorder:
    """A logger that takes values for lines to come as a line."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("lectern.canary")

    def __getattr__(self, name: str) -> Any:
        if name in LEVELS:
            return getattr(self._log, name)
        return lambda **values: self._log.error("values for lines to come", **values)


def run(call: LogCall) -> None:
    """Run a call while an error is being handled that quotes the canary everywhere."""
    error = failure()
    known = {**vars(importlib.import_module(call.module)), "the_logger": Recorder(), "error": error}
    try:
        raise error
    except ValueError:
        eval(call.code, {}, Locals(call.path, known))


def failure() -> Exception:
    quoted = CANARY
    try:
        raise KeyError(quoted)
    except KeyError as cause:
        error = ValueError(f"cannot read {quoted}")
        error.add_note(quoted)
        error.__cause__ = cause
    error.code, error.message, error.crash = "some_code", CANARY, CANARY  # type: ignore[attr-defined]
    return error


def test_the_calls_are_found() -> None:
    files = {call.path for call in CALLS}
    makers = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if any(f"{maker}(" in path.read_text() for maker in ("get_logger", "getLogger"))
    }
    assert len(CALLS) >= 30
    # They make a logger to set its level, or to listen to it.
    callers_of_none = {
        "common/logging.py",
        "common/recent_lines.py",
        "cli/model_report.py",
        "engine/model/lean_transformers.py",
    }
    assert makers - callers_of_none <= files, "a logger whose calls are not found"


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_no_log_line_quotes_what_it_is_about(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: dict[str, str] = {}
    with restored_logging():
        configure("DEBUG", as_json=as_json)
        logging.raiseExceptions = True
        for call in CALLS:
            run(call)
            shown[f"{call.path}:{call.line}"] = capsys.readouterr().err
    assert [call for call, line in shown.items() if not line] == [], "these have written nothing"
    assert {call: line for call, line in shown.items() if CANARY in line} == {}


@pytest.mark.parametrize(
    "source",
    [
        "log.warning('it failed', reason=str(error))",
        "log.warning(f'it failed: {error}')",
        "log.info('uploaded', filename=filename)",
        "logging.getLogger('x').error('failed: %s', error)",
        "self._log().info('asked', question=body.question)",
        "structlog.contextvars.bind_contextvars(key=key)",
    ],
)
def test_a_call_that_quotes_a_text_is_noticed(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.py").write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.ROOT", tmp_path)
        (call,) = find_calls(tmp_path / "one.py")
    with restored_logging():
        configure("DEBUG")
        run(LogCall("common/format.py", call.line, call.code))
    assert CANARY in capsys.readouterr().err
