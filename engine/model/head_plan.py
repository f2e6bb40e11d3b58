"""The head plan: which KV heads read the whole document, what others keep, and its JSON file."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from common.errors import HeadPlanRejected
from common.versions import HEAD_PLAN_FORMAT
from engine.model.fingerprint import digest
from engine.model.spec import ModelSpec

ALL = "all"  # the method that makes every head a retrieval head


@dataclass(frozen=True)
class HeadPlan:
    """Retrieval heads keep every token; streaming heads keep sinks, a window and one mean token.

    Attributes:
        method: what chose the heads: "all", "duo", "razor", "zigzag", "file".
        retrieval: per layer, per KV head: whether it is a retrieval head.
        num_sinks: leading tokens that a streaming head keeps.
        window: last tokens that a streaming head sees, its own included.
        window_share: of a document's length, which the window is where that is more than `window`
            (RazorAttention's max(4000, N / 5) is 4000 and 0.2); see `window_for`.
        compensation: whether dropped tokens are stood for by their mean key and value with the
            weight of their number (RazorAttention, eq. 4 and 5).
        scores: per layer, per KV head: what the method measured; empty if it measured nothing.
        settings: the method's settings, JSON-like.
        model: fingerprint of the model's weights that the scores belong to; empty for any model.
    """

    method: str
    retrieval: tuple[tuple[bool, ...], ...]
    num_sinks: int = 64
    window: int = 256
    compensation: bool = True
    scores: tuple[tuple[float, ...], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    window_share: float = 0.0

    @property
    def ratio(self) -> float:
        """Retrieval heads over all KV heads."""
        heads = [head for layer in self.retrieval for head in layer]
        return sum(heads) / len(heads)

    @property
    def fingerprint(self) -> str:
        """Identifies what the plan does to a document's cache, however its heads were chosen."""
        if all(map(all, self.retrieval)):
            return digest({"retrieval": self.retrieval})
        done = asdict(self)
        doing = {name: done[name] for name in DOING}
        if self.window_share:
            doing["window_share"] = self.window_share
        return digest(doing)

    def window_for(self, num_tokens: int) -> int:
        """The window of streaming heads for a document of `num_tokens`, in tokens."""
        return max(self.window, math.ceil(round(self.window_share * num_tokens, 9)))

    def num_retrieval(self, layer: int) -> int:
        """Retrieval heads of a layer."""
        return sum(self.retrieval[layer])


DOING = ("retrieval", "num_sinks", "window", "compensation")


def plan_all(spec: ModelSpec) -> HeadPlan:
    """Every head is a retrieval head."""
    return HeadPlan(ALL, tuple((True,) * layer.num_kv_heads for layer in spec.layers))


def write_plan(plan: HeadPlan, path: Path) -> None:
    """Write a plan as JSON, a line a field and a line a layer, so that people can read it.

    Args:
        path: of the file; its folder is made if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(plan), encoding="utf-8")


def read_plan(path: Path) -> HeadPlan:
    """Read a plan; `check_plan` says whether it fits a model.

    Raises: HeadPlanRejected if the file is missing or no plan.
    """
    try:
        return from_fields(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HeadPlanRejected(f"'{path}' cannot be read as a head plan: {error}.") from error


def to_json(plan: HeadPlan) -> str:
    """The plan's text."""
    lines = [f" {json.dumps(name)}: {_text(value)}" for name, value in to_fields(plan).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def to_fields(plan: HeadPlan) -> dict[str, Any]:
    """The plan as a JSON object; a retrieval head is a 1."""
    fields = {"format": HEAD_PLAN_FORMAT, **asdict(plan)}
    fields["retrieval"] = [[int(head) for head in layer] for layer in plan.retrieval]
    if not plan.window_share:  # earlier versions do not know it
        del fields["window_share"]
    return fields


def from_fields(fields: Mapping[str, Any]) -> HeadPlan:
    """The plan that `to_fields` wrote.

    Raises: ValueError, KeyError or TypeError if it did not.
    """
    given = dict(fields)
    if given.pop("format") != HEAD_PLAN_FORMAT:
        raise ValueError(f"it is not of format {HEAD_PLAN_FORMAT}")
    heads = {head for layer in given["retrieval"] for head in layer}
    if not heads <= {0, 1} or not heads:
        raise ValueError("its heads are no rows of 0 and 1")
    given["retrieval"] = tuple(tuple(map(bool, layer)) for layer in given["retrieval"])
    given["scores"] = tuple(tuple(map(float, layer)) for layer in given["scores"])
    plan = HeadPlan(**given)
    if plan.num_sinks < 0 or plan.window < 1:
        raise ValueError("its sinks and window are no numbers of tokens")
    if not 0 <= plan.window_share <= 1:
        raise ValueError("the share of its window does not lie between 0 and 1")
    if plan.scores and _shape(plan.scores) != _shape(plan.retrieval):
        raise ValueError("it has not one score a head")
    return plan


def check_plan(plan: HeadPlan, spec: ModelSpec, weights: str) -> None:
    """Refuse a plan for another model.

    Args:
        weights: fingerprint of the model's weights; a plan without one fits any of its shape.
    Raises: HeadPlanRejected with both shapes, or saying that the weights differ.
    """
    if any(layer.alibi is not None for layer in spec.layers) and not all(map(all, plan.retrieval)):
        raise HeadPlanRejected(
            "The model's heads have linear biases: how far each sees follows from its weights, and "
            "a head plan has no say in it."
        )
    shape = [layer.num_kv_heads for layer in spec.layers]
    if _shape(plan.retrieval) != shape:
        raise HeadPlanRejected(
            f"The head plan is for {_described(_shape(plan.retrieval))}, but the model has "
            f"{_described(shape)}."
        )
    if plan.model and plan.model != weights:
        raise HeadPlanRejected(
            "The head plan was found on other weights than the model's: find one anew."
        )


def _shape(rows: tuple[tuple[Any, ...], ...]) -> list[int]:
    return [len(row) for row in rows]


def _described(heads: list[int]) -> str:
    each = str(heads[0]) if len(set(heads)) == 1 else "/".join(map(str, heads))
    return f"{len(heads)} layers of {each} KV heads"


def _text(value: Any) -> str:
    """A nested list has a line a row."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
        return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in value) + "\n ]"
    return json.dumps(value)
