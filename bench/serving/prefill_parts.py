"""The parts of prefill's attention: compared with their formula, then timed on a whole document."""

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from bench.kernels.libraries import LIBRARIES
from bench.timing import seconds_of
from engine.kernels.prefill.attend_causal import (
    attend_all,
    attend_causal,
    attend_window,
    attend_window_reference,
)
from engine.kernels.prefill.attend_causal_library import attend_window as attend_window_by_library
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.state import State

HEADS, WIDTH = 32, 128
SCALE = WIDTH**-0.5
NUM_SINKS, WINDOW, CHUNK = 64, 256, 8192
TOLERANCE = {torch.bfloat16: 3e-2, torch.float16: 5e-3, torch.float32: 1e-3}
Parts = tuple[Tensor, Tensor, Tensor]


def draw(tokens: int, num_keys: int, dtype: torch.dtype, heads: int = HEADS) -> Parts:
    """Query (heads, tokens, width), keys and values (a quarter of the heads, num_keys, width)."""
    generator = torch.Generator("cuda").manual_seed(tokens + num_keys)
    shapes = ((heads, tokens), (heads // 4, num_keys), (heads // 4, num_keys))
    query, keys, values = (
        torch.randn(*shape, WIDTH, generator=generator, device="cuda").to(dtype) for shape in shapes
    )
    return query, keys, values


def check_parts() -> dict[str, float]:
    """The largest error of each part, relative to its largest output or in nats.

    Raises: SystemExit if one is too large.
    """
    found: dict[str, float] = {}
    for dtype, limit in TOLERANCE.items():
        for tokens, num_keys in ((4096, 4096), (4096, 8192), (333, 2100), (1, 700)):
            parts = draw(tokens, num_keys, dtype, heads=8)
            distance = torch.arange(num_keys - tokens, num_keys, device="cuda")[:, None]
            distance = distance - torch.arange(num_keys, device="cuda")
            name = f"{dtype} {tokens} x {num_keys} "
            everything = torch.ones_like(distance, dtype=torch.bool)
            found[name + "all"] = _error(attend_all(*parts, scale=SCALE), parts, everything)
            causal = attend_causal(*parts, scale=SCALE)
            found[name + "causal"] = _error(causal, parts, distance >= 0)
            window = num_keys - tokens
            if window > 0:
                band = attend_window(*parts, window=window, scale=SCALE)
                seen = (distance >= 0) & (distance < window)
                found[name + "window"] = _error(band, parts, seen)
        worst = max(error for name, error in found.items() if name.startswith(str(dtype)))
        if not worst < limit:
            raise SystemExit(f"A part of attention is wrong: {found}")
    return found


def _error(state: State, parts: Parts, seen: Tensor) -> float:
    query, keys, values = (part.float() for part in parts)
    worst = 0.0
    for head, one in enumerate(query):
        scores = (one.double() @ keys[head // 4].double().T * SCALE).masked_fill(~seen, -torch.inf)
        out = scores.softmax(-1) @ values[head // 4].double()
        error = (state.out[head] - out).abs().max() / out.abs().max()
        off = (state.lse[head] - scores.logsumexp(-1)).abs().max()
        worst = max(worst, float(error), float(off))
    return worst


def measure_parts(num_tokens: int) -> dict[str, Any]:
    """Milliseconds of one layer's attention over a whole document, by every way there is."""
    whole = draw(num_tokens, num_tokens, torch.bfloat16)
    eight = draw(num_tokens, num_tokens, torch.bfloat16, heads=8)
    band = draw(num_tokens, num_tokens + WINDOW, torch.bfloat16, heads=24)
    ways: dict[str, Callable[[], object]] = {
        **{f"32 heads, {name}": partial(_whole, whole, b) for name, b in LIBRARIES.items()},
        "32 heads, chunks": lambda: _in_chunks(whole),
        **{f"8 heads, {name}": partial(_whole, eight, b) for name, b in LIBRARIES.items()},
        "8 heads, chunks": lambda: _in_chunks(eight),
        "24 heads, window": lambda: attend_window_by_library(*band, window=WINDOW, scale=SCALE),
        "24 heads, window in blocks": lambda: attend_window_reference(
            *band, window=WINDOW, scale=SCALE, softcap=None
        ),
        "24 heads, window and sinks": lambda: _streaming(band),
    }
    return {name: _milliseconds(work) for name, work in ways.items()}


def _whole(parts: Parts, backend: SDPBackend) -> Tensor:
    query, keys, values = (part[None] for part in parts)
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(query, keys, values, is_causal=True, enable_gqa=True)


def _in_chunks(parts: Parts) -> None:
    query, keys, values = parts
    for start in range(0, query.shape[1], CHUNK):
        end = start + CHUNK
        attend_causal(query[:, start:end], keys[:, :end], values[:, :end], scale=SCALE)


def _streaming(band: Parts) -> State:
    query, keys, values = band
    sinks = attend_all(query, keys[:, :NUM_SINKS], values[:, :NUM_SINKS], scale=SCALE)
    return merge_states(sinks, attend_window(*band, window=WINDOW, scale=SCALE))


def _milliseconds(work: Callable[[], object]) -> float | str:
    """The median of three runs after a first one, or why there is none."""
    try:
        samples = [seconds_of(work) * 1e3 for _ in range(4)]
    except RuntimeError as error:
        return str(error).strip().partition("\n")[0]
    return statistics.median(samples[1:])
