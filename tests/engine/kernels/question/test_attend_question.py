"""`attend_question` in Triton against its definition, for documents of awkward sizes."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.batch.tables import DocumentTable
from engine.kernels.batch.workspace import Buffers
from engine.kernels.decode.inputs import ResidentLayer, Scoring, StreamingKeys
from engine.kernels.prefill.triton.attend_tokens.tiles import AttendTiles
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles
from engine.kernels.question.attend_question import attend_question, attend_question_reference
from engine.kernels.question.inputs import QuestionInputs
from engine.kernels.question.sizes import QuestionSizes
from engine.kernels.question.tables import ALL_TOKENS, AskedQuestion, QuestionTable
from engine.kernels.question.triton.buffers import allocate_kernel_buffers
from engine.kernels.question.triton.launch import attend_question_triton
from engine.kernels.question.triton.tuning import QuestionTuning
from engine.kernels.question.workspace import QuestionWorkspace, allocate_question
from tests.engine.kernels.decode_case import DROPPED, runs
from tests.engine.kernels.harness import COMPILED, DEVICE, DTYPES, TOLERANCE, surrounded
from tests.engine.naive import normal

LAYER, SLOT = 1, 1  # of two each; all other records are zeros
SELECT = SelectTiles(rows=16, clusters=16, programs=18, warps=4, stages=2)
ATTEND = AttendTiles(
    rows=16, tokens=16, splits=3, warps=4, stages=2, combine_rows=4, combine_splits=2,
    combine_columns=16,
)  # fmt: skip
# Small tiles, so that small inputs are cut into many; questions of several tiles, and of one.
RUNNING = QuestionTuning(SELECT, SELECT, ATTEND, mass_programs=5)
FIXED = QuestionTuning(
    replace(SELECT, fixed_maximum=True),
    replace(SELECT, rows=64),
    replace(ATTEND, fixed_maximum=True),
    mass_programs=5,
)


@dataclass(frozen=True)
class Case:
    """A question of `tokens` in a graph of `size`, and its document."""

    tokens: int = 5
    size: int = 8
    wanted: int = 60
    retrieval: int = 2
    streaming: int = 1
    group: int = 2
    head_dim: int = 16
    clustered: int = 101
    clusters: int = 19
    anchors: int = 9
    streaming_keys: int = 21
    softcap: float | None = None
    aggregation: str = "max_group_mean"
    window: int | None = None
    has_sinks: bool = False
    has_mass: bool = True
    earlier: int = 0
    tuning: QuestionTuning = RUNNING

    @property
    def kv_heads(self) -> int:
        return self.retrieval + self.streaming

    @property
    def sizes(self) -> QuestionSizes:
        """Of the graph, whose documents may be longer."""
        heads = self.kv_heads * self.group
        return QuestionSizes(
            self.size, 2, heads, self.kv_heads, self.head_dim, 50, 300, self.size + 20
        )

    def inputs(self, dtype: torch.dtype) -> QuestionInputs:
        """Draw it; padding is nan."""
        device, heads = torch.device(DEVICE), self.kv_heads * self.group
        documents = DocumentTable(2, 2, device, self.kv_heads)
        layer, num_tokens = self._layer(dtype), self.anchors + self.clustered
        log_weights = torch.linspace(-2.0, 0.5, 2 * self.kv_heads).view(2, -1).to(device)
        places = self._positions(num_tokens)
        documents.put(SLOT, num_tokens, (layer, layer), (places, places), log_weights)
        documents.records[SLOT, 0] = 0
        table = QuestionTable(2, device)
        mass = torch.zeros(num_tokens, device=device) if self.has_mass else None
        wanted = (0, self.wanted)
        table.write(AskedQuestion(SLOT, self.tokens, num_tokens, wanted, mass, self.earlier))
        parts = [self._padded(count, dtype, seed) for seed, count in
                 enumerate((heads, self.kv_heads, self.kv_heads))]  # fmt: skip
        sinks = None
        if self.has_sinks:
            sinks = surrounded((3.0 + normal(heads, dtype=dtype, seed=10)).to(device))
        return QuestionInputs(
            query=parts[0],
            key=parts[1],
            value=parts[2],
            table=table,
            documents=documents,
            layer=LAYER,
            retrieval=self.retrieval,
            scoring=Scoring(1.2 / math.sqrt(self.head_dim), self.softcap, self.aggregation),
            window=self.window,
            sink_logits=sinks,
        )

    def workspace(self, inputs: QuestionInputs) -> QuestionWorkspace:
        """Buffers; nothing of them is read before it is written."""
        dtype, device = inputs.query.dtype, inputs.query.device
        work = allocate_question(self.sizes, dtype, device)
        kernels = allocate_kernel_buffers(self.sizes, dtype, device, Buffers(), self.tuning)
        for buffer in vars(kernels).values():
            if isinstance(buffer, Tensor):
                buffer.fill_(torch.nan if buffer.is_floating_point() else -77)
        work.own.fill_(torch.nan)
        shape = (2, self.kv_heads, self.earlier, self.head_dim)
        work.own[LAYER, :, :, : self.earlier] = normal(*shape, dtype=dtype, seed=31).to(device)
        return replace(work, kernels=kernels)

    def _padded(self, heads: int, dtype: torch.dtype, seed: int) -> Tensor:
        """(heads, size, head_dim), of which tokens lie side by side as a layer leaves them."""
        drawn = normal(self.size, heads, self.head_dim, dtype=dtype, seed=seed).to(DEVICE)
        drawn[self.tokens :] = torch.nan
        return surrounded(drawn).transpose(0, 1)

    def _layer(self, dtype: torch.dtype) -> ResidentLayer:
        heads, num_tokens = self.retrieval, self.anchors + self.clustered
        keys = normal(2, heads, num_tokens, self.head_dim, dtype=dtype, seed=21).to(DEVICE)
        centroids = normal(heads, self.clusters, self.head_dim, dtype=dtype, seed=24).to(DEVICE)
        streaming = None
        if self.streaming:
            shape = (self.streaming, self.streaming_keys)
            log_weights = torch.zeros(shape, device=DEVICE)
            log_weights[:, -1] = math.log(DROPPED)
            kept = normal(2, *shape, self.head_dim, dtype=dtype, seed=28).to(DEVICE)
            streaming = StreamingKeys(*map(surrounded, (kept[0], kept[1], log_weights)))
        return ResidentLayer(
            surrounded(keys[0]),
            surrounded(keys[1]),
            self.anchors,
            surrounded(centroids),
            surrounded(runs(heads, self.clusters, self.clustered, seed=23)),
            None,
            streaming,
            self.window,
        )

    def _positions(self, num_tokens: int) -> Tensor:
        generator = torch.Generator().manual_seed(3)
        orders = [torch.randperm(num_tokens, generator=generator) for _ in range(self.retrieval)]
        places = torch.stack(orders) if orders else torch.zeros(0, num_tokens)
        return surrounded(places.int().to(DEVICE))


CASES = {
    "several tiles": Case(tokens=13, size=16),
    "one tile": Case(tokens=13, size=16, tuning=FIXED),
    "single token": Case(tokens=1, size=16, group=1, streaming=0),
    "full": Case(tokens=16, size=16, group=4, retrieval=1, tuning=FIXED),
    "group of 8": Case(tokens=3, size=4, group=8, aggregation="mean", softcap=5.0),
    "group of 3": Case(tokens=3, size=8, group=3, aggregation="max", head_dim=48, tuning=FIXED),
    "exact": Case(wanted=ALL_TOKENS, has_sinks=True),
    "nothing wanted": Case(wanted=0, has_mass=False, tuning=FIXED),
    "no clusters": Case(clustered=0, clusters=0),
    "one cluster": Case(clustered=1, clusters=1, anchors=0, tuning=FIXED),
    "all streaming": Case(retrieval=0, streaming=2, has_mass=False),
    "later part": Case(tokens=5, earlier=17, tuning=FIXED),
    "later part in a window": Case(3, streaming=0, window=7, clustered=0, clusters=0, anchors=6,
                                   earlier=4),
    "window": Case(13, 16, streaming=0, window=7, clustered=0, clusters=0, anchors=12,
                   has_sinks=True),
}  # fmt: skip
RUNS = (
    [(name, dtype) for name in CASES for dtype in DTYPES]
    if COMPILED
    else [(name, DTYPES[0]) for name in CASES] + [("full", DTYPES[1]), ("window", DTYPES[1])]
)


@pytest.mark.parametrize(("name", "dtype"), RUNS)
def test_a_question_gets_what_the_definition_gives(name: str, dtype: torch.dtype) -> None:
    case, tolerance = CASES[name], TOLERANCE[dtype]
    inputs = case.inputs(dtype)
    work = case.workspace(inputs)
    expected = attend_question_reference(inputs, work.own[LAYER])
    attend_question_triton(inputs, work)
    n, asked = case.tokens, inputs.table.asked
    places = slice(case.earlier, case.earlier + n)
    torch.testing.assert_close(
        work.out[:n].float(), expected.out[:n].float(), rtol=tolerance, atol=tolerance
    )
    assert (work.out[n:] == 0).all()
    for own, given in zip(work.own[LAYER], (inputs.key, inputs.value), strict=True):
        assert torch.equal(own[:, places], given[:, :n])
    assert work.counts[0].sum() == 0
    assert torch.equal(work.counts[LAYER, : case.retrieval], expected.counts)
    assert work.counts[LAYER, case.retrieval :].sum() == 0
    assert asked is not None
    if asked.mass is not None and case.window is None:
        assert expected.mass is not None
        assert asked.mass.sum() > 0
        torch.testing.assert_close(asked.mass, expected.mass, rtol=10 * tolerance, atol=tolerance)
    elif asked.mass is not None:
        assert asked.mass.sum() == 0


def test_budgets_select_some_of_the_tokens() -> None:
    case = CASES["several tiles"]
    inputs = case.inputs(DTYPES[0])
    counts = attend_question_reference(inputs, case.workspace(inputs).own[LAYER]).counts
    assert 0 < counts.sum() < case.retrieval * case.clustered
    case = CASES["exact"]
    inputs = case.inputs(DTYPES[0])
    everything = attend_question_reference(inputs, case.workspace(inputs).own[LAYER]).counts
    assert (everything == case.clustered).all()


@pytest.mark.parametrize("tuning", [RUNNING, FIXED])
def test_a_workspace_is_warmed_up_without_a_question(tuning: QuestionTuning) -> None:
    case = Case(tuning=tuning)
    drawn = case.inputs(DTYPES[0])
    device = drawn.query.device
    inputs = replace(
        drawn, table=QuestionTable(2, device), documents=DocumentTable(1, 2, device, case.kv_heads)
    )
    work = case.workspace(inputs)
    attend_question_triton(inputs, work)
    assert (work.out == 0).all()
    assert (work.counts == 0).all()
    assert (attend_question_reference(inputs, work.own[LAYER]).out == 0).all()


@pytest.mark.skipif(not COMPILED, reason="captures a CUDA graph")
@pytest.mark.parametrize("size", [16, 128])
def test_a_captured_layer_takes_whatever_question_comes(size: int) -> None:
    case, dtype = Case(tokens=size - 3, size=size, head_dim=64), DTYPES[0]
    inputs, tolerance = case.inputs(dtype), TOLERANCE[dtype]
    work = allocate_question(case.sizes, dtype, inputs.query.device)
    attend_question(inputs, work)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        attend_question(inputs, work)
    asked = inputs.table.asked
    assert asked is not None
    assert asked.mass is not None
    for tokens, wanted in ((7, 30), (1, ALL_TOKENS), (size - 3, 90)):
        mass = torch.zeros_like(asked.mass)
        inputs.table.write(replace(asked, num_tokens=tokens, wanted=(0, wanted), mass=mass))
        graph.replay()
        expected = attend_question_reference(inputs, work.own[LAYER])
        assert torch.equal(work.counts[LAYER, : case.retrieval], expected.counts)
        torch.testing.assert_close(work.out, expected.out, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(mass, expected.mass, rtol=10 * tolerance, atol=tolerance)


def test_there_is_room_for_the_keys_of_a_whole_pass() -> None:
    with pytest.raises(ShapeError, match="16 tokens do not fit into 15"):
        replace(Case(size=16).sizes, own_tokens=15)


def test_questions_that_do_not_fit_are_refused() -> None:
    inputs = Case().inputs(DTYPES[0])
    work = Case().workspace(inputs)
    others = (
        replace(inputs, query=inputs.query[:, :4]),
        replace(inputs, key=inputs.key.double()),
        replace(inputs, value=inputs.value.transpose(1, 2).contiguous().transpose(1, 2)),
        replace(inputs, layer=2),
        replace(inputs, window=3),
        replace(inputs, sink_logits=torch.zeros(1, device=DEVICE)),
        replace(inputs, table=QuestionTable(3, inputs.query.device)),
    )
    for other in others:
        with pytest.raises(ShapeError):
            attend_question(other, work)
