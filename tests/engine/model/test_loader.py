"""Loading a model folder."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from queue import SimpleQueue

import pytest
import torch
from transformers import LlamaConfig, ViTConfig

from common.errors import HeadPlanRejected, UnsupportedModel
from engine.config import ModelConfig
from engine.model.head_plan import HeadPlan, write_plan
from engine.model.loader import load_model
from engine.model.spec import LayerSpec
from tests.models import FAMILIES, byte_tokenizer, loaded, random_model, sizes

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "tiny-llama"
    random_model(FAMILIES["llama"]).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of the saved model that a test may damage."""
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_folder_becomes_the_model_that_was_saved(saved: Path) -> None:
    model = load_model(ModelConfig(str(saved), device="cpu"))
    assert model.name == "tiny-llama"
    assert model.dtype == torch.float32
    assert model.device.type == "cpu"
    assert model.eos_ids == (3,)
    assert not model.model.training
    assert model.spec.context_length == 4096
    layer = LayerSpec(
        num_heads=4, num_kv_heads=2, head_dim=16, scale=0.25, softcap=None, window=None
    )
    assert model.spec.layers == (layer, layer)
    for name, weight in random_model(FAMILIES["llama"]).named_parameters():
        assert torch.equal(weight, model.model.get_parameter(name)), name


def test_something_else_may_be_done_while_weights_are_read(saved: Path) -> None:
    devices: SimpleQueue[torch.device] = SimpleQueue()
    load_model(ModelConfig(str(saved), device="cpu"), meanwhile=devices.put)
    assert devices.get(timeout=10) == torch.device("cpu")


def test_what_a_layer_asks_for_is_found_by_asking() -> None:
    full, windowed = (loaded(FAMILIES["gemma2"]).spec.layers[index] for index in (1, 0))
    assert asdict(full) == {
        "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "scale": 0.25, "softcap": 50.0,
        "window": None, "alibi": None, "has_sink_logits": False,
    }  # fmt: skip
    assert windowed.window == 96
    assert [layer.num_kv_heads for layer in loaded(FAMILIES["llama-gqa4"]).spec.layers] == [1, 1]


def test_the_fingerprint_follows_weights_tokenizer_and_dtype(folder: Path) -> None:
    first = load_model(ModelConfig(str(folder), device="cpu")).fingerprint
    assert load_model(ModelConfig(str(folder), device="cpu")).fingerprint == first
    found = {
        first,
        load_model(ModelConfig(str(folder), device="cpu", dtype="bfloat16")).fingerprint,
    }
    for name in ("tokenizer_config.json", "chat_template.jinja", "config.json"):
        file = folder / name
        file.write_text(file.read_text() + " \n")
        found.add(load_model(ModelConfig(str(folder), device="cpu")).fingerprint)
    random_model(FAMILIES["llama"], seed=1).save_pretrained(folder)
    found.add(load_model(ModelConfig(str(folder), device="cpu")).fingerprint)
    assert len(found) == 6


def test_generation_settings_do_not_touch_the_fingerprint(folder: Path) -> None:
    first = load_model(ModelConfig(str(folder), device="cpu")).fingerprint
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text()) | {"repetition_penalty": 1.5, "eos_token_id": [3, 7]}
    file.write_text(json.dumps(settings))
    model = load_model(ModelConfig(str(folder), device="cpu"))
    assert model.fingerprint == first
    assert model.generation.repetition_penalty == 1.5
    assert model.eos_ids == (3, 7)


def without_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def with_broken_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def of_unknown_kind(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "nonsense"}')


def of_images(folder: Path) -> None:
    config = ViTConfig(max_position_embeddings=64)
    (folder / "config.json").write_text(json.dumps(config.to_dict()))


def without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def with_cut_weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])


def without_tokenizer(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        without_config,
        with_broken_config,
        of_unknown_kind,
        of_images,
        without_weights,
        with_cut_weights,
        without_tokenizer,
    ],
)
def test_a_folder_that_holds_no_model_is_refused_in_a_sentence(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    damage(folder)
    with pytest.raises(UnsupportedModel, match=r"cannot be loaded as a model: .+") as caught:
        load_model(ModelConfig(str(folder), device="cpu"))
    assert str(folder) in caught.value.message


def test_an_unsupported_model_is_refused_before_its_weights_are_read(folder: Path) -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    config = LlamaConfig(**sizes(rope_parameters=rope))
    config.architectures = ["LlamaForCausalLM"]
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    without_weights(folder)
    with pytest.raises(UnsupportedModel, match="dynamic"):
        load_model(ModelConfig(str(folder), device="cpu"))


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("config.json", {"AutoConfig": "theirs.Config", "AutoModelForCausalLM": "theirs.Model"}),
        ("tokenizer_config.json", {"AutoTokenizer": [None, "theirs.Tokenizer"]}),
    ],
)
def test_code_of_a_models_folder_is_never_run(
    folder: Path, tmp_path: Path, file: str, names: dict[str, object]
) -> None:
    (folder / "theirs.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    described = json.loads((folder / file).read_text()) | {"auto_map": names}
    (folder / file).write_text(json.dumps(described))
    load_model(ModelConfig(str(folder), device="cpu"))
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("dtype", ["int8", "nonsense"])
def test_a_dtype_that_no_model_runs_in_is_refused(saved: Path, dtype: str) -> None:
    with pytest.raises(UnsupportedModel, match=dtype):
        load_model(ModelConfig(str(saved), device="cpu", dtype=dtype))


def test_a_gpu_that_is_not_there_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnsupportedModel, match="GPU"):
        load_model(ModelConfig(str(saved), device="cuda"))
    assert load_model(ModelConfig(str(saved), device="auto")).device.type == "cpu"


def test_a_name_that_is_neither_folder_nor_repository_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="There is no folder"):
        load_model(ModelConfig("/nowhere/at all", device="cpu"))


PLAN = HeadPlan("file", ((False, True), (True, False)))


@pytest.fixture
def planned(folder: Path) -> Path:
    """A model's folder that holds a plan."""
    write_plan(PLAN, folder / "head_plan.json")
    return folder


def test_a_plan_in_the_models_folder_is_its_default(saved: Path, planned: Path) -> None:
    assert load_model(ModelConfig(str(planned), device="cpu")).plan == PLAN
    assert load_model(ModelConfig(str(planned), device="cpu", heads="all")).plan.ratio == 1.0
    assert load_model(ModelConfig(str(saved), device="cpu")).plan.ratio == 1.0


def test_a_plan_may_lie_anywhere(saved: Path, tmp_path: Path) -> None:
    write_plan(PLAN, tmp_path / "mine.json")
    assert (
        load_model(ModelConfig(str(saved), device="cpu", heads=str(tmp_path / "mine.json"))).plan
        == PLAN
    )


def test_a_plan_does_not_touch_the_models_fingerprint(planned: Path) -> None:
    one, two = (
        load_model(ModelConfig(str(planned), device="cpu", heads=how)) for how in ("all", "default")
    )
    assert one.fingerprint == two.fingerprint


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (replace(PLAN, retrieval=((True, False),)), "1 layers"),
        (replace(PLAN, retrieval=((True,), (False,))), "1 KV heads"),
        (replace(PLAN, model="another"), "other weights"),
    ],
)
def test_another_models_plan_is_refused(planned: Path, plan: HeadPlan, reason: str) -> None:
    write_plan(plan, planned / "head_plan.json")
    with pytest.raises(HeadPlanRejected, match=reason):
        load_model(ModelConfig(str(planned), device="cpu"))


def test_a_plan_for_these_weights_is_taken_in_any_dtype(planned: Path) -> None:
    weights = load_model(ModelConfig(str(planned), device="cpu", heads="all")).weights
    write_plan(replace(PLAN, model=weights), planned / "head_plan.json")
    assert (
        load_model(ModelConfig(str(planned), device="cpu", dtype="bfloat16")).plan.model == weights
    )


def test_a_plan_that_is_not_there_is_refused(saved: Path) -> None:
    with pytest.raises(HeadPlanRejected, match="nonsense"):
        load_model(ModelConfig(str(saved), device="cpu", heads="nonsense"))
