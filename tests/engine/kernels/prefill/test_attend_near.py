"""Attention to the question and to what lies near, in Triton against its definition in torch."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.prefill.attend_near import NearKeys, attend_near, attend_near_reference
from tests.engine.kernels.launched import DEVICE, DTYPES, TOLERANCE, beside, guarded_buffers
from tests.engine.naive import normal

kernel = pytest.importorskip("engine.kernels.prefill.triton.attend_near")


@dataclass(frozen=True)
class Case:
    """A question's last tokens, and what they see."""

    tokens: int = 5
    past: int = 0
    group: int = 4
    retrieval: int = 2
    anchors: int = 19
    streaming: int = 2
    kept: int = 33
    log_last: float = 6.0
    head_dim: int = 32
    softcap: float | None = None

    def inputs(self, dtype: torch.dtype) -> tuple[Tensor, NearKeys]:
        heads, num_own, dim = (
            self.retrieval + self.streaming,
            self.past + self.tokens,
            self.head_dim,
        )
        query = normal(heads, self.group * self.tokens, dim, dtype=dtype, seed=1)
        own = normal(2, num_own, heads, dim, dtype=dtype, seed=2).to(DEVICE)
        # As a layer gives them: tokens apart by all heads.
        keys, values = (beside(part).transpose(0, 1) for part in own)
        held = normal(2, self.retrieval, self.anchors + 40, dim, dtype=dtype, seed=3).to(DEVICE)
        held[:, :, self.anchors :] = float("nan")  # clustered tokens, which are not to be read
        kept = normal(2, self.streaming, self.kept, dim, dtype=dtype, seed=4).to(DEVICE)
        around = held[:, :, : self.anchors]
        near = NearKeys(keys, values, around[0], around[1])
        if self.streaming:
            near = replace(
                near,
                kept_keys=beside(kept[0]),
                kept_values=beside(kept[1]),
                log_last=self.log_last,
            )
        return beside(query.to(DEVICE)), near


CASES = [
    Case(),
    Case(tokens=1, past=70, log_last=0.0),
    Case(tokens=37, past=3, softcap=3.0),
    Case(tokens=70, group=1, streaming=0, head_dim=64),
    Case(tokens=9, group=3, retrieval=0, anchors=4),
    Case(tokens=130, group=2, anchors=0, streaming=1, head_dim=16),
    Case(tokens=4, anchors=65, kept=1, head_dim=256),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_attends_as_the_definition_does(
    case: Case, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, near = case.inputs(dtype)
    how = {"tokens": case.tokens, "scale": 0.3, "softcap": case.softcap}
    expected = attend_near_reference(query, near, **how)
    with guarded_buffers(monkeypatch):
        found = kernel.attend_near_triton(query, near, **how)
    tolerance = TOLERANCE[dtype]
    assert_close(found.out, expected.out, rtol=tolerance, atol=tolerance)
    assert_close(found.lse, expected.lse, rtol=1e-4, atol=1e-4)


def test_a_token_does_not_see_later_ones() -> None:
    case = Case()
    query, near = case.inputs(torch.float32)
    later = near.own_keys.clone()
    later[:, 3:] += 5.0
    rows = query.view(4, case.group, case.tokens, case.head_dim)
    for attend in (attend_near_reference, kernel.attend_near_triton):
        before, after = (
            attend(query, one, tokens=case.tokens, scale=0.3, softcap=None).out.view_as(rows)
            for one in (near, replace(near, own_keys=later))
        )
        assert torch.equal(before[:, :, :3], after[:, :, :3])
        assert not torch.allclose(before[:, :, 3:], after[:, :, 3:])


def test_what_does_not_fit_is_refused() -> None:
    query, near = Case().inputs(torch.float32)
    with pytest.raises(ShapeError, match="KV heads"):
        attend_near(query, replace(near, kept_keys=None), tokens=5, scale=1.0)
    with pytest.raises(ShapeError, match="for 3 tokens"):
        attend_near(query, near, tokens=3, scale=1.0)
    with pytest.raises(ShapeError, match="A question"):
        attend_near(query, replace(near, own_keys=near.own_keys[:, :, 1:]), tokens=5, scale=1.0)
    turned = near.own_keys.transpose(1, 2).contiguous().transpose(1, 2)
    with pytest.raises(ShapeError, match="within a row"):
        attend_near(query, replace(near, own_keys=turned), tokens=5, scale=1.0)
    with pytest.raises(ShapeError, match="unlike"):
        attend_near(query, replace(near, kept_values=near.own_values[2:]), tokens=5, scale=1.0)
    strided = near.anchor_keys[:, ::2]
    with pytest.raises(ShapeError, match="strided"):
        attend_near(
            query, replace(near, anchor_keys=strided, anchor_values=strided), tokens=5, scale=1.0
        )
