"""The head plan: which KV heads read the whole document, and what the others keep."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

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
        return digest({name: done[name] for name in DOING})

    def num_retrieval(self, layer: int) -> int:
        """Retrieval heads of a layer."""
        return sum(self.retrieval[layer])


DOING = ("retrieval", "num_sinks", "window", "compensation")


def plan_all(spec: ModelSpec) -> HeadPlan:
    """Every head is a retrieval head."""
    return HeadPlan(ALL, tuple((True,) * layer.num_kv_heads for layer in spec.layers))
