"""Attention to dense keys in Triton against its definition in torch."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.prefill.attend_dense import (
    AttendDenseInputs,
    attend_dense,
    attend_dense_reference,
)
from tests.engine import naive
from tests.engine.kernels.harness import DEVICE, DTYPES, TOLERANCE, guarded_buffers, surrounded
from tests.engine.naive import normal

pytest.importorskip("triton")

from engine.kernels.prefill.triton.attend_dense import attend_dense_triton


@dataclass(frozen=True)
class Case:
    """A question's last tokens, and what they see."""

    tokens: int = 5
    past: int = 0
    group: int = 4
    retrieval: int = 2
    anchors: int = 19
    streaming: int = 2
    streaming_keys: int = 33
    log_last_weight: float = 6.0
    head_dim: int = 32
    softcap: float | None = None
    window: int | None = None

    def inputs(self, dtype: torch.dtype) -> AttendDenseInputs:
        heads, num_own = self.retrieval + self.streaming, self.past + self.tokens
        dim = self.head_dim
        query = normal(heads, self.group * self.tokens, dim, dtype=dtype, seed=1)
        own = normal(2, num_own, heads, dim, dtype=dtype, seed=2).to(DEVICE)
        # As a layer gives them: tokens are apart by all heads.
        if self.window is not None:  # what the window shows no token is not to be read
            own[:, : max(0, self.past - self.window + 1)] = float("nan")
        keys, values = (surrounded(part).transpose(0, 1) for part in own)
        clustered = 40
        stored = normal(2, self.retrieval, self.anchors + clustered, dim, dtype=dtype, seed=3)
        stored = stored.to(DEVICE)
        stored[:, :, self.anchors :] = float("nan")  # clustered tokens, which are not to be read
        if self.window is not None:
            hidden = self.anchors + self.past - self.window + 1
            stored[:, :, : max(0, hidden)] = float("nan")
        anchor_keys, anchor_values = stored[:, :, : self.anchors]
        inputs = AttendDenseInputs(
            query=surrounded(query.to(DEVICE)),
            num_tokens=self.tokens,
            question_keys=keys,
            question_values=values,
            anchor_keys=anchor_keys,
            anchor_values=anchor_values,
            window=self.window,
            scale=0.3,
            softcap=self.softcap,
        )
        if not self.streaming:
            return inputs
        kept = normal(2, self.streaming, self.streaming_keys, dim, dtype=dtype, seed=4).to(DEVICE)
        return replace(
            inputs,
            streaming_keys=surrounded(kept[0]),
            streaming_values=surrounded(kept[1]),
            log_last_weight=self.log_last_weight,
        )


CASES = [
    Case(),
    Case(tokens=1, past=70, log_last_weight=0.0),
    Case(tokens=37, past=3, softcap=3.0),
    Case(tokens=70, group=1, streaming=0, head_dim=64),
    Case(tokens=9, group=3, retrieval=0, anchors=4),
    Case(tokens=130, group=2, anchors=0, streaming=1, head_dim=16),
    Case(tokens=4, anchors=65, streaming_keys=1, head_dim=256),
    Case(tokens=6, past=2, group=1, retrieval=1, streaming=1, head_dim=80),
    Case(tokens=3, group=2, retrieval=1, streaming=0, head_dim=96, softcap=3.0),
    Case(tokens=2, retrieval=1, streaming=1, head_dim=112),
    Case(tokens=1, past=20, group=8, retrieval=1, streaming=0, head_dim=192),
]
WINDOWED = [  # shorter than the document's tail, as long, longer; shorter than the question
    Case(window=12, anchors=90, tokens=5, group=2, streaming=0),
    Case(window=19, anchors=19, tokens=1, streaming=0, head_dim=80, softcap=3.0),
    Case(window=90, anchors=9, tokens=37, past=3, group=1, streaming=0),
    Case(window=20, anchors=30, tokens=70, group=8, retrieval=1, streaming=0, head_dim=16),
    Case(window=8, anchors=8, tokens=40, past=80, group=1, streaming=0, head_dim=96),
    Case(window=1, anchors=3, tokens=2, retrieval=1, streaming=0),
]


def without_nans(inputs: AttendDenseInputs) -> AttendDenseInputs:
    """The same with zeros for what is not to be read: the definition multiplies it by zero."""
    names = ("question_keys", "question_values", "anchor_keys", "anchor_values")
    return replace(inputs, **{name: getattr(inputs, name).nan_to_num(0.0) for name in names})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES + WINDOWED)
def test_the_kernel_attends_as_the_definition_does(
    case: Case, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = case.inputs(dtype)
    expected = attend_dense_reference(without_nans(inputs))
    with guarded_buffers(monkeypatch):
        found = attend_dense_triton(inputs)
    tolerance = TOLERANCE[dtype]
    assert_close(found.out, expected.out, rtol=tolerance, atol=tolerance)
    assert_close(found.lse, expected.lse, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", WINDOWED)
def test_a_token_sees_what_lies_within_its_window(case: Case) -> None:
    inputs = without_nans(case.inputs(torch.float32))
    found = attend_dense_reference(inputs)
    pairs = ((inputs.anchor_keys, inputs.question_keys),
             (inputs.anchor_values, inputs.question_values))  # fmt: skip
    keys, values = (torch.cat(pair, 1) for pair in pairs)
    for token in range(case.tokens):
        last = case.anchors + case.past + token  # the token's own key
        seen = slice(max(0, last - inputs.window + 1), last + 1)
        rows = slice(token, None, case.tokens)
        out, lse = naive.attention(
            inputs.query[:, rows], keys[:, seen], values[:, seen], 0.3, case.softcap
        )
        assert_close(found.out[:, rows].double(), out, rtol=1e-5, atol=1e-5)
        assert_close(found.lse[:, rows].double(), lse, rtol=1e-5, atol=1e-5)


def test_a_token_does_not_see_later_ones() -> None:
    case = Case()
    inputs = case.inputs(torch.float32)
    changed = inputs.question_keys.clone()
    changed[:, 3:] += 5.0
    rows = (4, case.group, case.tokens, case.head_dim)
    for attend in (attend_dense_reference, attend_dense_triton):
        before, after = (
            attend(one).out.view(rows) for one in (inputs, replace(inputs, question_keys=changed))
        )
        assert torch.equal(before[:, :, :3], after[:, :, :3])
        assert not torch.allclose(before[:, :, 3:], after[:, :, 3:])


@pytest.mark.parametrize("window", [0, 5])
def test_a_window_is_of_a_token_at_least_and_not_of_streaming_heads(window: int) -> None:
    inputs = Case(streaming=2 if window else 0).inputs(torch.float32)
    with pytest.raises(ShapeError, match=f"A window of {window}"):
        attend_dense(replace(inputs, window=window))


def test_numbers_of_heads_and_tokens_that_do_not_fit_are_refused() -> None:
    inputs = Case().inputs(torch.float32)
    with pytest.raises(ShapeError, match="of 2 heads for 4"):
        attend_dense(replace(inputs, streaming_keys=None))
    for tokens in (0, 3, 20):
        with pytest.raises(ShapeError, match=f"for {tokens} tokens"):
            attend_dense(replace(inputs, num_tokens=tokens))
