"""A decode step over a resident document: kernels against the definition, and the definition."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.decode.attend_runs import attend_runs_reference
from engine.kernels.decode.combine_splits import merge_splits_reference
from engine.kernels.decode.decode_attention import (
    Attended,
    decode_attention,
    decode_attention_reference,
    supports,
)
from engine.kernels.decode.score_centroids import score_rows, survey_reference
from engine.kernels.decode.score_children import descend_reference
from engine.kernels.decode.select_runs import select_runs_reference
from engine.kernels.decode.step_sizes import Sizes
from engine.kernels.decode.workspace import Workspace, allocate
from tests.engine import naive
from tests.engine.kernels.decode_case import SMALL, Case, Inputs
from tests.engine.kernels.launched import DEVICE, DTYPES, TOLERANCE, guarded_buffers

pytest.importorskip("triton")

MOST_WARPS = 20  # an SM, of the descent: as its registers allow

CASES = [
    Case(),
    Case(upper=6),
    Case(level2=-1e9),  # everything
    Case(level2=10.0),  # nothing
    Case(upper=6, level1=10.0),
    Case(upper=5, level1=-1e9, level2=-1e9, tokens=64, clusters=1, retrieval=1, streaming=0),
    Case(group=1, lengths=(1,), retrieval=1, streaming=0),
    Case(group=2, lengths=(7, 1, 20), upper=6, streaming_keys=40),
    Case(group=8, retrieval=2, streaming=0, head_dim=128, tokens=63, clusters=5),
    Case(group=7, lengths=(3, 5)),
    Case(lengths=(4, 17, 1, 2), aggregation="max", softcap=3.0),
    Case(retrieval=0, streaming=3, clusters=1, tokens=5),
    Case(tokens=1, clusters=3, anchors=1, lengths=(1,), level2=-1e9),
    Case(tokens=0, clusters=0),  # a document of anchors alone
    Case(anchors=0, streaming=0, head_dim=16, clusters=64, tokens=400),
]


def run_kernels(inputs: Inputs, work: Workspace) -> None:
    from engine.kernels.decode.triton.attend_runs import attend_runs_triton
    from engine.kernels.decode.triton.combine_splits import merge_splits_triton
    from engine.kernels.decode.triton.score_centroids import survey_triton
    from engine.kernels.decode.triton.score_children import descend_triton
    from engine.kernels.decode.triton.select_runs import select_runs_triton

    i = inputs
    survey_triton(i.query, i.layer, i.question, work, i.scoring)
    if work.sizes.retrieval and work.sizes.num_clusters:
        if i.layer.upper is not None:
            descend_triton(i.query, i.layer, i.thresholds, work, i.scoring)
        select_runs_triton(i.layer, i.thresholds, work, i.scoring)
        attend_runs_triton(i.query, i.layer, work, i.scoring)
    merge_splits_triton(work)


def run_stages(inputs: Inputs, work: Workspace) -> None:
    i = inputs
    survey_reference(i.query, i.layer, i.question, work, i.scoring)
    if work.sizes.retrieval:
        if i.layer.upper is not None:
            descend_reference(i.query, i.layer, i.thresholds, work, i.scoring)
        select_runs_reference(i.layer, i.thresholds, work, i.scoring)
        attend_runs_reference(i.query, i.layer, work, i.scoring)
    merge_splits_reference(work)


def real_rows(work: Workspace) -> Tensor:
    """Rows of a tile that are a head of a question."""
    s = work.sizes
    rows = torch.arange(s.rows, device=work.out.device)
    return rows[(rows // s.group_pad < s.batch) & (rows % s.group_pad < s.group)]


def define(inputs: Inputs) -> Attended:
    i = inputs
    return decode_attention_reference(i.query, i.layer, i.question, i.thresholds, i.scoring)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_the_kernels_attend_as_the_definition_does(
    case: Case, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = case.inputs(dtype)
    expected = define(inputs)
    with guarded_buffers(monkeypatch):
        work = inputs.workspace()
        run_kernels(inputs, work)
    tolerance = TOLERANCE[dtype]
    assert_close(work.out, expected.out, rtol=tolerance, atol=tolerance)
    assert_close(work.lse, expected.lse, rtol=1e-4, atol=1e-4)
    assert torch.equal(work.tally, expected.read)


@pytest.mark.parametrize("case", [CASES[1], CASES[7], CASES[10], CASES[12]])
def test_the_stages_in_torch_attend_as_the_definition_does(case: Case) -> None:
    inputs = case.inputs(torch.float32)
    work = inputs.workspace()
    run_stages(inputs, work)
    expected = define(inputs)
    assert_close(work.out, expected.out, rtol=1e-4, atol=1e-5)
    assert_close(work.lse, expected.lse, rtol=1e-4, atol=1e-4)
    assert torch.equal(work.tally, expected.read)


@pytest.mark.parametrize("run", [run_kernels, run_stages])
@pytest.mark.parametrize("case", [CASES[4], CASES[6], CASES[7], CASES[9], CASES[10]])
def test_scores_of_listed_tokens_are_left_for_who_asks(
    case: Case, run: Callable[[Inputs, Workspace], None]
) -> None:
    inputs = case.inputs(torch.float32)
    work = inputs.workspace(noting=True)
    work.token_scores.fill_(torch.nan)
    run(inputs, work)
    s = work.sizes
    scores = score_rows(inputs.query, inputs.layer.keys[:, s.num_anchors :], s, inputs.scoring)
    expected = scores[..., : s.group].mT.clone()
    for head, total in enumerate(work.totals.tolist()):
        kept = torch.zeros(s.num_keys, dtype=torch.bool)
        for piece in work.runs[head, :total].tolist():
            kept[piece >> 5 : (piece >> 5) + (piece & 31)] = True
        expected[head, :, ~kept] = torch.nan
    assert_close(work.token_scores, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("upper", [0, 6])
def test_each_kernel_leaves_behind_what_its_definition_does(upper: int) -> None:
    inputs = Case(group=2, lengths=(7, 1, 20), upper=upper).inputs(torch.float32)
    ours, theirs = inputs.workspace(), inputs.workspace()
    run_kernels(inputs, ours)
    run_stages(inputs, theirs)
    near = [work.near_lse.logsumexp(2) for work in (ours, theirs)]
    denominators = [work.parts.logsumexp(1)[:, real_rows(work)] for work in (ours, theirs)]
    scores = [work.scores[:, :, real_rows(work)] for work in (ours, theirs)]
    for found, expected in (near, denominators, scores):
        assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(ours.totals, theirs.totals)
    for head, total in enumerate(ours.totals.tolist()):
        assert torch.equal(ours.runs[head, :total], theirs.runs[head, :total])
        assert torch.equal(ours.askers[head, :total], theirs.askers[head, :total])


def test_the_same_step_gives_the_same_bits() -> None:
    inputs = Case(upper=6, lengths=(7, 2)).inputs(DTYPES[-1])
    work = inputs.workspace()
    run_kernels(inputs, work)
    first = work.out.clone()
    run_kernels(inputs, work)
    assert torch.equal(work.out, first)
    assert torch.equal(work.tally, 2 * define(inputs).read)


@pytest.mark.parametrize("programs", [1, 40])
def test_shares_of_work_do_not_matter(programs: int) -> None:
    inputs = Case().inputs(torch.float32)
    one, other = inputs.workspace(), inputs.workspace(replace(SMALL, programs=programs, piece=16))
    run_kernels(inputs, one)
    run_kernels(inputs, other)
    assert_close(one.out, other.out, rtol=1e-5, atol=1e-5)


def test_a_step_sees_what_the_question_has_become() -> None:
    inputs = Case(lengths=(7,)).inputs(torch.float32)
    work = inputs.workspace()
    run_kernels(inputs, work)
    before = work.out.clone()
    inputs.question.keys[:, :, 7], inputs.question.values[:, :, 7] = 0.5, 2.0
    inputs.question.lengths.fill_(8)
    run_kernels(inputs, work)
    assert_close(work.out, define(inputs).out, rtol=2e-5, atol=2e-5)
    assert not torch.allclose(work.out, before, atol=1e-3)


@pytest.mark.skipif(DEVICE != "cuda", reason="captures a CUDA graph")
def test_a_captured_step_sees_what_the_question_has_become() -> None:
    inputs = Case(upper=6, lengths=(7, 2)).inputs(torch.bfloat16)
    work, i = inputs.workspace(), inputs
    step = partial(decode_attention, i.query, i.layer, i.question, i.thresholds, work, i.scoring)
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    i.question.keys[:, :, 2:], i.question.values[:, :, 2:] = 0.5, 2.0
    i.question.lengths.fill_(8)
    i.query.mul_(-1)
    graph.replay()
    expected = define(inputs)
    assert_close(work.out, expected.out, rtol=3e-2, atol=3e-2)
    assert_close(work.lse, expected.lse, rtol=1e-3, atol=1e-3)


def test_the_definition_is_full_attention_where_everything_is_kept() -> None:
    inputs = Case(level2=-1e9, streaming=0, retrieval=3, lengths=(7, 3)).inputs(torch.float32)
    layer, question = inputs.layer, inputs.question
    found = define(inputs)
    for asked, length in enumerate((7, 3)):
        keys = torch.cat((layer.keys, question.keys[asked, :, :length]), 1)
        values = torch.cat((layer.values, question.values[asked, :, :length]), 1)
        rows = inputs.query[asked].view(3, 4, -1)
        out, lse = naive.attention(rows, keys, values, inputs.scoring.scale)
        assert_close(found.out[asked].double(), out.flatten(0, 1), rtol=1e-5, atol=1e-5)
        assert_close(found.lse[asked].double(), lse.flatten(), rtol=1e-5, atol=1e-5)


def test_the_operation_fills_the_workspace() -> None:
    inputs = Case(upper=6).inputs(DTYPES[0])
    work, expected = inputs.workspace(), define(inputs)
    i = inputs
    out = decode_attention(i.query, i.layer, i.question, i.thresholds, work, i.scoring)
    assert out is work.out
    assert_close(out, expected.out, rtol=TOLERANCE[DTYPES[0]], atol=TOLERANCE[DTYPES[0]])
    assert torch.equal(work.tally, expected.read)


@pytest.mark.parametrize("upper", [0, 30])
@pytest.mark.parametrize(
    "change",
    [
        {"part_clusters": 16, "score_programs": 1000},  # one tile a part
        {"near_keys": 128},  # two tiles
        {"score_block": 64, "descend_block": 64},
        {"near_keys": 64, "descend_block": 32, "descend_stages": 3, "descend_warps": 4},
        {"descend_span": 256, "descend_warps": 1},
        {"merge_parts": 2, "merge_warps": 8},  # joined in several steps
    ],
)
def test_tiles_do_not_matter(upper: int, change: dict[str, int]) -> None:
    inputs = Case(upper=upper, clusters=211, anchors=70, lengths=(80,)).inputs(torch.float32)
    work = inputs.workspace(replace(SMALL, **change))
    run_kernels(inputs, work)
    expected = define(inputs)
    assert_close(work.out, expected.out, rtol=2e-5, atol=2e-5)
    assert_close(work.lse, expected.lse, rtol=1e-4, atol=1e-4)
    assert torch.equal(work.tally, expected.read)


@pytest.mark.parametrize("upper", [0, 30])
@pytest.mark.parametrize("programs", [1, 5, 1000])
def test_a_survey_has_no_more_programs_than_are_wanted(upper: int, programs: int) -> None:
    inputs = Case(upper=upper, clusters=211).inputs(torch.float32)
    work = inputs.workspace(replace(SMALL, part_clusters=16, score_programs=programs))
    parts = work.upper_parts if upper else work.parts
    assert parts.shape[0] * parts.shape[1] <= max(programs, work.sizes.retrieval)
    assert parts.shape[1] * work.part_clusters >= (upper or 211)
    run_kernels(inputs, work)
    assert_close(work.out, define(inputs).out, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("batch", [1, 4, 16])
@pytest.mark.parametrize("upper_share", [0.0, 0.005])
@pytest.mark.parametrize("streaming", [0, 4, 8])
@pytest.mark.parametrize("num_keys", [4096, 131_072, 524_288])
def test_programs_of_the_default_tuning_all_fit_a_gpu_at_once(
    num_keys: int, streaming: int, upper_share: float, batch: int
) -> None:
    retrieval = 8 - streaming
    sizes = Sizes(
        batch=batch,
        num_heads=32,
        kv_heads=8,
        head_dim=128,
        retrieval=retrieval,
        num_anchors=144,
        num_keys=num_keys,
        num_clusters=num_keys // 20,
        num_upper=int(num_keys * upper_share),
        num_streaming_keys=321 if streaming else 0,
        capacity=512,
    )
    work = allocate(sizes, torch.bfloat16, torch.device("meta"))
    parts = work.upper_parts if sizes.num_upper else work.parts
    assert parts.shape[1] * work.part_clusters >= (sizes.num_upper or sizes.num_clusters)
    assert parts.shape[0] * parts.shape[1] <= work.tuning.score_programs
    assert work.counts.shape[1] * work.chunk >= sizes.num_clusters
    if batch == 1:
        assert work.counts.shape[1] <= min(128, 512 // max(1, retrieval))
        descending = work.parts.shape[1] // 2 * retrieval if sizes.num_upper else 0
        assert descending * work.tuning.descend_warps <= 132 * MOST_WARPS


def test_widths_that_are_no_power_of_two_have_no_kernel() -> None:
    sizes = Case().inputs(torch.float32).workspace().sizes
    assert supports(sizes)
    assert not supports(replace(sizes, head_dim=80))
    assert not supports(replace(sizes, batch=17))
    assert not supports(replace(sizes, num_keys=1 << 26))


def test_what_does_not_fit_is_refused() -> None:
    i = Case().inputs(torch.float32)
    work, layer = i.workspace(), i.layer
    strided = replace(layer, centroids=layer.centroids.transpose(0, 1).contiguous().transpose(0, 1))
    refused = [
        ({"query": i.query[:, 1:]}, "do not fit a workspace"),
        ({"thresholds": i.thresholds[:1]}, "Thresholds"),
        ({"layer": replace(layer, streaming=None)}, "do not fit a workspace"),
        ({"layer": replace(layer, values=layer.values.clone())}, "lie unlike"),
        ({"layer": strided}, "strided"),
        ({"layer": replace(layer, offsets=layer.offsets.long())}, "offsets"),
    ]
    for change, reason in refused:
        changed = replace(i, **change)
        with pytest.raises(ShapeError, match=reason):
            decode_attention(
                changed.query,
                changed.layer,
                changed.question,
                changed.thresholds,
                work,
                changed.scoring,
            )
