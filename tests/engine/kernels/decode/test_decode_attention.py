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
from engine.kernels.decode.combine_splits import combine_splits_reference
from engine.kernels.decode.decode_attention import (
    decode_attention,
    decode_attention_reference,
    supports,
)
from engine.kernels.decode.inputs import DecodeInputs, StepSizes
from engine.kernels.decode.reference_helpers import raw_scores
from engine.kernels.decode.score_centroids_and_attend_dense import (
    score_centroids_and_attend_dense_reference,
)
from engine.kernels.decode.score_children import score_children_reference
from engine.kernels.decode.select_runs import select_runs_reference
from engine.kernels.decode.workspace import Workspace, allocate
from tests.engine import naive
from tests.engine.kernels.decode_case import SMALL, Case, windowed, workspace_for
from tests.engine.kernels.harness import COMPILED, DEVICE, DTYPES, TOLERANCE, guarded_buffers

pytest.importorskip("triton")

MOST_WARPS = 20  # on a multiprocessor, of `score_children`: as its registers allow

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
    # Widths that are no power of two: Phi-2's, Phi-3's, and two more.
    Case(head_dim=80, group=1, upper=6, lengths=(7, 2), tokens=90, clusters=12),
    Case(head_dim=96, retrieval=1, streaming_keys=9, tokens=70, clusters=9, softcap=3.0),
    Case(head_dim=112, group=2, retrieval=1, streaming=0, tokens=70, clusters=9),
    Case(head_dim=192, group=8, retrieval=1, streaming=0, tokens=70, clusters=9),
    # Windows: shorter than the document's tail, as long, longer; shorter than a question.
    windowed(12, anchors=33, group=2),
    windowed(24, anchors=24, group=4, lengths=(1,), head_dim=80, softcap=3.0),
    windowed(90, anchors=9, group=1, lengths=(20, 3)),
    windowed(20, anchors=40, group=8, retrieval=1, lengths=(37, 1, 20), head_dim=16),
    windowed(1, anchors=5, retrieval=1, lengths=(3,), head_dim=96),
]
WINDOWED = CASES[-5:]
RUNS = [(case, dtype) for case in CASES for dtype in DTYPES]
if not COMPILED:  # a case of each kind in one dtype, and one with and without a window in the other
    of_a_kind = [case for case in CASES if case not in (CASES[2], CASES[3], CASES[12], CASES[17])]
    RUNS = [(case, DTYPES[0]) for case in of_a_kind]
    RUNS += [(case, DTYPES[1]) for case in (CASES[7], CASES[16], WINDOWED[0])]


def run_kernels(inputs: DecodeInputs, work: Workspace) -> None:
    from engine.kernels.decode.triton.attend_runs import attend_runs_triton
    from engine.kernels.decode.triton.combine_splits import combine_splits_triton
    from engine.kernels.decode.triton.score_centroids_and_attend_dense import (
        score_centroids_and_attend_dense_triton,
    )
    from engine.kernels.decode.triton.score_children import score_children_triton
    from engine.kernels.decode.triton.select_runs import select_runs_triton

    score_centroids_and_attend_dense_triton(inputs, work)
    if work.sizes.retrieval and work.sizes.num_clusters:
        if inputs.layer.upper is not None:
            score_children_triton(inputs, work)
        select_runs_triton(inputs, work)
        attend_runs_triton(inputs, work)
    combine_splits_triton(work)


def run_references(inputs: DecodeInputs, work: Workspace) -> None:
    score_centroids_and_attend_dense_reference(inputs, work)
    if work.sizes.retrieval and work.sizes.num_clusters:
        if inputs.layer.upper is not None:
            score_children_reference(inputs, work)
        select_runs_reference(inputs, work)
        attend_runs_reference(inputs, work)
    combine_splits_reference(work)


def rows_in_use(work: Workspace) -> Tensor:
    """Rows of a tile that are a head of a question, not padding."""
    s = work.sizes
    rows = torch.arange(s.rows, device=work.out.device)
    return rows[(rows // s.group_pad < s.batch) & (rows % s.group_pad < s.group)]


@pytest.mark.parametrize(("case", "dtype"), RUNS)
def test_the_kernels_attend_as_the_definition_does(
    case: Case, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = case.inputs(dtype)
    expected = decode_attention_reference(inputs)
    with guarded_buffers(monkeypatch):
        work = workspace_for(inputs)
        run_kernels(inputs, work)
    tolerance = TOLERANCE[dtype]
    assert_close(work.out, expected.out, rtol=tolerance, atol=tolerance)
    assert_close(work.lse, expected.lse, rtol=1e-4, atol=1e-4)
    assert torch.equal(work.read_counts, expected.read_counts)


@pytest.mark.parametrize("case", [CASES[1], CASES[7], CASES[10], CASES[12], CASES[15], *WINDOWED])
def test_the_references_of_the_kernels_attend_as_the_definition_does(case: Case) -> None:
    inputs = case.inputs(torch.float32)
    work = workspace_for(inputs)
    run_references(inputs, work)
    expected = decode_attention_reference(inputs)
    assert_close(work.out, expected.out, rtol=1e-4, atol=1e-5)
    assert_close(work.lse, expected.lse, rtol=1e-4, atol=1e-4)
    assert torch.equal(work.read_counts, expected.read_counts)


@pytest.mark.parametrize("run", [run_kernels, run_references])
@pytest.mark.parametrize("case", [CASES[4], CASES[6], CASES[7], CASES[9], CASES[16]])
def test_scores_of_attended_tokens_are_kept_on_demand(
    case: Case, run: Callable[[DecodeInputs, Workspace], None]
) -> None:
    inputs = case.inputs(torch.float32)
    work = workspace_for(inputs, keep_token_scores=True)
    work.token_scores.fill_(torch.nan)
    run(inputs, work)
    s = work.sizes
    scores = raw_scores(inputs.query, inputs.layer.keys[:, s.num_anchors :], s, inputs.scoring)
    expected = scores[..., : s.group].mT.clone()
    for head, count in enumerate(work.num_segments.tolist()):
        attended = torch.zeros(s.num_keys, dtype=torch.bool)
        for segment in work.segments[head, :count].tolist():
            attended[segment >> 5 : (segment >> 5) + (segment & 31)] = True
        expected[head, :, ~attended] = torch.nan
    assert_close(work.token_scores, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("upper", [0, 6])
def test_each_kernel_leaves_behind_what_its_reference_does(upper: int) -> None:
    inputs = Case(group=2, lengths=(7, 1, 20), upper=upper).inputs(torch.float32)
    ours, theirs = workspace_for(inputs), workspace_for(inputs)
    run_kernels(inputs, ours)
    run_references(inputs, theirs)
    dense = [work.dense_lse.logsumexp(2) for work in (ours, theirs)]
    denominators = [work.centroid_lse.logsumexp(1)[:, rows_in_use(work)] for work in (ours, theirs)]
    scores = [work.centroid_scores[:, :, rows_in_use(work)] for work in (ours, theirs)]
    for found, expected in (dense, denominators, scores):
        assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(ours.num_segments, theirs.num_segments)
    for head, count in enumerate(ours.num_segments.tolist()):
        assert torch.equal(ours.segments[head, :count], theirs.segments[head, :count])
        assert torch.equal(ours.question_masks[head, :count], theirs.question_masks[head, :count])


def test_the_same_step_gives_the_same_bits() -> None:
    inputs = Case(upper=6, lengths=(7, 2)).inputs(DTYPES[-1])
    work = workspace_for(inputs)
    run_kernels(inputs, work)
    first = work.out.clone()
    run_kernels(inputs, work)
    assert torch.equal(work.out, first)
    assert torch.equal(work.read_counts, 2 * decode_attention_reference(inputs).read_counts)


@pytest.mark.parametrize("programs", [1, 40])
def test_the_division_of_segments_does_not_matter(programs: int) -> None:
    inputs = Case().inputs(torch.float32)
    tuning = replace(SMALL, attend_programs=programs, segment_size=16)
    one, other = workspace_for(inputs), workspace_for(inputs, tuning)
    run_kernels(inputs, one)
    run_kernels(inputs, other)
    assert_close(one.out, other.out, rtol=1e-5, atol=1e-5)


def test_a_step_sees_what_the_question_has_become() -> None:
    inputs = Case(lengths=(7,)).inputs(torch.float32)
    work = workspace_for(inputs)
    run_kernels(inputs, work)
    before = work.out.clone()
    inputs.question.keys[:, :, 7], inputs.question.values[:, :, 7] = 0.5, 2.0
    inputs.question.lengths.fill_(8)
    run_kernels(inputs, work)
    assert_close(work.out, decode_attention_reference(inputs).out, rtol=2e-5, atol=2e-5)
    assert not torch.allclose(work.out, before, atol=1e-3)


@pytest.mark.skipif(DEVICE != "cuda", reason="captures a CUDA graph")
def test_a_captured_step_sees_what_the_question_has_become() -> None:
    inputs = Case(upper=6, lengths=(7, 2)).inputs(torch.bfloat16)
    work = workspace_for(inputs)
    step = partial(decode_attention, inputs, work)
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    inputs.question.keys[:, :, 2:], inputs.question.values[:, :, 2:] = 0.5, 2.0
    inputs.question.lengths.fill_(8)
    inputs.query.mul_(-1)
    graph.replay()
    expected = decode_attention_reference(inputs)
    assert_close(work.out, expected.out, rtol=3e-2, atol=3e-2)
    assert_close(work.lse, expected.lse, rtol=1e-3, atol=1e-3)


def test_the_definition_is_full_attention_where_everything_is_selected() -> None:
    inputs = Case(level2=-1e9, streaming=0, retrieval=3, lengths=(7, 3)).inputs(torch.float32)
    layer, own = inputs.layer, inputs.question
    found = decode_attention_reference(inputs)
    for question, length in enumerate((7, 3)):
        keys = torch.cat((layer.keys, own.keys[question, :, :length]), 1)
        values = torch.cat((layer.values, own.values[question, :, :length]), 1)
        rows = inputs.query[question].view(3, 4, -1)
        out, lse = naive.attention(rows, keys, values, inputs.scoring.scale)
        assert_close(found.out[question].double(), out.flatten(0, 1), rtol=1e-5, atol=1e-5)
        assert_close(found.lse[question].double(), lse.flatten(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", WINDOWED)
def test_the_definition_shows_what_lies_within_the_window(case: Case) -> None:
    inputs = case.inputs(torch.float32)
    layer, own = inputs.layer, inputs.question
    found = decode_attention_reference(inputs)
    for question, length in enumerate(case.lengths):
        keys = torch.cat((layer.keys, own.keys[question, :, :length]), 1)
        values = torch.cat((layer.values, own.values[question, :, :length]), 1)
        behind = torch.arange(keys.shape[1], 0, -1, device=DEVICE) - 1  # places behind the token
        is_seen = behind < layer.window
        rows = inputs.query[question].view(case.retrieval, case.group, -1)
        scoring = inputs.scoring
        out, lse = naive.attention(
            rows, keys[:, is_seen], values[:, is_seen], scoring.scale, scoring.softcap
        )
        assert_close(found.out[question].double(), out.flatten(0, 1), rtol=1e-5, atol=1e-5)
        assert_close(found.lse[question].double(), lse.flatten(), rtol=1e-5, atol=1e-5)


def test_the_operation_fills_the_workspace() -> None:
    inputs = Case(upper=6).inputs(DTYPES[0])
    work, expected = workspace_for(inputs), decode_attention_reference(inputs)
    out = decode_attention(inputs, work)
    assert out is work.out
    assert_close(out, expected.out, rtol=TOLERANCE[DTYPES[0]], atol=TOLERANCE[DTYPES[0]])
    assert torch.equal(work.read_counts, expected.read_counts)


@pytest.mark.parametrize(
    ("upper", "change"),
    [
        (0, {"min_split_clusters": 16, "max_score_programs": 1000}),  # one tile a split
        (0, {"dense_split_keys": 128, "combine_block": 2, "combine_warps": 8}),  # several steps
        (30, {"min_split_clusters": 16, "max_score_programs": 5, "child_block": 32}),
        (30, {"score_block": 64, "child_block": 64, "child_span": 256, "child_warps": 1}),
    ],
)
def test_tiles_do_not_matter(upper: int, change: dict[str, int]) -> None:
    inputs = Case(upper=upper, clusters=211, anchors=70, lengths=(80,)).inputs(torch.float32)
    work = workspace_for(inputs, replace(SMALL, **change))
    run_kernels(inputs, work)
    expected = decode_attention_reference(inputs)
    assert_close(work.out, expected.out, rtol=2e-5, atol=2e-5)
    assert_close(work.lse, expected.lse, rtol=1e-4, atol=1e-4)
    assert torch.equal(work.read_counts, expected.read_counts)


@pytest.mark.parametrize("upper", [0, 30])
@pytest.mark.parametrize("programs", [1, 5, 1000])
def test_no_more_programs_score_centroids_than_are_wanted(upper: int, programs: int) -> None:
    inputs = Case(upper=upper, clusters=211).inputs(torch.float32)
    tuning = replace(SMALL, min_split_clusters=16, max_score_programs=programs)
    work = workspace_for(inputs, tuning)
    lse = work.upper_lse if upper else work.centroid_lse
    assert lse.shape[0] * lse.shape[1] <= max(programs, work.sizes.retrieval)
    assert lse.shape[1] * work.split_clusters >= (upper or 211)


@pytest.mark.parametrize("batch", [1, 4, 16])
@pytest.mark.parametrize("upper_share", [0.0, 0.005])
@pytest.mark.parametrize("streaming", [0, 4, 8])
@pytest.mark.parametrize("num_keys", [4096, 131_072, 524_288])
def test_programs_of_the_default_tuning_all_fit_a_gpu_at_once(
    num_keys: int, streaming: int, upper_share: float, batch: int
) -> None:
    retrieval = 8 - streaming
    sizes = StepSizes(
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
    lse = work.upper_lse if sizes.num_upper else work.centroid_lse
    assert lse.shape[1] * work.split_clusters >= (sizes.num_upper or sizes.num_clusters)
    assert lse.shape[0] * lse.shape[1] <= work.tuning.max_score_programs
    assert work.segment_counts.shape[1] * work.chunk_clusters >= sizes.num_clusters
    if batch == 1:
        assert work.segment_counts.shape[1] <= min(128, 512 // max(1, retrieval))
        child_programs = work.centroid_lse.shape[1] // 2 * retrieval if sizes.num_upper else 0
        assert child_programs * work.tuning.child_warps <= 132 * MOST_WARPS


def test_widths_and_sizes_that_have_no_kernel() -> None:
    sizes = workspace_for(Case().inputs(torch.float32)).sizes
    assert supports(sizes)
    assert all(supports(replace(sizes, head_dim=dim)) for dim in (16, 80, 96, 112, 192, 256))
    assert not any(supports(replace(sizes, head_dim=dim)) for dim in (8, 24, 272, 512))
    assert not supports(replace(sizes, batch=17))
    assert not supports(replace(sizes, num_keys=1 << 26))


def test_a_layer_with_a_window_has_anchors_alone() -> None:
    for case in (Case(), Case(streaming=0), windowed(0, anchors=3)):
        inputs = case.inputs(torch.float32)
        inputs = replace(inputs, layer=replace(inputs.layer, window=case.window or 0))
        with pytest.raises(ShapeError, match="more than anchors"):
            decode_attention(inputs, workspace_for(inputs))


def test_heads_and_workspaces_that_do_not_fit_are_refused() -> None:
    inputs = Case().inputs(torch.float32)
    work, layer = workspace_for(inputs), inputs.layer
    with pytest.raises(ShapeError, match="streaming heads"):
        decode_attention(replace(inputs, layer=replace(layer, streaming=None)), work)
    with pytest.raises(ShapeError, match="cannot begin with 500 anchors"):
        decode_attention(replace(inputs, layer=replace(layer, num_anchors=500)), work)
    for other in (Case(group=2), Case(tokens=210), Case(lengths=(8,)), Case(upper=6)):
        with pytest.raises(ShapeError, match="do not fit a workspace"):
            decode_attention(other.inputs(torch.float32), work)
    with pytest.raises(ShapeError, match="for a workspace in"):
        decode_attention(Case().inputs(torch.float16), work)
