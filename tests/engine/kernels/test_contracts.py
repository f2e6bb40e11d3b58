"""Every operation refuses tensors of other shapes, dtypes, devices or layouts than it states."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import engine.kernels
from common.errors import ShapeError
from engine.kernels.decode.append_keys import append_keys
from engine.kernels.decode.decode_attention import decode_attention
from engine.kernels.decode.matvec import matvec
from engine.kernels.kmeans.member_means import member_means
from engine.kernels.kmeans.nearest_centroids import nearest_centroids
from engine.kernels.prefill.attend_causal import attend_all, attend_causal, attend_window
from engine.kernels.prefill.attend_dense import AttendDenseInputs, attend_dense
from engine.kernels.prefill.attend_tokens import AttendTokensInputs, attend_tokens
from engine.kernels.prefill.select_tokens import SelectTokensInputs, select_tokens
from engine.kernels.shared.accumulate_attention_mass import (
    AttendedTokens,
    AttentionMassInputs,
    accumulate_attention_mass,
)
from engine.kernels.shared.attend_keys import attend_keys, attention_weights
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores, log_group_scores
from engine.kernels.shared.sizes import ceil_div
from engine.kernels.shared.state import State
from tests.engine.kernels.decode_case import Case, workspace_for
from tests.engine.kernels.harness import DEVICE
from tests.engine.naive import normal

HEADS, TOKENS, DIM, KEYS, CLUSTERS = 2, 4, 16, 9, 5
GROUPS = (
    3,
    1,
)  # query heads per KV head: rows of a group of one are the easiest to hand in strided


@dataclass(frozen=True)
class Call:
    """A valid call of an operation.

    Attributes:
        arguments: by name; tensors may lie within tuples, lists and dataclasses.
        allowed: what the operation takes although it is spoilt here, as "path: way"; "*" is any.
        group: query heads per KV head, for the test's name.
    """

    operation: Callable[..., object]
    arguments: dict[str, Any]
    allowed: frozenset[str] = frozenset()
    group: int = 0


def some(*shape: int, seed: int = 0) -> Tensor:
    return normal(*shape, seed=seed).to(DEVICE)


def ints(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int32, device=DEVICE)


def offsets(total: int) -> Tensor:
    return (torch.arange(CLUSTERS + 1, device=DEVICE) * total // CLUSTERS).int().repeat(HEADS, 1)


def attention_mass(group: int) -> dict[str, Any]:
    tokens = AttendedTokens(ints(HEADS, 7), ints(HEADS), 8, some(HEADS, group, KEYS))
    inputs = AttentionMassInputs(
        query=some(HEADS, group, DIM),
        lse=some(HEADS, group),
        keys=some(HEADS, 2 + KEYS, DIM),
        positions=ints(HEADS, 2 + KEYS),
        attended=tokens,
        num_anchors=2,
        scale=0.1,
    )
    return {"mass": some(30), "inputs": inputs}


def dense(group: int) -> AttendDenseInputs:
    own, anchors, streaming = some(2, 3, 6, DIM), some(2, 1, KEYS, DIM), some(2, 2, KEYS, DIM)
    return AttendDenseInputs(
        query=some(3, group * TOKENS, DIM),
        num_tokens=TOKENS,
        question_keys=own[0],
        question_values=own[1],
        anchor_keys=anchors[0],
        anchor_values=anchors[1],
        streaming_keys=streaming[0],
        streaming_values=streaming[1],
        scale=0.1,
    )


def selection(group: int) -> SelectTokensInputs:
    return SelectTokensInputs(
        query=some(HEADS, group * TOKENS, DIM),
        centroids=some(HEADS, CLUSTERS, DIM),
        offsets=offsets(20),
        threshold=some(1),
        dense_lse=some(HEADS, group * TOKENS),
        anchor_keys=some(HEADS, KEYS, DIM),
        num_tokens=20,
        group=group,
        aggregation="mean",
        scale=0.1,
    )


def listed_tokens(group: int) -> AttendTokensInputs:
    return AttendTokensInputs(
        query=some(HEADS, group * TOKENS, DIM),
        keys=some(HEADS, KEYS, DIM),
        values=some(HEADS, KEYS, DIM),
        tokens=ints(HEADS, KEYS),
        counts=ints(HEADS),
        dense_state=state(HEADS, group * TOKENS),
        scale=0.1,
    )


def state(heads: int, rows: int) -> State:
    return State(some(heads, rows, DIM), some(heads, rows))


def query_keys_values(query_heads: int, num_keys: int = KEYS) -> dict[str, Any]:
    return {
        "query": some(query_heads, TOKENS, DIM),
        "keys": some(HEADS, num_keys, DIM),
        "values": some(HEADS, num_keys, DIM),
        "scale": 0.1,
    }


def decode_step(group: int) -> dict[str, Any]:
    inputs = Case(
        group=group, head_dim=DIM, tokens=40, clusters=CLUSTERS, upper=3, streaming=2,
        lengths=(3, 5), has_sinks=True,
    ).inputs(torch.float32)  # fmt: skip
    return {"inputs": inputs, "work": workspace_for(inputs)}


# Torch computes these, whatever the layout.
ANY_LAYOUT = frozenset({"*: strided", "*: transposed", "*: columns first"})
# Heads and tokens may be any distance apart, but rows are contiguous.
ANY_HEADS = frozenset({"*: transposed"})


def calls_of_attention(group: int) -> Iterator[Call]:
    """The operations that attend, for a group of query heads per KV head."""
    yield Call(
        accumulate_attention_mass,
        attention_mass(group),
        # Documents and lists are of any length.
        frozenset({"mass: one head more", "inputs.attended.entries: one column more"}),
    )
    any_numbers = frozenset({"inputs.sink_logits: half", "inputs.sink_logits: wider"})
    yield Call(decode_attention, decode_step(group), any_numbers)
    query_heads = HEADS * group
    yield Call(attend_all, query_keys_values(query_heads), ANY_HEADS)
    yield Call(attend_causal, query_keys_values(query_heads), ANY_HEADS)
    window = query_keys_values(query_heads, 3 + TOKENS) | {"window": 3}
    yield Call(attend_window, window, ANY_HEADS)
    yield Call(
        attend_dense,
        {"inputs": dense(group)},
        frozenset({"inputs.question_keys: transposed", "inputs.question_values: transposed"}),
    )
    yield Call(
        select_tokens,
        {"inputs": selection(group)},
        frozenset({"inputs.threshold: one dimension more"}),  # it is one number, in any shape
    )
    yield Call(
        attend_tokens,
        {"inputs": listed_tokens(group)},
        frozenset({"inputs.tokens: one column more"}),  # lists are of any length
    )


OTHER_CALLS = [
    Call(
        attend_keys,
        query_keys_values(HEADS)
        | {
            "mask": torch.ones(TOKENS, KEYS, dtype=torch.bool, device=DEVICE),
            "bias": some(HEADS, 1, KEYS),
        },
        ANY_LAYOUT | {"mask: one dimension more"},
    ),
    Call(
        attention_weights,
        {
            "query": some(HEADS, TOKENS, DIM),
            "keys": some(HEADS, KEYS, DIM),
            "lse": some(HEADS, TOKENS),
            "scale": 0.1,
            "bias": some(TOKENS, KEYS),
        },
        ANY_LAYOUT | {"bias: one dimension more"},
    ),
    Call(
        log_cluster_scores,
        {
            "query": some(HEADS, TOKENS, DIM),
            "centroids": some(HEADS, CLUSTERS, DIM),
            "sizes": ints(HEADS, CLUSTERS),
            "scale": 0.1,
            "extra_lse": some(HEADS, TOKENS),
        },
        # Queries and centroids are compared in fp32, and sizes are any numbers.
        ANY_LAYOUT
        | {
            f"{name}: {way}"
            for name in ("query", "centroids", "sizes")
            for way in ("half", "wider")
        },
    ),
    Call(
        log_group_scores,
        {
            "query": some(HEADS, 2 * TOKENS, DIM),
            "centroids": some(HEADS, CLUSTERS, DIM),
            "sizes": ints(HEADS, CLUSTERS),
            "group": 2,
            "aggregation": "mean",
            "scale": 0.1,
            "extra_lse": some(HEADS, 2 * TOKENS),
        },
        ANY_LAYOUT
        | {
            f"{name}: {way}"
            for name in ("query", "centroids", "sizes")
            for way in ("half", "wider")
        },
    ),
    Call(
        aggregate,
        {"log_scores": some(HEADS, 2 * TOKENS, CLUSTERS), "group": 2, "aggregation": "mean"},
        # Any scores of whole groups.
        ANY_LAYOUT
        | {
            f"log_scores: {way}"
            for way in ("one head more", "one column more", "half", "wider", "elsewhere")
        },
    ),
    Call(merge_states, {"a": state(HEADS, TOKENS), "b": state(HEADS, TOKENS)}, ANY_LAYOUT),
    Call(
        append_keys,
        {
            "keys": some(HEADS, KEYS, DIM),
            "values": some(HEADS, KEYS, DIM),
            "key": some(HEADS, 1, DIM),
            "value": some(HEADS, 1, DIM),
            "slot": torch.zeros(1, dtype=torch.int64, device=DEVICE),
        },
        frozenset({"key: transposed", "value: transposed"}),
    ),
    Call(
        matvec,
        {
            "x": some(2, DIM),
            "weights": [some(5, DIM), some(3, DIM)],
            "biases": [some(5), some(3)],
        },
        # A strided x is copied, and may have up to four rows.
        frozenset({"x: strided", "x: transposed", "x: columns first", "x: one head more"}),
    ),
    Call(
        nearest_centroids,
        {"points": some(HEADS, KEYS, DIM), "centroids": some(HEADS, CLUSTERS, DIM)},
    ),
    Call(
        member_means,
        {
            "points": some(HEADS, KEYS, DIM),
            "weights": some(HEADS, KEYS),
            "labels": torch.zeros(HEADS, KEYS, dtype=torch.int64, device=DEVICE),
            "num_clusters": CLUSTERS,
        },
        # Points are of any width and any floating-point dtype.
        frozenset({"points: one column more", "points: half", "points: wider"}),
    ),
]
CALLS = [replace(call, group=group) for group in GROUPS for call in calls_of_attention(group)]
CALLS += OTHER_CALLS
# Launches of a decode step: `decode_attention` checks what they read, once for all of them.
STAGES = {
    "score_centroids_and_attend_dense",
    "score_children",
    "select_runs",
    "attend_runs",
    "combine_splits",
}
# Operations of passes about any documents, found through tables of addresses.
BY_TABLES = {"attend_rows", "append_rows", "accumulate_rows_mass", "attend_question"}
LAST_STAGE = "combine_splits"  # is given no tensors but those of the workspace
CHECKERS = ("checks", "validate")  # modules that raise ShapeError for operations


# -- tensors within arguments ----------------------------------------------------------------------


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a container, by name."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, list):
        yield from ((str(index), part) for index, part in enumerate(value))
    elif is_dataclass(value):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))


def tensors(value: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor within arguments; of a workspace, which an operation makes itself, none."""
    for name, part in parts(value):
        if isinstance(part, Tensor):
            yield f"{path}{name}", part
        elif name != "work":
            yield from tensors(part, f"{path}{name}.")


def with_part(value: Any, path: str, tensor: Tensor) -> Any:
    """The arguments with another tensor at a path."""
    name, _, rest = path.partition(".")
    part = with_part(dict(parts(value))[name], rest, tensor) if rest else tensor
    if isinstance(value, dict):
        return value | {name: part}
    if isinstance(value, list):
        return [part if str(index) == name else one for index, one in enumerate(value)]
    if isinstance(value, tuple):
        return value._replace(**{name: part})  # type: ignore[attr-defined]
    return replace(value, **{name: part})


# -- ways to spoil a tensor ------------------------------------------------------------------------


def one_more(tensor: Tensor, dim: int) -> Tensor:
    return torch.cat((tensor, tensor.narrow(dim, 0, 1)), dim)


def half(tensor: Tensor) -> Tensor:
    return tensor.half() if tensor.dtype != torch.float16 else tensor.float()


def wider(tensor: Tensor) -> Tensor:
    """Numbers of twice the bits."""
    twice = {torch.float32: torch.float64, torch.int32: torch.int64, torch.int64: torch.int32}
    return tensor.to(twice.get(tensor.dtype, torch.float32))


def strided(tensor: Tensor) -> Tensor:
    """The same numbers, every second one in memory."""
    return torch.stack((tensor, tensor), -1).flatten(-2)[..., ::2]


def transposed(tensor: Tensor) -> Tensor:
    """The same numbers, with the first two dimensions the other way round in memory.

    So do the rows of a question lie that are a view of tokens by heads, with one head a group.
    """
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def columns_first(tensor: Tensor) -> Tensor:
    """The same numbers, with the last two dimensions the other way round in memory."""
    return tensor.transpose(-2, -1).contiguous().transpose(-2, -1)


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "one head more": lambda tensor: one_more(tensor, 0),
    "one column more": lambda tensor: one_more(tensor, -1),
    "one dimension more": lambda tensor: tensor[None],
    "half": half,
    "wider": wider,
    "elsewhere": lambda tensor: tensor.to("meta"),
    "strided": strided,
    "transposed": transposed,
    "columns first": columns_first,
}
LAYOUTS = ("strided", "transposed", "columns first")
NEEDS_TWO_DIMENSIONS = ("one column more", "transposed", "columns first")


def spoilt(call: Call, *, allowed: bool) -> Iterator[tuple[str, str]]:
    """Each tensor of a call and each way to spoil it that the operation allows, or does not."""
    for path, tensor in tensors(call.arguments):
        for way, spoil in WAYS.items():
            if tensor.ndim == 1 and way in NEEDS_TWO_DIMENSIONS:
                continue
            if way in LAYOUTS and spoil(tensor).is_contiguous():  # then it is not spoilt
                continue
            if call.operation is matvec and way == "elsewhere":  # torch dispatches by device
                continue
            if bool({f"{path}: {way}", f"*: {way}"} & call.allowed) == allowed:
                yield path, way


def name_of(call: Call) -> str:
    return getattr(call.operation, "__name__", None) or call.operation._name  # type: ignore[attr-defined]


def id_of(call: Call) -> str:
    return f"{name_of(call)}, group of {call.group}" if call.group else name_of(call)


def run(call: Call, path: str = "", way: str = "") -> object:
    arguments = call.arguments
    if path:
        spoiled = WAYS[way](dict(tensors(arguments))[path])
        arguments = with_part(arguments, path, spoiled)
    if call.operation is matvec:  # which torch wants without names
        return matvec(*arguments.values())
    return call.operation(**arguments)


def is_refused(call: Call, path: str, way: str) -> bool:
    try:
        run(call, path, way)
    except ShapeError:
        return True
    except Exception as error:
        error.add_note(f"{path}: {way}")
        raise
    return False


@pytest.mark.parametrize("call", CALLS, ids=id_of)
def test_tensors_as_stated_are_taken(call: Call) -> None:
    run(call)


@pytest.mark.parametrize("call", CALLS, ids=id_of)
def test_other_tensors_are_refused(call: Call) -> None:
    ways = list(spoilt(call, allowed=False))
    assert ways
    assert [one for one in ways if not is_refused(call, *one)] == []


@pytest.mark.parametrize("call", [call for call in CALLS if call.allowed], ids=id_of)
def test_what_is_allowed_is_taken_and_layouts_do_not_matter(call: Call) -> None:
    for path, way in spoilt(call, allowed=True):
        found = run(call, path, way)
        if way in LAYOUTS:
            assert_close(found, run(call))


# -- no operation without a call -------------------------------------------------------------------


def modules() -> Iterator[ModuleType]:
    """The modules of all operations; Triton's folders are not public."""
    for found in pkgutil.walk_packages(engine.kernels.__path__, "engine.kernels."):
        if ".triton" not in found.name and found.name.rpartition(".")[2] not in CHECKERS:
            yield importlib.import_module(found.name)


def is_operation(name: str, value: object, module: ModuleType) -> bool:
    """Whether a public function promises a ShapeError, has a reference, or launches a kernel."""
    function = getattr(value, "_init_fn", value)  # of what torch has wrapped
    if name.startswith("_") or name.endswith("_reference") or not inspect.isfunction(function):
        return False
    if function.__module__ != module.__name__:  # imported from elsewhere
        return False
    promises = "ShapeError" in (inspect.getdoc(function) or "")
    return (
        promises
        or hasattr(module, f"{name}_reference")
        or "_triton(" in inspect.getsource(function)
    )


def test_every_operation_is_among_the_calls() -> None:
    operations = {
        name
        for module in modules()
        for name, value in vars(module).items()
        if is_operation(name, value, module)
    }
    assert operations - STAGES - BY_TABLES == {name_of(call) for call in CALLS}
    assert operations >= STAGES


def test_stages_of_a_decode_step_say_who_has_checked_their_tensors() -> None:
    for name in STAGES:
        module = importlib.import_module(f"engine.kernels.decode.{name}")
        assert "checked it" in vars(module)[name].__doc__ or name == LAST_STAGE


def test_an_operation_that_is_new_is_noticed() -> None:
    def attend_anew(query: Tensor) -> Tensor:
        """Attend in a new way. Raises: ShapeError if the query is strided."""
        return query

    module = ModuleType("engine.kernels.prefill.attend_anew")
    attend_anew.__module__ = module.__name__
    assert is_operation("attend_anew", attend_anew, module)
    assert not is_operation("_attend_anew", attend_anew, module)
    assert not is_operation("ceil_div", ceil_div, module)
