"""Passes of many rows by tables: each row computes and reads what plain torch gives it alone."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close
from transformers import LlamaConfig, PretrainedConfig

from engine.config import DecodeConfig
from engine.decode.batch_graph import BatchLayer, few_of_each_kind
from engine.decode.batch_runner import BatchRunner, pass_cost, why_unsupported
from engine.decode.captured_pass import CUT_LAYERS, CapturedPass
from engine.decode.model_variants import compile_layers
from engine.decode.running_answer import RunningAnswer
from engine.decode.torch_runner import TorchRunner
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.fallbacks import Cause, Fallbacks, Part
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel, assemble
from tests.engine.decode.test_torch_runner import logits_of, start
from tests.models import ALIBI, FAMILIES, HALF, byte_tokenizer, loaded, prose, random_model, read

KERNELS = DecodeConfig()


def crowd_of(
    model: LoadedModel, runner: TorchRunner, documents: list[DocumentCache], rows: int
) -> list[RunningAnswer]:
    """Rows about all documents in turn."""
    engine = Engine(model, runner=runner)
    return [start(engine, documents[row % len(documents)], row) for row in range(rows)]


@pytest.mark.parametrize(
    ("config", "plan"),
    [(FAMILIES["llama"], None), (FAMILIES["llama"], HALF), (FAMILIES["gemma2"], None)],
)
def test_rows_get_what_plain_torch_gives_them_alone(
    config: PretrainedConfig, plan: HeadPlan | None
) -> None:
    model = loaded(config, plan=plan)
    documents = [read(model, prose(chars, seed=chars)) for chars in (200, 700, 300)]
    batches, alone = BatchRunner(model, KERNELS, max_rows=8), TorchRunner(model)
    crowd = crowd_of(model, batches, documents, 7)
    wanted = crowd_of(model, alone, documents, 7)
    for step in range(4):
        together = logits_of(batches, crowd, step)
        for row, one in enumerate(wanted):
            assert_close(together[row], logits_of(alone, [one], step)[0], rtol=2e-4, atol=2e-4)
    for found, one in zip(crowd, wanted, strict=True):
        batches.remove(found)
        assert found.state.meter.share() == pytest.approx(one.state.meter.share(), rel=1e-6)
        assert found.state.meter.num_passes == 4
        mine = zip(found.state.keys_and_values(), one.state.keys_and_values(), strict=True)
        for (keys, values), (other_keys, other_values) in mine:
            assert_close(keys, other_keys, rtol=1e-4, atol=1e-4)
            assert_close(values, other_values, rtol=1e-4, atol=1e-4)
        assert found.state.mass is not None
        assert one.state.mass is not None
        assert_close(found.state.mass.on_tokens(), one.state.mass.on_tokens(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("askers", "expected"),
    [
        ([(8, 8_192)], 4),
        ([(8, 131_072)], 8),
        ([(4, 131_072), (4, 131_072)], 4),
        ([(16, 8_192)], 16),
    ],
    ids=["a short document", "a long one", "few askers of each", "a crowd"],
)
def test_rows_are_grouped_as_it_takes_least_time(
    askers: list[tuple[int, int]], expected: int
) -> None:
    sizes = (4, 16) if sum(count for count, _ in askers) > 8 else (4, 8)
    assert min(sizes, key=lambda size: pass_cost(size, askers)) == expected


def test_a_pass_that_was_begun_is_the_one_that_is_asked_for(model: LoadedModel) -> None:
    documents = [read(model, prose(chars, seed=chars)) for chars in (200, 500)]
    batches, alone = BatchRunner(model, KERNELS, max_rows=4), TorchRunner(model)
    crowd, wanted = (crowd_of(model, runner, documents, 3) for runner in (batches, alone))
    for step in range(5):
        if step in (1, 2, 3):
            for row in crowd:
                row.push(40 + step)
            batches.begin_decode(crowd)
            if step == 2:  # its caller went away meanwhile
                batches.remove(crowd.pop(0))
                wanted.pop(0)
            found = batches.decode(crowd).clone()
        else:
            found = logits_of(batches, crowd, step)
        for row, one in enumerate(wanted):
            assert_close(found[row], logits_of(alone, [one], step)[0], rtol=2e-4, atol=2e-4)
    for row, one in zip(crowd, wanted, strict=True):
        batches.remove(row)
        assert row.state.meter.num_passes == one.state.meter.num_passes == 5
        assert row.state.meter.share() == pytest.approx(one.state.meter.share(), rel=1e-6)
        assert row.state.position == one.state.position
    assert len(batches._free_pages) == len(batches._pool[0, 0])


def test_a_pass_that_nobody_asks_for_is_forgotten(model: LoadedModel) -> None:
    document = read(model, prose(300))
    batches, alone = BatchRunner(model, KERNELS, max_rows=2), TorchRunner(model)
    crowd = crowd_of(model, batches, [document], 2)
    logits_of(batches, crowd, 0)
    for row in crowd:
        row.push(41)
    batches.begin_decode(crowd)
    kept = weakref.ref(crowd[0])
    while crowd:
        batches.remove(crowd.pop())
    del row
    gc.collect()
    assert kept() is None
    (later,), (wanted,) = (crowd_of(model, runner, [document], 1) for runner in (batches, alone))
    for step in range(2):
        found = logits_of(batches, [later], step)
        assert_close(found, logits_of(alone, [wanted], step), rtol=2e-4, atol=2e-4)


def test_a_pass_whose_token_turns_out_not_to_come_leaves_nothing(model: LoadedModel) -> None:
    documents = [read(model, prose(chars, seed=chars)) for chars in (200, 500)]
    batches, alone = BatchRunner(model, KERNELS, max_rows=4), TorchRunner(model)
    crowd, wanted = (crowd_of(model, runner, documents, 3) for runner in (batches, alone))
    for step in range(2):
        logits_of(batches, crowd, step)
        for one in wanted:
            logits_of(alone, [one], step)
    for step in (2, 3, 4):  # tokens that the host learns after the launch
        assert batches.can_run_ahead(crowd)
        batches.begin_decode(crowd, torch.full((len(crowd),), 40 + step))
        if step == 4:  # one of the answers ends with the token before
            batches.remove(crowd[0])
        going = crowd if step < 4 else crowd[1:]
        for row in going:
            row.push(40 + step)
        found = batches.decode(going).clone()
        for row, one in zip(found, wanted[len(crowd) - len(going) :], strict=True):
            assert_close(row, logits_of(alone, [one], step)[0], rtol=2e-4, atol=2e-4)
    for row in crowd[1:]:
        batches.remove(row)
    assert [row.state.meter.num_passes for row in crowd] == [4, 5, 5]
    for row, one in zip(crowd, wanted, strict=True):
        assert row.state.meter.share() == pytest.approx(one.state.meter.share(), rel=1e-6)
        assert row.state.position == one.state.position
        assert row.state.mass is not None
        assert one.state.mass is not None
        assert_close(row.state.mass.on_tokens(), one.state.mass.on_tokens(), rtol=1e-3, atol=1e-5)
    assert len(batches._free_pages) == len(batches._pool[0, 0])


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


def test_an_answer_that_finds_no_page_goes_on_without_a_graph(model: LoadedModel) -> None:
    documents = [read(model, prose(300))]
    fallbacks, alone = Fallbacks(), TorchRunner(model)
    batches = BatchRunner(model, KERNELS, max_rows=2, fallbacks=fallbacks)
    del batches._free_pages[1:]
    crowd, wanted = (crowd_of(model, runner, documents, 2) for runner in (batches, alone))
    for step in range(3):
        together = logits_of(batches, crowd, step)
        for row, one in enumerate(wanted):
            assert_close(together[row], logits_of(alone, [one], step)[0], rtol=2e-4, atol=2e-4)
    assert len(batches._held) == 1
    assert fallbacks.counts()[Part.BATCH, Cause.NO_ROOM] == 1


def test_a_document_that_goes_leaves_its_slot(model: LoadedModel) -> None:
    document = read(model, prose(300))
    batches = BatchRunner(model, KERNELS, max_rows=1)
    (row,) = crowd_of(model, batches, [document], 1)
    for step in range(2):
        logits_of(batches, [row], step)
    pages = len(batches._free_pages)
    batches.remove(row)
    assert len(batches._free_pages) > pages
    del row, document
    gc.collect()
    assert batches._documents.free_slot() == 0
    assert batches._slots == {}


@pytest.mark.parametrize("config", [FAMILIES["phi3-longrope"], ALIBI["mpt"]])
def test_models_that_have_no_batches_say_why(config: PretrainedConfig) -> None:
    assert why_unsupported(loaded(config)) is not None
    assert torch.is_inference_mode_enabled() is False


@pytest.mark.parametrize("name", ["llama", "gemma2", "mistral-window"])
def test_the_dummy_question_leaves_nothing(name: str) -> None:
    fallbacks = Fallbacks()
    runner = BatchRunner(loaded(FAMILIES[name]), KERNELS, max_rows=2, fallbacks=fallbacks)
    engine = Engine(runner._model, runner=runner)
    runner.warm_up()
    engine.answer_dummy_question()
    assert len(runner._free_pages) == len(runner._pool[0, 0])
    assert not runner._sessions
    assert not runner._held
    gc.collect()
    assert runner._slots == {}
    assert not any(fallbacks.counts().values())


def test_a_document_is_ready_before_its_first_question(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, runner = read(model, prose(300)), BatchRunner(model, KERNELS, max_rows=2)
    runner.warm_up()
    runner.add_document("key", document)

    def fail(*_: object) -> None:
        raise AssertionError("it was prepared already")

    monkeypatch.setattr("engine.decode.batch_runner.resident_layer", fail)
    monkeypatch.setattr("engine.decode.batch_runner.PassBytes.of", fail)
    (row,) = crowd_of(model, runner, [document], 1)
    assert logits_of(runner, [row], 0).isfinite().all()
    assert logits_of(runner, [row], 1).isfinite().all()
    assert runner._held


# Some builds of torch use a deprecated decorator of their own when they compile for the first time.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
def test_layers_are_compiled_once_for_all_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = LlamaConfig(  # no size of which is a number of rows, which a compiler would tie to it
        hidden_size=384,
        intermediate_size=320,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=128,
        vocab_size=520,
        max_position_embeddings=512,
    )
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    monkeypatch.setattr(
        "engine.decode.graph_pool.compile_layers",
        lambda model, num_layers: compile_layers(model, num_layers, backend),  # type: ignore[arg-type]
    )
    torch.compiler.reset()
    runner = BatchRunner(loaded(config), DecodeConfig(compiled_layers=True), max_rows=4)
    runner.warm_up()
    assert runner._questions is not None
    assert len(graphs) == 6  # angles, four parts of a layer, and the last norm


def test_passes_are_warmed_up_with_a_few_layers_of_each_kind() -> None:
    full = BatchLayer(retrieval=8, window=None, has_sinks=False)
    window = replace(full, window=64)
    # Numbers that are 1, or multiples of 16, and addresses that are, have kernels of their own.
    assert few_of_each_kind([full] * 40) == [0, 1, 2, 3, 4, 5]
    assert few_of_each_kind([full, full, window, full] * 4) == [0, 1, 2, 3, 4, 5]
    assert few_of_each_kind([window] * 9 + [full]) == [0, 1, 2, 3, 4, 5, 9]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="captures CUDA graphs")
def test_a_pass_is_taken_whole_where_a_part_of_it_was_not_enough() -> None:
    captured, taken = CapturedPass(), torch.zeros(1, device="cuda")

    def fail() -> None:
        raise RuntimeError("a kernel is missing")

    captured.capture(lambda: taken.add_(1), None, fail)  # type: ignore[arg-type, return-value]
    assert captured.is_captured
    before = int(taken)
    captured.replay()
    assert int(taken) == before + 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="captures CUDA graphs")
def test_replays_are_the_passes_that_were_captured() -> None:
    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=512,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
        vocab_size=512,
        max_position_embeddings=4096,
    )
    tiny = random_model(config).to("cuda", torch.bfloat16)
    model = assemble(tiny, byte_tokenizer(), name="tiny", fingerprint="tiny")
    documents = [read(model, prose(chars, seed=chars)) for chars in (900, 700)]
    runner = BatchRunner(model, DecodeConfig(compiled_layers=False), max_rows=4)
    rows = crowd_of(model, runner, documents, 3)
    logits_of(runner, rows, 0)
    replayed = logits_of(runner, rows, 1).clone()
    assert runner._chosen is not None
    _, graph = runner._chosen
    assert len(graph._captured._graphs) == 1 + len(CUT_LAYERS)
    with torch.inference_mode():
        graph._take_pass()
    assert_close(graph.logits[: len(rows)], replayed, rtol=0.0, atol=0.0)
