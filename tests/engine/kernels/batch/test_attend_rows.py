"""`attend_rows` against its definition, for rows of any mixture of documents."""

from dataclasses import replace

import pytest
import torch

from engine.kernels.batch.accumulate_rows_mass import accumulate_rows_mass_reference
from engine.kernels.batch.attend_rows import attend_rows_reference
from engine.kernels.batch.triton.accumulate_rows_mass import accumulate_rows_mass_triton
from engine.kernels.batch.triton.launch import attend_rows_triton
from tests.engine.kernels.batch_case import SMALL, Ask, BatchCase, Document
from tests.engine.kernels.harness import COMPILED, DTYPES, TOLERANCE, guarded_buffers

ODD = (
    Document(),
    Document(tokens=1, clusters=1, anchors=3),
    Document(tokens=70, clusters=11, anchors=0, streaming_keys=1),
    Document(tokens=0, clusters=0, anchors=5),
)
MIXED = (
    Ask(0, num_keys=7), Ask(2, num_keys=70), Ask(0, num_keys=1, threshold=-5.2),
    Ask(1, num_keys=130), Ask(0, num_keys=64, reads_all=True), Ask(3, num_keys=65),
    Ask(0, num_keys=33, threshold=-6.5),
)  # fmt: skip
CASES = {
    "one row": BatchCase((Document(),), (Ask(0),), group_rows=1),
    "single that reads all": BatchCase((Document(),), (Ask(0, reads_all=True),), group_rows=1),
    "rows alone": BatchCase(ODD, MIXED, group_rows=1),
    "mixed": BatchCase(ODD, MIXED),
    "more than a group": BatchCase((Document(),), (Ask(0),) * 3 + (Ask(0, 9, -5.0),) * 2,
                                   group_rows=2),
    "nothing selected": BatchCase((Document(),), (Ask(0, threshold=9.0), Ask(0)), group_rows=2),
    "mha": BatchCase(ODD, MIXED, group=1, retrieval=3, streaming=0),
    "group of 2": BatchCase(ODD, MIXED, group=2, head_dim=48),
    "group of 7": BatchCase(ODD[:2], MIXED[:1] + MIXED[2:4], group=7),
    "group of 8": BatchCase(ODD[:2], MIXED[:1] + MIXED[2:4], group=8, softcap=5.0),
    "all streaming": BatchCase((Document(),) * 2, (Ask(0), Ask(1)), retrieval=0, streaming=2,
                               group_rows=1),
    "largest counts": BatchCase(ODD, MIXED, aggregation="max"),
    "sinks": BatchCase(ODD, MIXED, has_sinks=True),
    "window": BatchCase(
        (Document(0, 0, 40), Document(0, 0, 12)), (Ask(0, 7), Ask(1, 100), Ask(0, 65)),
        streaming=0, window=30, has_sinks=True, group_rows=1,
    ),
    "more chunks than programs": BatchCase(
        (Document(),), (Ask(0), Ask(0, 9, -5.0)), retrieval=1, group_rows=2,
        tuning=replace(SMALL, select_scores=32, select_programs=2),
    ),
    "whole": BatchCase(
        (Document(tokens=40, clusters=7),),
        (
            *(Ask(0, threshold=-12.0 - i) for i in range(5)),
            Ask(0, 65, -5.0),
            Ask(0, reads_all=True),
        ),
        group_rows=8, retrieval=1,
    ),
}  # fmt: skip


# Interpreted, a case takes seconds: those that take every path are enough, and one in fp16.
INTERPRETED = (
    "one row", "mixed", "more than a group", "group of 7", "all streaming", "window",
    "more chunks than programs", "whole",
)  # fmt: skip
RUNS = (
    [(name, dtype) for name in CASES for dtype in DTYPES]
    if COMPILED
    else [(name, DTYPES[0]) for name in INTERPRETED] + [("mixed", DTYPES[1])]
)


@pytest.mark.parametrize(("name", "dtype"), RUNS)
def test_rows_get_what_the_definition_gives(name, dtype, monkeypatch):
    case = CASES[name]
    inputs = case.inputs(dtype)
    expected = attend_rows_reference(inputs)
    with guarded_buffers(monkeypatch):
        work = case.workspace(inputs)
        attend_rows_triton(inputs, work)
    rows, tolerance = len(case.asks), TOLERANCE[dtype]
    assert torch.equal(work.read_bytes, expected.read_bytes)
    torch.testing.assert_close(
        work.out[:rows].float(), expected.out[:rows].float(), rtol=tolerance, atol=tolerance
    )
    torch.testing.assert_close(work.lse[:rows], expected.lse[:rows], rtol=tolerance, atol=tolerance)
    assert (work.out[rows:] == 0).all()
    if case.retrieval and case.window is None:
        _check_mass(inputs, work, tolerance)


def _check_mass(inputs, work, tolerance):
    accumulate_rows_mass_triton(inputs, work)
    found = [row.mass.clone() for row in inputs.tables.plan]
    for row in inputs.tables.plan:
        row.mass.zero_()
    accumulate_rows_mass_reference(inputs)
    for mass, row in zip(found, inputs.tables.plan, strict=True):
        assert row.mass.sum() > 0
        # Scores are kept in 16 bits, of which a weight of a thousandth has three digits.
        torch.testing.assert_close(mass, row.mass, rtol=2e-2, atol=max(tolerance, 1e-4))


@pytest.mark.skipif(not COMPILED, reason="interpreted, programs run one after the other")
def test_no_chunk_waits_for_a_program_that_cannot_start():
    tuning = replace(SMALL, select_scores=8, select_programs=5000)  # no GPU runs so many at a time
    case = BatchCase(
        (Document(tokens=24_000, clusters=6000),), (Ask(0), Ask(0, 9, -5.0)), group_rows=2,
        tuning=tuning,
    )  # fmt: skip
    inputs = case.inputs(DTYPES[0])
    expected = attend_rows_reference(inputs)
    work = case.workspace(inputs)
    assert work.chunk_clusters * tuning.select_programs < 6000 * case.retrieval
    attend_rows_triton(inputs, work)
    torch.cuda.synchronize()
    assert torch.equal(work.read_bytes, expected.read_bytes)


def test_a_crowd_reads_whole_heads():
    case = CASES["whole"]
    inputs = case.inputs(DTYPES[0])
    work = case.workspace(inputs)
    attend_rows_triton(inputs, work)
    pairs = work.num_segments[: case.retrieval * 2]
    assert (pairs[: case.retrieval] < 0).any()  # the group that asks about document 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of overflows, which are meant here
def test_sums_far_from_what_the_lookup_expected_are_computed_with_a_running_maximum():
    case = replace(CASES["whole"], sharpness=150.0)
    inputs = case.inputs(torch.float32)
    expected = attend_rows_reference(inputs)
    work = case.workspace(inputs)
    attend_rows_triton(inputs, work)
    rows, heads = len(case.asks), case.retrieval * case.group
    apart = (expected.lse - work.lookup_lse)[:rows, :heads].abs()
    assert (apart > 70).any(), "so that exponentials relative to it would leave fp32"
    torch.testing.assert_close(work.lse[:rows], expected.lse[:rows], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(work.out[:rows], expected.out[:rows], rtol=1e-3, atol=1e-3)


def test_a_row_selects_the_same_alone_and_in_a_crowd():
    case = CASES["mixed" if COMPILED else "whole"]
    inputs = case.inputs(DTYPES[0])
    work = case.workspace(inputs)
    attend_rows_triton(inputs, work)
    for place, row in list(enumerate(inputs.tables.plan))[:: 1 if COMPILED else 3]:
        alone = replace(inputs, query=inputs.query.clone())
        alone.query[0] = inputs.query[place]
        alone.tables.write([row], inputs.documents)
        single = case.workspace(inputs)
        attend_rows_triton(alone, single)
        assert single.read_bytes[0] == work.read_bytes[place]
        tolerance = TOLERANCE[DTYPES[0]]
        torch.testing.assert_close(single.out[0], work.out[place], rtol=tolerance, atol=tolerance)
