"""Plans that measure nothing, and what single heads cost."""

from bench.accuracy.plan_cases import plans_without_one, random_plan, streaming_plan
from engine.model.spec import LayerSpec, ModelSpec

SPEC = ModelSpec((LayerSpec(6, 3, 8, 1.0, None, None),) * 10, 4096)


def count(plan):
    return sum(map(sum, plan.retrieval))


def test_random_plans_have_the_ratio_rounded_up_and_follow_their_seed():
    assert [count(random_plan(SPEC, ratio, 3)) for ratio in (0.05, 0.1, 0.25, 0.5)] == [2, 3, 8, 15]
    assert random_plan(SPEC, 0.25, 3) == random_plan(SPEC, 0.25, 3)
    assert random_plan(SPEC, 0.25, 3).retrieval != random_plan(SPEC, 0.25, 4).retrieval


def test_streaming_only_has_no_retrieval_head():
    assert count(streaming_plan(SPEC)) == 0


def test_every_head_streams_alone_once():
    plans = list(plans_without_one(SPEC))
    assert len({(layer, head) for layer, head, _ in plans}) == 30
    assert all(count(plan) == 29 for _, _, plan in plans)
    assert not any(plan.retrieval[layer][head] for layer, head, plan in plans)
