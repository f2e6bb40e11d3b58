"""What a model's configuration alone says about serving it, and README's table of families."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer

from cli.machine import Memory, free_disk_bytes, read_memory
from cli.settings import Settings
from common.errors import LecternError
from common.format import format_bytes, format_count
from engine.decode.paths import ServingPaths, serving_paths
from engine.document.cache_bytes import CacheBytes
from engine.model.blueprint import Blueprint, read_blueprint
from engine.model.head_plan import HeadPlan, check_plan, plan_all
from engine.model.hub import ModelFolder, find_model
from engine.model.loader import explain_loading, read_folder_plan
from engine.model.prompt import PromptTemplate
from engine.model.quantisation import bits_of, check_libraries, quantisation_of
from precompute.config import PrecomputeConfig
from precompute.sketch import LONG, cache_bytes, sketch_document


@dataclass(frozen=True)
class ModelReport:
    """What can be told about a model without its weights.

    Attributes:
        name: of the model.
        kind: its model type.
        refusal: why it is not served; None if it is. Then everything below is None or empty.
        context_length: in tokens.
        layers: its attention layers in words.
        num_parameters: numbers in its weights; quantisation: their kind, None for none.
        dtype: that it would run in here, keys and values included.
        device: that it would run on here.
        paths: which code answers on a GPU.
        cache: bytes of a document with all heads; cache_with_plan: with the head plan in use, None
            if there is none.
        rooms: by place, tokens of documents that fit there by the settings, with the plan.
        hints: what would make it better.
    """

    name: str
    kind: str
    refusal: str | None
    context_length: int = 0
    layers: str = ""
    num_parameters: int = 0
    quantisation: str | None = None
    dtype: str = ""
    device: str = ""
    paths: ServingPaths | None = None
    cache: CacheBytes | None = None
    cache_with_plan: CacheBytes | None = None
    rooms: tuple[tuple[str, int], ...] = ()
    hints: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return asdict(self)


def report_on(settings: Settings, model: str) -> ModelReport:
    """Read a model's configuration and tokenizer, and say what can be expected of it.

    Args:
        model: a folder or an id; of an id only small files are fetched.
    Raises: UnsupportedModel if there is no such model; HeadPlanRejected for a wrong head plan.
    """
    files = find_model(model, weights=False)
    with explain_loading(model), _quiet():
        config = AutoConfig.from_pretrained(files.path, trust_remote_code=False)
    try:
        with _quiet():
            blueprint = read_blueprint(config)
            check_libraries(config, torch.device(read_memory(settings.device).device))
            with explain_loading(model):
                tokenizer = AutoTokenizer.from_pretrained(files.path, trust_remote_code=False)
            PromptTemplate.of(tokenizer, settings.prompt)
    except LecternError as refusal:
        return ModelReport(files.name, str(config.model_type), refusal.message)
    return _report(settings, files, config, blueprint)


def _report(
    settings: Settings, files: ModelFolder, config: Any, blueprint: Blueprint
) -> ModelReport:
    spec, memory = blueprint.spec, read_memory(settings.device)
    dtype = _dtype(settings, memory)
    plan = read_folder_plan(settings.heads, files.path)
    if plan is not None:
        check_plan(plan, spec, plan.model)  # whose weights it belongs to shows when they are loaded
    everything = plan_all(spec)
    cache = cache_bytes(spec, everything, settings.precompute, dtype)
    planned = None
    if plan is not None:
        planned = cache_bytes(spec, plan, settings.precompute, dtype)
    report = ModelReport(
        name=files.name,
        kind=str(config.model_type),
        refusal=None,
        context_length=spec.context_length,
        layers=describe_layers(blueprint),
        num_parameters=blueprint.num_parameters,
        quantisation=quantisation_of(config),
        dtype=str(dtype).removeprefix("torch."),
        device=memory.device,
        paths=paths_of(blueprint, plan or everything, settings.precompute),
        cache=cache,
        cache_with_plan=planned,
    )
    weight_bytes = blueprint.num_parameters * (bits_of(config) or 8 * dtype.itemsize) // 8
    held = planned or cache
    rooms = [
        (place, held.tokens_in(num_bytes))
        for place, num_bytes in memory.rooms(weight_bytes, settings.server)
    ]
    stored = cache_bytes(
        spec, plan or everything, settings.precompute, getattr(torch, settings.precompute.dtype)
    )
    rooms.append(("disk", stored.tokens_in(free_disk_bytes(settings.data_dir))))
    hints = tuple(_hints(settings, report, blueprint, memory))
    return replace(report, rooms=tuple(rooms), hints=hints)


def paths_of(blueprint: Blueprint, plan: HeadPlan, settings: PrecomputeConfig) -> ServingPaths:
    """Return which code would answer questions on a GPU."""
    document = sketch_document(blueprint.spec, plan, settings, LONG // 16, torch.bfloat16)
    return serving_paths(blueprint.spec, document)


def describe_layers(blueprint: Blueprint) -> str:
    """Sum the attention layers up, for example "32 x 8 heads of 128, 16 see 4,096 tokens"."""
    layers = blueprint.spec.layers
    heads = "/".join(map(str, sorted({layer.num_kv_heads for layer in layers})))
    widths = "/".join(map(str, sorted({layer.head_dim for layer in layers})))
    text = f"{len(layers)} x {heads} of {widths}"
    windows = [layer.window for layer in layers if layer.window is not None]
    if windows:
        shown = "/".join(format_count(window) for window in sorted(set(windows)))
        text += f", {len(windows)} see {shown} tokens"
    return text


def families_table(folder: Path) -> str:
    """Return a Markdown table with a row for each configuration in a folder, in their order.

    Args:
        folder: files named "NN-Name.json", each a config.json.
    """
    lines = [
        "| Model | Context | Layers x KV heads | Served | On a GPU | A document token, all heads |",
        "|-|-|-|-|-|-|",
    ]
    for file in sorted(folder.glob("*.json")):
        with _quiet():
            lines.append(_family_row(file.stem.partition("-")[2], file))
    return "\n".join(lines)


def _family_row(name: str, file: Path) -> str:
    try:
        blueprint = read_blueprint(AutoConfig.from_pretrained(file, trust_remote_code=False))
    except LecternError as refusal:
        return f"| {name} | | | no: {refusal.message} | | |"
    settings, plan = PrecomputeConfig(), plan_all(blueprint.spec)
    cache = cache_bytes(blueprint.spec, plan, settings, torch.bfloat16)
    paths = paths_of(blueprint, plan, settings)
    prefill = "kernels" if paths.without_kernels is None else "plain torch"
    decode = "a graph" if paths.without_graph is None else "plain torch"
    has_bound = any(layer.alibi is not None for layer in blueprint.spec.layers)
    size = f"{'up to ' if has_bound else ''}{format_bytes(cache.per_token)}"
    if cache.constant >= 1:
        size += f", and {format_bytes(cache.constant)} whatever its length"
    return (
        f"| {name} | {format_count(blueprint.spec.context_length)} | {describe_layers(blueprint)} "
        f"| yes | questions: {prefill}; decoding: {decode} | {size} |"
    )


def _dtype(settings: Settings, memory: Memory) -> torch.dtype:
    if settings.dtype == "auto":
        return torch.bfloat16 if memory.device == "cuda" else torch.float32
    dtype: torch.dtype = getattr(torch, settings.dtype)
    return dtype


def _hints(
    settings: Settings, report: ModelReport, blueprint: Blueprint, memory: Memory
) -> Iterator[str]:
    """What would make serving better, the most important first."""
    assert report.cache is not None
    assert report.paths is not None
    if memory.device == "cpu":
        yield "A GPU: this machine offers none, and reads long documents slowly."
    if report.paths.without_kernels:
        yield f"On a GPU questions go through plain torch, as {report.paths.without_kernels}."
    if report.paths.without_graph:
        yield f"On a GPU decoding goes through plain torch: {report.paths.without_graph}"
    if report.dtype == "float32":
        halved = cache_bytes(
            blueprint.spec, plan_all(blueprint.spec), settings.precompute, torch.bfloat16
        )
        yield f"LECTERN_DTYPE=bfloat16 takes {format_bytes(halved.per_token)} a token, all heads."
    if report.cache_with_plan is None and all(one.alibi is None for one in blueprint.spec.layers):
        dtype: torch.dtype = getattr(torch, report.dtype)
        halved = cache_bytes(blueprint.spec, _half(blueprint), settings.precompute, dtype)
        yield (
            "A head plan (`lectern heads`): with half of the heads streaming, "
            f"{format_bytes(halved.per_token)} a token."
        )


def _half(blueprint: Blueprint) -> HeadPlan:
    """A plan under which half of each layer's heads stream."""
    layers = plan_all(blueprint.spec).retrieval
    halves = tuple(tuple(2 * head < len(layer) for head in range(len(layer))) for layer in layers)
    return HeadPlan("half", halves)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from writing warnings while the block runs."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
