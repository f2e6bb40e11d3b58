"""Head plans that measure nothing: what the methods are compared with."""

from collections.abc import Iterator
from random import Random

from engine.model.head_plan import HeadPlan
from engine.model.spec import ModelSpec
from precompute.heads.base import Scores, chosen_heads, top_heads


def streaming_plan(spec: ModelSpec) -> HeadPlan:
    """No retrieval head at all."""
    return HeadPlan("streaming", chosen_heads(_scores(spec, None), []))


def random_plan(spec: ModelSpec, ratio: float, seed: int) -> HeadPlan:
    """Heads of random scores; those of a lower ratio are among those of a higher one."""
    heads = top_heads(_scores(spec, Random(seed)), ratio)
    return HeadPlan("random", heads, settings={"seed": seed, "ratio": ratio})


def plans_without_one(spec: ModelSpec) -> Iterator[tuple[int, int, HeadPlan]]:
    """Every layer and KV head, and the plan in which that head alone streams, uncompensated."""
    like = _scores(spec, None)
    places = [(layer, head) for layer, row in enumerate(like) for head in range(len(row))]
    for left_out, place in enumerate(places):
        others = [index for index in range(len(places)) if index != left_out]
        yield *place, HeadPlan("without one", chosen_heads(like, others), compensation=False)


def _scores(spec: ModelSpec, draw: Random | None) -> Scores:
    return tuple(
        tuple(draw.random() if draw else 0.0 for _ in range(layer.num_kv_heads))
        for layer in spec.layers
    )
