"""Quantised checkpoints answer as transformers' own generate does, or say what they lack."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig
from transformers.models.auto import AutoModelForCausalLM

from common.errors import UnsupportedModel
from engine.config import ModelConfig
from engine.decode.model_variants import TritonLinear, with_triton_linears
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT
from engine.model import loader, quantisation
from engine.model.finite import check_weights
from engine.model.head_plan import HeadPlan, write_plan
from engine.model.loader import load_model
from engine.model.quantisation import FP8_CAPABILITY, is_plain_linear
from tests.engine.model import checkpoints
from tests.models import answer, prose, read

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own
QUESTION = "Who keeps the lamps?"
ON_CPU: dict[str, Callable[[Path], None]] = {
    "plain": checkpoints.save_plain,
    "bitsandbytes-4": checkpoints.save_bnb4,
    "bitsandbytes-8": checkpoints.save_bnb8,
    "torchao": checkpoints.save_torchao,
    "fp8": checkpoints.save_fp8,
    "compressed-tensors": checkpoints.save_compressed_tensors,
    "mxfp4": checkpoints.save_mxfp4,
}
ON_GPU: dict[str, Callable[[Path], None]] = {
    "awq": checkpoints.save_awq,
    "gptq": checkpoints.save_gptq,
    "fp8": checkpoints.save_fp8,
    "bitsandbytes-4": checkpoints.save_bnb4,
    "torchao": checkpoints.save_torchao,
}
# Half of the heads stream, in another order than theirs; their windows cover these documents.
PLAN = HeadPlan("file", ((False, True), (False, True)), num_sinks=4, window=2048)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def save(kind: str) -> Path:
        folder = tmp_path_factory.mktemp("checkpoints") / kind
        {**ON_GPU, **ON_CPU}[kind](folder)
        return folder

    return save


def generated(folder: Path, ids: torch.Tensor, device: str, dtype: torch.dtype) -> list[int]:
    """Transformers' own greedy tokens."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", device_map={"": device}
    )
    ids = ids.to(device)[None]
    with torch.inference_mode():
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
        )
    found: list[int] = out[0, ids.shape[1] :].tolist()
    return found


def check(folder: Path, plan: HeadPlan | None, device: str, dtype: str) -> None:
    """Read, ask, and compare."""
    heads = "all"
    if plan is not None:
        heads = str(folder / "plan.json")
        write_plan(plan, Path(heads))
    model = load_model(ModelConfig(str(folder), device=device, dtype=dtype, heads=heads))
    document = read(model, prose(300))
    *_, found = answer(model, document, QUESTION, budget=EXACT, sampling=Sampling(max_tokens=12))
    ids = torch.cat((document.ids, model.prompt.encode_question(QUESTION)))
    tokens = generated(folder, ids, device, getattr(torch, dtype))
    assert found.text == model.tokenizer.decode(tokens, skip_special_tokens=True) != ""


@pytest.mark.parametrize("plan", [None, PLAN])
@pytest.mark.parametrize("kind", ON_CPU)
def test_answers_are_those_of_transformers(
    saved: Callable[[str], Path], kind: str, plan: HeadPlan | None
) -> None:
    checkpoints.needs("accelerate")
    has_fp8 = torch.cuda.is_available() and torch.cuda.get_device_capability() >= FP8_CAPABILITY
    if kind == "fp8" and has_fp8:
        pytest.skip("transformers widens FP8 only where no GPU has it")
    check(saved(kind), plan, "cpu", "float32")


@pytest.mark.parametrize("plan", [None, PLAN])
@pytest.mark.parametrize("kind", ["awq", "gptq"])
def test_answers_of_awq_and_gptq_are_those_of_transformers(
    saved: Callable[[str], Path], kind: str, plan: HeadPlan | None
) -> None:
    for package in ("gptqmodel", *(("optimum", "torchvision") if kind == "gptq" else ())):
        pytest.importorskip(package)
    check(saved(kind), plan, "cpu", "float32")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("plan", [None, PLAN])
@pytest.mark.parametrize("kind", ON_GPU)
def test_answers_on_a_gpu_are_those_of_transformers(
    saved: Callable[[str], Path], kind: str, plan: HeadPlan | None
) -> None:
    if kind in ("awq", "gptq"):  # its releases ask for later versions of torch and transformers
        pytest.importorskip("gptqmodel")
    if kind == "fp8" and torch.cuda.get_device_capability() >= FP8_CAPABILITY:
        pytest.importorskip("kernels")
    check(saved(kind), plan, "cuda", "float16")


@pytest.mark.parametrize("kind", [kind for kind in ON_CPU if kind not in ("plain", "fp8", "mxfp4")])
def test_quantised_layers_are_left_to_their_library(
    saved: Callable[[str], Path], kind: str
) -> None:
    model = load_model(ModelConfig(str(saved(kind)), device="cpu")).model
    layer = model.get_submodule("model.layers.0.self_attn.q_proj")
    assert not is_plain_linear(layer)
    variant = with_triton_linears(model).get_submodule("model.layers.0.self_attn.q_proj")
    assert not isinstance(variant, TritonLinear)


@pytest.mark.parametrize("kind", ["bitsandbytes-4", "bitsandbytes-8", "torchao"])
def test_infinite_scales_of_packed_weights_are_seen(
    saved: Callable[[str], Path], kind: str
) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(saved(kind), device_map={"": "cpu"})
    check_weights(model)
    weight = model.get_parameter("model.layers.1.mlp.up_proj.weight")
    scales = [one for one in quantisation.held_tensors(weight) if one.is_floating_point()]
    assert scales
    scales[0].view(-1)[3] = torch.inf
    with pytest.raises(UnsupportedModel, match=r"layers\.1\.mlp\.up_proj.*infinite"):
        check_weights(model)


@pytest.mark.parametrize(
    ("kind", "packages"),
    [
        ("awq", "gptqmodel accelerate"),
        ("gptq", "gptqmodel optimum"),
        ("fp8", "accelerate"),
        ("bitsandbytes", "bitsandbytes accelerate"),
        ("torchao", "torchao"),
        ("compressed-tensors", "compressed-tensors"),
        ("mxfp4", "accelerate"),
    ],
)
def test_a_missing_library_is_named_in_a_sentence(
    saved: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    packages: str,
) -> None:
    monkeypatch.setattr(quantisation, "find_spec", lambda _name: None)
    with pytest.raises(UnsupportedModel) as caught:
        load_model(ModelConfig(str(announced(saved, tmp_path, kind)), device="cpu"))
    assert caught.value.message == (
        f"The model's weights are quantised by '{kind}', whose libraries are not installed: "
        f"pip install {packages}"
    )


def test_fp8_on_a_gpu_is_refused_where_its_kernels_are_missing(
    saved: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.needs("accelerate")
    installed = quantisation.find_spec
    hidden = {"kernels"}
    monkeypatch.setattr(
        quantisation, "find_spec", lambda name: None if name in hidden else installed(name)
    )
    config = AutoConfig.from_pretrained(announced(saved, tmp_path, "fp8"))
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    has_fp8 = torch.cuda.is_available() and torch.cuda.get_device_capability()
    if not has_fp8 or has_fp8 >= FP8_CAPABILITY:
        with pytest.raises(UnsupportedModel) as caught:
            quantisation.check_libraries(config, gpu)
        assert caught.value.message == (
            "The model's weights are quantised by 'fp8', whose libraries are not installed: "
            "pip install kernels"
        )
    quantisation.check_libraries(config, cpu)
    config.quantization_config["dequantize"] = True
    quantisation.check_libraries(config, gpu)


def test_what_a_library_raises_at_the_first_pass_becomes_a_sentence(
    saved: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.needs("accelerate", "bitsandbytes")

    def fail(*_: Any) -> None:
        raise ImportError("kernel unavailable: no build matches")

    folder = saved("bitsandbytes-8")
    monkeypatch.setattr(loader, "probe", fail)
    with pytest.raises(UnsupportedModel, match="loaded on this machine's CPU: kernel unavailable"):
        load_model(ModelConfig(str(folder), device="cpu"))
    with pytest.raises(ImportError):  # of a plain model it would be a fault of ours
        load_model(ModelConfig(str(saved("plain")), device="cpu"))


def test_an_unknown_kind_is_refused_with_those_that_are_served(
    saved: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedModel, match=r"quantised by 'aqlm', which is not served; .* awq"):
        load_model(ModelConfig(str(announced(saved, tmp_path, "aqlm")), device="cpu"))


def test_what_a_library_raises_becomes_a_sentence(
    saved: Callable[[str], Path], tmp_path: Path
) -> None:
    checkpoints.needs("torchao")
    folder = announced(saved, tmp_path, "torchao", quant_type={"default": {"_type": "Nonsense"}})
    with pytest.raises(UnsupportedModel, match="'torchao' and cannot be loaded on this machine"):
        load_model(ModelConfig(str(folder), device="cpu"))


def announced(saved: Callable[[str], Path], tmp_path: Path, kind: str, **more: Any) -> Path:
    """A plain model whose configuration announces quantised weights."""
    for file in saved("plain").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = tmp_path / "config.json"
    about = {"quant_method": kind, **more}
    config.write_text(json.dumps(json.loads(config.read_text()) | {"quantization_config": about}))
    return tmp_path
