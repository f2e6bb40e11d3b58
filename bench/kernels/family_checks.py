"""Every kernel on one layer's shape, against its torch reference in fp32."""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from bench.kernels.family_decode import check_decode, check_decode_window
from bench.kernels.family_layer import Draw, Effort, Errors, LayerShape, as_dtype
from bench.kernels.family_prefill import check_dense, check_kmeans, check_prefill
from bench.kernels.layer import Shape, draw_layer

# Relative in norm: `out` of the worst query head, `mass`, `means`. In nats: `lse`, `score`. A share
# of the tokens listed: `read`, as rounding may decide over a cluster at the threshold. `list`: the
# clusters that are listed in part, or though others score better. `distance`, of the nearest
# centroid, is relative; `copied` are numbers that differ.
LIMITS = {
    "out": 1e-2, "mass": 1e-2, "means": 1e-3, "lse": 5e-3, "score": 2e-2, "read": 0.03, "list": 0.0,
    "distance": 1e-3, "copied": 0.0,
}  # fmt: skip
WINDOW_LENGTHS = (96, 500)  # tokens of a question whose next one is decoded


def check_layer(
    shape: LayerShape,
    efforts: Sequence[Effort],
    device: str,
    only: Container[tuple[str, int]] | None = None,
) -> list[dict[str, Any]]:
    """Run all kernels on a layer, over documents of some lengths; a row for each.

    Args:
        only: ops, each with the tokens of a document; None for all.
    Returns: op, tokens of the document, errors by the names of `LIMITS`, whether all are within
        them, and what was raised, if anything was.
    """
    rows = []
    # What a window shows does not grow with the document.
    for effort in efforts if shape.window is None else efforts[-1:]:
        kv_heads = min(shape.kv_heads, effort.most_kv_heads)
        group = shape.num_heads // shape.kv_heads
        fitting = replace(shape, num_heads=group * kv_heads, kv_heads=kv_heads)
        for op, check in _checks(fitting, effort, device):
            if only is not None and (op, effort.num_tokens) not in only:
                continue
            row: dict[str, Any] = {
                "op": op, "shape": str(shape), "tokens": effort.num_tokens,
                "errors": {}, "raised": None,
            }  # fmt: skip
            try:
                row["errors"] = check()
            except Exception as error:  # a kernel that does not compile is a result, too
                row["raised"] = f"{type(error).__name__}: {error}"[:500]
            within = all(error <= LIMITS[name] for name, error in row["errors"].items())
            rows.append(row | {"passed": row["raised"] is None and within})
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # other processes check other layers
    return rows


def _checks(
    shape: LayerShape, effort: Effort, device: str
) -> Iterator[tuple[str, Callable[[], Errors]]]:
    """The checks of one layer, by op."""
    draw = Draw(device, getattr(torch, effort.dtype))
    if shape.window is not None:
        for length in WINDOW_LENGTHS:
            decode = partial(check_decode_window, shape, effort, length, draw)
            yield f"decode, {length} tokens asked", decode
        for tokens in effort.questions:
            dense = partial(check_dense, shape, effort, None, tokens, draw)
            yield f"attend_dense x {tokens}", dense
        return
    drawn = Shape(
        effort.num_tokens - effort.num_anchors,
        num_heads=shape.num_heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        num_anchors=effort.num_anchors,
        upper_share=0.005 if effort.num_tokens > 4096 else 0.02,
    )
    layer = as_dtype(draw_layer(drawn, 1, device), draw.dtype)
    for levels in (1, 2):
        yield f"decode, levels {levels}", partial(check_decode, shape, drawn, layer, levels, draw)
    yield "kmeans", partial(check_kmeans, layer)
    for tokens in effort.questions:
        yield f"attend_dense x {tokens}", partial(check_dense, shape, effort, layer, tokens, draw)
        yield f"lookup x {tokens}", partial(check_prefill, shape, drawn, layer, tokens, draw)
