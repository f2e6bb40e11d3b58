"""Loading a Hugging Face causal language model for exact serving."""

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from common.errors import LecternError, UnsupportedModel
from engine.config import ModelConfig, PromptConfig
from engine.cpu_threads import release_worker_threads
from engine.model.adapters.base import find_adapter
from engine.model.attention import NAME, register
from engine.model.fingerprint import model_fingerprint, weights_fingerprint
from engine.model.finite import check_weights
from engine.model.generation import GenerationDefaults, read_generation_defaults
from engine.model.head_plan import ALL, HeadPlan, check_plan, plan_all, read_plan
from engine.model.hub import find_model
from engine.model.longrope import LongRope, has_longrope, pin_longrope
from engine.model.prompt import PromptTemplate
from engine.model.quantisation import check_libraries, quantisation_of
from engine.model.reorder_heads import order_heads
from engine.model.spec import ModelSpec, probe
from engine.model.support import check_windows, drop_idle_window, refuse_unsupported

Meanwhile = Callable[[torch.device], None]
log = logging.getLogger("lectern.model")
DEFAULT_PLAN = "default"
PLAN_FILE = "head_plan.json"  # in a model's folder


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to read and to answer.

    Attributes:
        name: the folder's or repository's name, for people.
        generation: the tokens that end an answer, and the model's own way of choosing tokens.
        fingerprint: identifies configuration, tokenizer, weights and dtype.
        plan: which KV heads are retrieval heads; in every layer they were brought to the front.
        weights: identifies the same but for the dtype: what a head plan belongs to.
        quantisation: the kind of the weights' quantisation; None if they are not quantised.
        folder: its files; None if it was never in any.
        longrope: the model with each kind of factors; None if it has no LongRoPE.
    """

    name: str
    model: nn.Module
    tokenizer: Any
    prompt: PromptTemplate
    spec: ModelSpec
    generation: GenerationDefaults
    fingerprint: str
    device: torch.device
    dtype: torch.dtype
    plan: HeadPlan
    weights: str = ""
    quantisation: str | None = None
    longrope: LongRope | None = None
    folder: Path | None = None

    def rope_for(self, num_tokens: int) -> str | None:
        """Which factors a text of so many tokens takes; None for a model that has no choice."""
        return None if self.longrope is None else self.longrope.kind_for(num_tokens)

    def with_rope(self, rope: str | None) -> "LoadedModel":
        """The model with the factors that `rope_for` named, over the same weights."""
        if rope is None or self.longrope is None:
            return self
        return replace(self, model=self.longrope.models[rope])

    def for_length(self, num_tokens: int) -> "LoadedModel":
        """The model as it reads a text of so many tokens."""
        return self.with_rope(self.rope_for(num_tokens))

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer."""
        return self.generation.eos_ids


def load_model(
    config: ModelConfig,
    remembered: Path | None = None,
    meanwhile: Meanwhile | None = None,
) -> LoadedModel:
    """Load a model folder, or an id that is in the local Hugging Face cache or can be fetched.

    The revision of an id is part of the model's fingerprint.

    Args:
        remembered: a file that remembers the digests of unchanged files (`weights_fingerprint`);
            whoever gives it verifies them later (`WeightsCheck`). None to hash all files.
        meanwhile: called with the model's device, on a thread that nobody waits for, while weights
            are read; it must not raise.

    Raises: UnsupportedModel with a sentence that says why, if it cannot be served exactly;
        HeadPlanRejected if the head plan is none or another model's; InvalidInput for an argument
        that its chat template does not know.
    """
    device = torch.device(_choose_device(config.device))
    try:
        if meanwhile is not None:
            Thread(target=meanwhile, args=(device,), name="beside the weights", daemon=True).start()
        return _load_model(config, device, remembered)
    finally:
        if device.type == "cpu":
            release_worker_threads()


def _load_model(config: ModelConfig, device: torch.device, remembered: Path | None) -> LoadedModel:
    dtype = _choose_dtype(config.dtype, device)
    source = find_model(config.path)
    folder = source.path
    with ThreadPoolExecutor(1, "fingerprint") as thread:
        hashing = thread.submit(weights_fingerprint, folder, remembered)  # beside the loading
        with explain_loading(config.path):
            model, tokenizer = _load_parts(folder, dtype, device)
        weights = hashing.result()
    model.train(False)
    fingerprint = model_fingerprint(weights, str(dtype).removeprefix("torch."), source.revision)
    with _explain_library(quantisation_of(model.config), device):  # some fail at the first pass
        loaded = assemble(
            model,
            tokenizer,
            name=source.name,
            fingerprint=fingerprint,
            weights=weights,
            plan=read_folder_plan(config.heads, folder),
            prompt=config.prompt,
        )
    if loaded.generation.not_applied:
        names = ", ".join(loaded.generation.not_applied)
        log.warning("not applied, though the model's generation_config.json has it: %s", names)
    return replace(loaded, folder=folder)


def assemble(
    model: Any,
    tokenizer: Any,
    *,
    name: str,
    fingerprint: str,
    weights: str = "",
    plan: HeadPlan | None = None,
    prompt: PromptConfig | None = None,
) -> LoadedModel:
    """Probe a model that is in memory already and bind it to its tokenizer.

    Args:
        plan: None for retrieval heads alone. Its order of heads is brought into the weights.
        prompt: how the model is addressed; None for its chat template without arguments.
    Raises: UnsupportedModel, HeadPlanRejected and InvalidInput as `load_model`.
    """
    refuse_unsupported(model.config)
    check_weights(model)
    config, model_generation = model.config.get_text_config(), model.generation_config
    quantisation = quantisation_of(model.config)
    adapter = find_adapter(config)
    drop_idle_window(model.config)
    if adapter is None:
        register()
        model.set_attn_implementation(NAME)
        context_length = config.max_position_embeddings
    else:
        model, context_length = adapter.bind(model), adapter.context_length
    spec = probe(model, config.num_hidden_layers, context_length)
    check_windows(config, [layer.window for layer in spec.layers])
    plan = plan or plan_all(spec)
    check_plan(plan, spec, weights)
    order_heads(model, spec, plan)
    weight = next(model.parameters())
    return LoadedModel(
        name=name,
        model=model,
        tokenizer=tokenizer,
        prompt=PromptTemplate.of(tokenizer, prompt),
        spec=spec,
        generation=read_generation_defaults(model_generation, tokenizer),
        fingerprint=fingerprint,
        device=weight.device,
        dtype=weight.dtype,
        plan=plan,
        weights=weights,
        quantisation=quantisation,
        longrope=pin_longrope(model, config) if has_longrope(config) else None,
    )


def _load_parts(folder: Path, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    refuse_unsupported(config)
    check_libraries(config, device)
    drop_idle_window(config)
    register()
    kind = quantisation_of(config)
    options: dict[str, Any] = {
        "config": config,
        "dtype": dtype,
        "attn_implementation": NAME,
        "trust_remote_code": False,
        "use_safetensors": True,
    }
    if kind is None:
        straight = device.type != "cpu" and find_spec("accelerate") is not None
        where = {"device_map": {"": str(device)}} if straight else {}
        model: Any = AutoModelForCausalLM.from_pretrained(folder, **where, **options)
        model = model if straight else model.to(device=device)
    else:
        model = _load_quantised(folder, kind, device, options)
    return model, AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def _load_quantised(
    folder: Path, kind: str, device: torch.device, options: Mapping[str, Any]
) -> Any:
    """Load weights where they stay, through the library that they were quantised by.

    Raises: UnsupportedModel for whatever that library raises.
    """
    where = {"device_map": {"": str(device)}} if find_spec("accelerate") else {}
    with _explain_library(kind, device):
        model: Any = AutoModelForCausalLM.from_pretrained(folder, **where, **options)
        return model if where else model.to(device=device)


@contextmanager
def _explain_library(kind: str | None, device: torch.device) -> Iterator[None]:
    """Turn what the library of a quantised checkpoint raises into a sentence of ours.

    Args:
        kind: of quantisation; None for weights that are not quantised, which changes nothing.
    """
    try:
        yield
    except LecternError:
        raise
    except Exception as error:  # libraries raise what they like
        if kind is None:
            raise
        reason = str(error).strip().partition("\n")[0]
        raise UnsupportedModel(
            f"The model's weights are quantised by '{kind}' and cannot be loaded on this machine's "
            f"{device.type.upper()}: {reason or type(error).__name__}"
        ) from error


def read_folder_plan(heads: str, folder: Path) -> HeadPlan | None:
    """Read the head plan that a setting names; None for retrieval heads alone.

    Args:
        heads: as of `ModelConfig.heads`.
        folder: the model's.
    Raises: HeadPlanRejected if the file is missing or no plan.
    """
    path = folder / PLAN_FILE if heads == DEFAULT_PLAN else Path(heads)
    if heads == ALL or (heads == DEFAULT_PLAN and not path.is_file()):
        return None
    return read_plan(path)


@contextmanager
def explain_loading(path: str) -> Iterator[None]:
    """Turn what transformers raises for a folder that it cannot load into a sentence of ours."""
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UnsupportedModel(f"'{path}' cannot be loaded as a model: {reason}") from error


def _choose_device(device: str) -> str:
    if device == "cuda" and not torch.cuda.is_available():
        raise UnsupportedModel("The model is to run on a GPU, but this machine offers none.")
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def _choose_dtype(dtype: str, device: torch.device) -> torch.dtype:
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise UnsupportedModel(f"'{dtype}' is no dtype to run a model in.")
    return kind
