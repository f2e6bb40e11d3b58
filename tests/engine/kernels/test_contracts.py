"""Every operation refuses tensors of other shapes, dtypes, devices or layouts than it states."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

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
from engine.kernels.shared.score_clusters import log_cluster_scores
from engine.kernels.shared.state import State
from tests.engine.kernels.decode_case import Case, workspace_for
from tests.engine.kernels.harness import DEVICE
from tests.engine.naive import normal

HEADS, GROUP, TOKENS, DIM, KEYS, CLUSTERS = 2, 3, 4, 16, 9, 5


@dataclass(frozen=True)
class Call:
    """A valid call of an operation.

    Attributes:
        arguments: by name; tensors may lie within tuples, lists and dataclasses.
        allowed: what the operation takes although it is spoilt here, as "path: way"; "*" is any.
    """

    operation: Callable[..., object]
    arguments: dict[str, Any]
    allowed: frozenset[str] = frozenset()


def some(*shape: int, seed: int = 0) -> Tensor:
    return normal(*shape, seed=seed).to(DEVICE)


def ints(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int32, device=DEVICE)


def offsets(total: int) -> Tensor:
    return (torch.arange(CLUSTERS + 1, device=DEVICE) * total // CLUSTERS).int().repeat(HEADS, 1)


def attention_mass() -> dict[str, Any]:
    tokens = AttendedTokens(ints(HEADS, 7), ints(HEADS), 8, some(HEADS, GROUP, KEYS))
    inputs = AttentionMassInputs(
        query=some(HEADS, GROUP, DIM),
        lse=some(HEADS, GROUP),
        keys=some(HEADS, 2 + KEYS, DIM),
        positions=ints(HEADS, 2 + KEYS),
        attended=tokens,
        num_anchors=2,
        scale=0.1,
    )
    return {"mass": some(30), "inputs": inputs}


def dense() -> AttendDenseInputs:
    own, anchors, streaming = some(2, 3, 6, DIM), some(2, 1, KEYS, DIM), some(2, 2, KEYS, DIM)
    return AttendDenseInputs(
        query=some(3, GROUP * TOKENS, DIM),
        num_tokens=TOKENS,
        question_keys=own[0],
        question_values=own[1],
        anchor_keys=anchors[0],
        anchor_values=anchors[1],
        streaming_keys=streaming[0],
        streaming_values=streaming[1],
        scale=0.1,
    )


def selection() -> SelectTokensInputs:
    return SelectTokensInputs(
        query=some(HEADS, GROUP * TOKENS, DIM),
        centroids=some(HEADS, CLUSTERS, DIM),
        offsets=offsets(20),
        threshold=some(1),
        dense_lse=some(HEADS, GROUP * TOKENS),
        anchor_keys=some(HEADS, KEYS, DIM),
        num_tokens=20,
        group=GROUP,
        aggregation="mean",
        scale=0.1,
    )


def listed_tokens() -> AttendTokensInputs:
    return AttendTokensInputs(
        query=some(HEADS, GROUP * TOKENS, DIM),
        keys=some(HEADS, KEYS, DIM),
        values=some(HEADS, KEYS, DIM),
        tokens=ints(HEADS, KEYS),
        counts=ints(HEADS),
        dense_state=state(HEADS, GROUP * TOKENS),
        scale=0.1,
    )


def state(heads: int, rows: int) -> State:
    return State(some(heads, rows, DIM), some(heads, rows))


def query_keys_values(num_keys: int = KEYS) -> dict[str, Any]:
    return {
        "query": some(HEADS * GROUP, TOKENS, DIM),
        "keys": some(HEADS, num_keys, DIM),
        "values": some(HEADS, num_keys, DIM),
    }


def by_kv_head() -> dict[str, Any]:
    return query_keys_values() | {"query": some(HEADS, TOKENS, DIM)}


def decode_step() -> dict[str, Any]:
    inputs = Case(
        head_dim=DIM, tokens=40, clusters=CLUSTERS, upper=3, streaming=2, lengths=(3, 5)
    ).inputs(torch.float32)
    return {"inputs": inputs, "work": workspace_for(inputs)}


# Torch computes these, whatever the layout.
ANY_LAYOUT = frozenset({"*: strided", "*: transposed"})
# Heads and tokens may be any distance apart, but rows are contiguous.
ANY_HEADS = frozenset({"*: transposed"})
CALLS = [
    Call(
        attend_keys,
        by_kv_head()
        | {
            "scale": 0.1,
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
    Call(merge_states, {"a": state(HEADS, TOKENS), "b": state(HEADS, TOKENS)}, ANY_LAYOUT),
    Call(
        accumulate_attention_mass,
        attention_mass(),
        # Documents and lists are of any length.
        frozenset({"mass: one head more", "inputs.attended.entries: one column more"}),
    ),
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
        frozenset({"x: strided", "x: transposed", "x: one head more"}),  # strided ones are copied
    ),
    Call(decode_attention, decode_step()),
    Call(attend_all, query_keys_values() | {"scale": 0.1}, ANY_HEADS),
    Call(attend_causal, query_keys_values() | {"scale": 0.1}, ANY_HEADS),
    Call(attend_window, query_keys_values(3 + TOKENS) | {"window": 3, "scale": 0.1}, ANY_HEADS),
    Call(
        attend_dense,
        {"inputs": dense()},
        frozenset({"inputs.question_keys: transposed", "inputs.question_values: transposed"}),
    ),
    Call(
        select_tokens,
        {"inputs": selection()},
        frozenset({"inputs.threshold: one dimension more"}),  # it is one number, in any shape
    ),
    Call(
        attend_tokens,
        {"inputs": listed_tokens()},
        frozenset({"inputs.tokens: one column more"}),  # lists are of any length
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
# Launches of a decode step: `decode_attention` checks what they read, once for all of them.
STAGES = {
    "score_centroids_and_attend_dense",
    "score_children",
    "select_runs",
    "attend_runs",
    "combine_splits",
}


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
    """The same numbers, with the first two dimensions the other way round in memory."""
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "one head more": lambda tensor: one_more(tensor, 0),
    "one column more": lambda tensor: one_more(tensor, -1),
    "one dimension more": lambda tensor: tensor[None],
    "half": half,
    "wider": wider,
    "elsewhere": lambda tensor: tensor.to("meta"),
    "strided": strided,
    "transposed": transposed,
}


def spoilt(*, allowed: bool) -> Iterator[Any]:
    """Calls with one tensor spoilt, in each way that the operation allows, or does not."""
    for call in CALLS:
        for path, tensor in tensors(call.arguments):
            for way, spoil in WAYS.items():
                if tensor.ndim == 1 and way in ("one column more", "transposed"):
                    continue
                in_layout = way in ("strided", "transposed")
                if in_layout and spoil(tensor).is_contiguous():  # then it is not spoilt
                    continue
                if call.operation is matvec and way == "elsewhere":  # torch dispatches by device
                    continue
                if bool({f"{path}: {way}", f"*: {way}"} & call.allowed) == allowed:
                    yield pytest.param(call, path, way, id=f"{name_of(call)}: {path}: {way}")


def name_of(call: Call) -> str:
    return getattr(call.operation, "__name__", None) or call.operation._name  # type: ignore[attr-defined]


def run(call: Call, path: str = "", way: str = "") -> object:
    arguments = call.arguments
    if path:
        spoiled = WAYS[way](dict(tensors(arguments))[path])
        arguments = with_part(arguments, path, spoiled)
    if call.operation is matvec:  # which torch wants without names
        return matvec(*arguments.values())
    return call.operation(**arguments)


@pytest.mark.parametrize("call", CALLS, ids=name_of)
def test_tensors_as_stated_are_taken(call: Call) -> None:
    run(call)


@pytest.mark.parametrize(("call", "path", "way"), list(spoilt(allowed=False)))
def test_other_tensors_are_refused(call: Call, path: str, way: str) -> None:
    with pytest.raises(ShapeError):
        run(call, path, way)


@pytest.mark.parametrize(("call", "path", "way"), list(spoilt(allowed=True)))
def test_what_is_allowed_is_taken_and_layouts_do_not_matter(
    call: Call, path: str, way: str
) -> None:
    found = run(call, path, way)
    if way in ("strided", "transposed"):
        torch.testing.assert_close(found, run(call))


def modules() -> Iterator[ModuleType]:
    """The modules of all operations; Triton's folders are not public."""
    for found in pkgutil.walk_packages(engine.kernels.__path__, "engine.kernels."):
        if ".triton" not in found.name:
            yield importlib.import_module(found.name)


def test_every_operation_is_among_the_calls() -> None:
    """An operation is what has a reference, `op_reference`, beside it."""
    operations = {
        name.removesuffix("_reference")
        for module in modules()
        for name in vars(module)
        if name.endswith("_reference") and hasattr(module, name.removesuffix("_reference"))
    }
    assert len(operations) > 15
    assert operations - {name_of(call) for call in CALLS} == STAGES
