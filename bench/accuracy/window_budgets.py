"""Whether budgets are kept on models whose layers partly have a sliding window: Gemma 2 and 3.

    python -m bench.accuracy.window_budgets --small
    python -m bench.accuracy.window_budgets --device cuda

Random weights in the published shapes (docs/families), or with `--small` of the same pattern and
windows but few and narrow layers; heads are from flat to sharp. A document of 16K tokens (Gemma 2,
whose context is short: 7K) is read as any other, and asked by the engine in questions of several
lengths at budgets .08 to .5. Windows are outside of the budget, as every question reads them whole.
`fallbacks` are what the engine logged about kernels or graphs that failed.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer
from transformers.models.auto import AutoModelForCausalLM

from bench import RESULTS
from bench.accuracy.loaded import BUDGETS, ask_at, describe_loaded, without_end
from bench.kernels.family_graph import counted_fallbacks
from bench.kernels.layer import SHARPNESS
from bench.serving.precompute import draw_text
from bench.serving.synthetic import TOKENIZER
from engine.engine import Engine
from engine.model.loader import LoadedModel, assemble
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig
from training.record import circumstances, drawn, write

FAMILIES = Path(__file__).parents[2] / "docs" / "families"
SEED = 0
QUESTION_TOKENS = (8, 64, 512)


@dataclass(frozen=True)
class WindowedShape:
    """A published shape with layers that have a window.

    Attributes:
        name: of its file in docs/families.
        num_tokens: of the document.
        small_layers: of the small model, as many as show the pattern twice.
    """

    name: str
    num_tokens: int
    small_layers: int


SHAPES = (
    WindowedShape("09-Gemma-2-9B", 7_168, 4),
    WindowedShape("10-Gemma-3-4B", 16_384, 12),
)
# Of the small models; windows, patterns and everything else are the published ones.
SMALL = {
    "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "query_pre_attn_scalar": 32, "vocab_size": 8192,
}  # fmt: skip


def main(given: list[str] | None = None) -> None:
    """Measure, print and write the result, model by model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--small", action="store_true", help="few and narrow layers, for a CPU")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, help="of every document, in place of the shapes'")
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args(given)
    size = "small" if options.small else "full"
    result: dict[str, Any] = {
        "benchmark": "window_budgets",
        **circumstances(options.device, drawn(f"{size} Gemma 2 and 3", SEED)),
        "size": size,
        "models": {},
    }
    for shape in SHAPES:
        found = measure(shape, options)
        result["models"][shape.name] = found
        worst = found["largest_deviation"]
        print(f"{shape.name}, {size}: floor {found['floor']:.3f}, off by {worst:.3f}", flush=True)
        of_all = (one["largest_deviation"] for one in result["models"].values())
        result["largest_deviation"] = max(of_all)
        result["fallbacks"] = sum(len(one["fallbacks"]) for one in result["models"].values())
        write(f"window_budgets_{size}", result, options.out)


def measure(shape: WindowedShape, options: argparse.Namespace) -> dict[str, Any]:
    """Read a document with a model of the shape, and ask questions about it."""
    started = time.perf_counter()
    model = draw_windowed(shape, small=options.small, device=options.device)
    num_tokens = options.tokens or shape.num_tokens
    text = draw_text(model, num_tokens)
    built = time.perf_counter()
    document = precompute_document(
        model, text, [(1, 0, len(text))], PrecomputeConfig(), lambda *_: None
    )
    read = time.perf_counter()
    questions = [draw_text(model, tokens, seed=1 + tokens) for tokens in QUESTION_TOKENS]
    with counted_fallbacks() as fallbacks, Engine(without_end(model)) as engine:
        rows = [
            ask_at(engine, document, question, budget)
            for budget in options.budgets
            for question in questions
        ]
    windowed = sum(layer.window is not None for layer in document.layers)
    return {
        "document_tokens": document.num_tokens,
        "layers": len(document.layers),
        "layers_with_a_window": windowed,
        **describe_loaded(rows, document),
        "fallbacks": fallbacks,
        "seconds": {
            "build": built - started,
            "read": read - built,
            "ask": time.perf_counter() - read,
        },
    }


def draw_windowed(shape: WindowedShape, *, small: bool, device: str) -> LoadedModel:
    """A model of the shape with random weights, in bf16 on a GPU and in fp32 on a CPU."""
    fields = json.loads((FAMILIES / f"{shape.name}.json").read_text(encoding="utf-8"))
    fields = fields.get("text_config", fields)
    if small:
        fields |= SMALL | {"num_hidden_layers": shape.small_layers}
    fields |= {
        "pad_token_id": 2, "bos_token_id": 1, "eos_token_id": 0,  # the tokenizer's, but for padding
        "initializer_range": fields["hidden_size"] ** -0.5,
    }  # fmt: skip
    config = AutoConfig.for_model(**fields)
    torch.manual_seed(SEED)
    with torch.device(device):
        model: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, dtype=torch.float32 if device == "cpu" else torch.bfloat16
        )
    model = model.eval().requires_grad_(False)
    for layer, factor in zip(model.model.layers, _sharpness(len(model.model.layers)), strict=True):
        _sharpen(layer.self_attn, factor)
    return assemble(
        model,
        AutoTokenizer.from_pretrained(TOKENIZER),
        name=shape.name,
        fingerprint=shape.name,
    )


def _sharpness(num_layers: int) -> Iterator[float]:
    """The deviation of scores in each layer, from flat to sharp."""
    low, high = SHARPNESS
    for layer in range(num_layers):
        yield low * (high / low) ** (layer / (num_layers - 1))


def _sharpen(attention: Any, factor: float) -> None:
    """Multiply the queries, whose scores have a deviation of about 1."""
    if hasattr(attention, "q_norm"):
        attention.q_norm.weight.fill_(factor - 1.0)  # Gemma's norms multiply by 1 + weight
    else:
        attention.q_proj.weight.mul_(factor)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
