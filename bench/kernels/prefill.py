"""A question's prefill over a long document: everything it takes, beside full attention.

    python -m bench.kernels.prefill --out DIR
    python -m bench.kernels.prefill --check llama2_7b gemma2_9b    # compare results, no times

A step is both passes of the lookup, the list of tokens, exact attention to anchors and listed
tokens, and the join with the question's own state; it runs in one CUDA graph, and nothing waits
for the host. Full attention, of the same run, is spared the anchors, so that it has a round number
of keys, for which libraries are fastest. The question's attention to itself is in neither. Sparsity
is the share of clustered keys, over all heads, that is not read. No figure is given before votes,
lists and outputs were compared with their references.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from bench import RESULTS
from bench.kernels.layer import MODELS, Layer, Shape, draw_layer, draw_queries, shape_of
from bench.kernels.libraries import LIBRARIES
from bench.timing import WrongResult, copy_bandwidth, matmul_rate, time_graph
from engine.kernels.prefill.attend_tokens import AttendTokensInputs, attend_tokens
from engine.kernels.prefill.select_tokens import (
    SelectedTokens,
    SelectTokensInputs,
    find_threshold,
    select_tokens,
)
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores
from engine.kernels.shared.state import State
from training.record import circumstances, drawn, write

DEVICE = "cuda"
CONTEXTS, TOKENS = (32_768, 131_072, 524_288), (16, 64, 1024, 4096)
SPARSITIES = (70, 80, 90, 95)  # percent
HOW = "max_group_mean"
SHAPE = "32 query heads, 8 KV heads, head_dim 128, bf16"
NUM_LAYERS = 2  # taken in turn: together several times the L2 cache
LOWEST = -80.0
# Of votes in nats, of outputs relative in norm, of log-sum-exps in nats; in bf16.
TOLERANCE = {"vote": 2e-2, "out": 1e-2, "lse": 1e-2}


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--contexts", type=int, nargs="+", default=CONTEXTS)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument("--sparsities", type=int, nargs="+", default=SPARSITIES)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    parser.add_argument(
        "--check", nargs="+", choices=MODELS, help="only compare results, at these models' shapes"
    )
    arguments = parser.parse_args()
    if arguments.check:
        check_models(arguments.check, arguments.contexts, arguments.tokens, arguments.sparsities)
        return
    machine = {"copy_bytes_per_s": copy_bandwidth(), "matmul_flops_per_s": matmul_rate()}
    cases: dict[str, Any] = {}
    result = {
        "benchmark": "kernels_prefill",
        **circumstances(DEVICE, drawn(SHAPE, *range(NUM_LAYERS))),
        "shape": f"{SHAPE}, 5 % centroids, 144 anchors",
        "machine": machine,
        "microseconds": cases,
    }
    for context in arguments.contexts:
        shape = Shape(num_keys=context)
        layers = [draw_layer(shape, seed, DEVICE) for seed in range(NUM_LAYERS)]
        for tokens in arguments.tokens:
            name = f"{context // 1024}K x {tokens}"
            cases[name] = measure(shape, layers, tokens, arguments.sparsities, machine)
            print(_table(name, cases[name]), flush=True)
            path = write("kernels_prefill", result, arguments.out)
        del layers
    print(f"written to {path}")


@dataclass(frozen=True)
class Asked:
    """A question before a layer.

    Attributes:
        rows: (kv_heads, group x tokens, head_dim).
        own: what the question's attention to itself left.
        num_wanted: clustered tokens to read over all heads, on the device.
    """

    layer: Layer
    shape: Shape
    rows: Tensor
    own: State
    num_wanted: Tensor

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.shape.num_heads // self.shape.kv_heads

    def select_inputs(self) -> SelectTokensInputs:
        """What the lookup reads."""
        return SelectTokensInputs(
            query=self.rows,
            centroids=self.layer.centroids,
            offsets=self.layer.offsets,
            num_wanted=self.num_wanted,
            dense_lse=self.own.lse,
            anchor_keys=self.layer.keys[:, : self.layer.num_anchors],
            num_tokens=self.shape.num_keys,
            group=self.group,
            aggregation=HOW,
            scale=self.shape.scale,
            softcap=self.shape.softcap,
        )

    def attend_inputs(self, selected: SelectedTokens) -> AttendTokensInputs:
        """What follows the lookup reads."""
        return AttendTokensInputs(
            query=self.rows,
            keys=self.layer.keys,
            values=self.layer.values,
            tokens=selected.tokens,
            counts=selected.counts,
            dense_state=self.own,
            scale=self.shape.scale,
            softcap=self.shape.softcap,
        )

    def choose(self) -> SelectedTokens:
        """The lookup."""
        return select_tokens(self.select_inputs())

    def attend(self, chosen: SelectedTokens) -> State:
        """What follows the lookup."""
        return attend_tokens(self.attend_inputs(chosen))

    def answer(self) -> State:
        """All of it."""
        return self.attend(self.choose())


def ask(shape: Shape, layer: Layer, tokens: int, seed: int) -> Asked:
    """Draw a question; its threshold keeps everything."""
    device, dtype = str(layer.keys.device), layer.keys.dtype
    queries = draw_queries(shape, tokens, seed, device).to(dtype)
    rows = queries.reshape(tokens, shape.kv_heads, -1, shape.head_dim).permute(1, 2, 0, 3)
    rows = rows.reshape(shape.kv_heads, -1, shape.head_dim).contiguous()
    generator = torch.Generator(device).manual_seed(seed)
    pair = torch.randn(2, *rows.shape, generator=generator, device=device).to(dtype)
    own = pair[:, :, :tokens].contiguous()
    causal = torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril()
    seen = causal.repeat(shape.num_heads // shape.kv_heads, 1)
    state = attend_keys(rows, own[0], own[1], scale=shape.scale, softcap=shape.softcap, mask=seen)
    everything = shape.kv_heads * shape.num_keys
    wanted = torch.tensor([everything], dtype=torch.int32, device=device)
    return Asked(layer, shape, rows, state, wanted)


def with_sparsity(asked: Asked, percent: int) -> Asked:
    """The question that leaves out that share of the clustered keys."""
    num_keys = asked.shape.kv_heads * asked.shape.num_keys
    return replace(
        asked, num_wanted=torch.full_like(asked.num_wanted, num_keys * (100 - percent) // 100)
    )


# -- correctness ---------------------------------------------------------------------------------


def check_models(
    models: Sequence[str],
    contexts: Sequence[int],
    tokens: Sequence[int],
    sparsities: Sequence[int],
    device: str = DEVICE,
) -> None:
    """Check questions of all lengths over layers of the models' shapes, and print the errors.

    Args:
        models: names of `MODELS`.
        contexts: clustered keys of a KV head.
        tokens: lengths of questions.
        sparsities: shares of the clustered keys that are not read, in percent.
    Raises: WrongResult, or ShapeError if an operation refuses what it is given.
    """
    for model, context in itertools.product(models, contexts):
        shape = shape_of(model, context)
        layer = draw_layer(shape, 0, device)
        for length, percent in itertools.product(tokens, sparsities):
            errors = check(with_sparsity(ask(shape, layer, length, 0), percent))
            told = "  ".join(f"{name} {error:.1e}" for name, error in errors.items())
            print(f"{model}, {context} keys x {length} tokens, {percent} %: {told}", flush=True)


def check(asked: Asked) -> dict[str, float]:
    """Votes, lists and outputs against their references, head by head.

    Raises: WrongResult if one is wrong.
    """
    chosen = asked.choose()
    found = asked.attend(chosen)
    layer, anchors = asked.layer, asked.layer.num_anchors
    terms: dict[str, Any] = {"scale": asked.shape.scale, "softcap": asked.shape.softcap}
    threshold = find_threshold(chosen.cluster_scores, layer.offsets.diff(dim=1), asked.num_wanted)
    keep = chosen.cluster_scores >= threshold
    errors: list[dict[str, float]] = []
    for head in range(asked.shape.kv_heads):
        one = slice(head, head + 1)
        rows, sizes = asked.rows[one].float(), layer.offsets[one].diff(dim=1)
        listed = torch.repeat_interleave(keep[head], sizes[0].long()).nonzero()[:, 0] + anchors
        listed = torch.cat((torch.arange(anchors, device=listed.device), listed))
        if not torch.equal(chosen.tokens[head, : chosen.counts[head]].long(), listed):
            raise WrongResult(f"Head {head} lists other tokens than it voted for.")
        keys, values = layer.keys[one].float(), layer.values[one].float()
        own = State(asked.own.out[one].float(), asked.own.lse[one])
        near = attend_keys(rows, keys[:, :anchors], values[:, :anchors], **terms)
        mass = torch.logaddexp(own.lse, near.lse)
        scores = log_cluster_scores(rows, layer.centroids[one], sizes, **terms, extra_lse=mass)
        votes = aggregate(scores, asked.group, HOW)
        seen = torch.isfinite(votes)  # and what underflows is only told to be low
        ours, theirs = (
            part[seen].clamp(min=LOWEST) for part in (chosen.cluster_scores[one], votes)
        )
        state = merge_states(own, attend_keys(rows, keys[:, listed], values[:, listed], **terms))
        out = found.out[one].float()
        errors.append({
            "vote": _apart(ours, theirs),
            "out": float((out - state.out).norm() / state.out.norm()),
            "lse": _apart(found.lse[one], state.lse),
        })  # fmt: skip
    worst = {name: max(error[name] for error in errors) for name in TOLERANCE}
    if not all(worst[name] < limit for name, limit in TOLERANCE.items()):
        raise WrongResult(f"A kernel is wrong: {worst}")
    return worst


def _apart(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max())


# -- time ----------------------------------------------------------------------------------------


def measure(
    shape: Shape,
    layers: Sequence[Layer],
    tokens: int,
    sparsities: Sequence[int],
    machine: dict[str, float],
) -> dict[str, Any]:
    """Full attention by all libraries, then every sparsity: microseconds a layer."""
    everything = [ask(shape, layer, tokens, seed) for seed, layer in enumerate(layers)]
    full = time_full(everything)
    found: dict[str, Any] = {"full": full}
    for percent in sparsities:
        asked = [with_sparsity(one, percent) for one in everything]
        errors = check(asked[0])
        listed = [one.choose() for one in asked]
        whole = time_graph([one.answer for one in asked], **_effort(full))
        lookup = time_graph([one.choose for one in asked], **_effort(full))
        attention = time_graph(
            [partial(one.attend, at) for one, at in zip(asked, listed, strict=True)],
            **_effort(full),
        )
        bound = floor(asked[0], listed[0], machine)
        found[str(percent)] = {
            "errors": errors,
            "tokens_by_head": listed[0].counts.tolist(),
            "whole": whole,
            "lookup": lookup,
            "attention": attention,
            "floor": bound,
            "floor_share": max(bound.values()) / whole["p50"],
            "speedup": {name: full[name]["p50"] / whole["p50"] for name in full}
            | {"best": best(full) / whole["p50"]}
            | {f"best_{one}": best(full, one) / whole["p50"] for one in LIBRARIES},
        }
    return found


def best(full: dict[str, dict[str, float]], library: str = "") -> float:
    """The least median of the ways that a library has, or of all ways."""
    return min(time["p50"] for name, time in full.items() if name.startswith(library))


def _effort(full: dict[str, dict[str, float]]) -> dict[str, int]:
    """Fewer repetitions where one takes long."""
    return {"least_steps": 2, "replays": 10} if best(full) > 4000 else {}


def time_full(everything: Sequence[Asked]) -> dict[str, dict[str, float]]:
    """Full attention, by library, with the GQA group folded into the query or not."""
    found = {}
    for library, folded in itertools.product(LIBRARIES, (False, True)):
        calls = [_full_attention(one, library, folded=folded) for one in everything]
        name = f"{library}_folded" if folded else library
        try:
            found[name] = time_graph(calls, least_steps=2, replays=10)
        except RuntimeError as error:
            print(f"{name} does not run: {str(error).splitlines()[0][:100]}")
    return found


def _full_attention(asked: Asked, library: str, *, folded: bool) -> Callable[[], Tensor]:
    head_dim = asked.shape.head_dim
    heads = asked.shape.kv_heads if folded else asked.shape.num_heads
    query = asked.rows.reshape(1, heads, -1, head_dim)
    num_keys = asked.shape.num_keys
    keys, values = asked.layer.keys[None, :, :num_keys], asked.layer.values[None, :, :num_keys]

    def call() -> Tensor:
        with sdpa_kernel(LIBRARIES[library]):
            return scaled_dot_product_attention(
                query, keys, values, scale=asked.shape.scale, enable_gqa=not folded
            )

    return call


def floor(asked: Asked, chosen: SelectedTokens, machine: dict[str, float]) -> dict[str, float]:
    """Microseconds at least: scores once, listed tokens once; by products and by bytes."""
    heads, rows, head_dim = asked.rows.shape
    centroids, tokens = asked.layer.centroids.shape[1] * heads, int(chosen.counts.sum())
    flops = 2.0 * rows * head_dim * (centroids + 2 * tokens)
    moved = 2.0 * head_dim * (centroids + 2 * tokens + 2 * heads * rows)
    return {
        "products": flops * 1e6 / machine["matmul_flops_per_s"],
        "bytes": moved * 1e6 / machine["copy_bytes_per_s"],
    }


def _table(name: str, found: dict[str, Any]) -> str:
    full = "  ".join(f"{way} {time['p50']:.0f}" for way, time in found["full"].items())
    lines = [f"== {name}: {full} us"]
    for percent, at in found.items():
        if percent == "full":
            continue
        ways = ("best", "best_cudnn", "best_flash")
        speedup = "  ".join(f"{way} {at['speedup'][way]:.2f}x" for way in ways)
        lines.append(
            f"  {percent} %: {at['whole']['p50']:.1f} us (lookup {at['lookup']['p50']:.1f}, "
            f"attention {at['attention']['p50']:.1f}; floor {max(at['floor'].values()):.1f})  "
            f"{speedup}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
