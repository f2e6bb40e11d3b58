"""Full attention by the libraries that a kernel is held against."""

from collections.abc import Callable, Sequence

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from bench.timing import time_graph

LIBRARIES = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
}


def library_attention(
    query: Tensor, keys: Tensor, values: Tensor, library: str, *, folded: bool, scale: float
) -> Callable[[], Tensor]:
    """A call of the library's full attention, every question over the same keys.

    Args:
        query: (questions, num_heads, head_dim).
        keys, values: (kv_heads, num_keys, head_dim).
        library: a name of `LIBRARIES`.
        folded: whether the GQA group and the questions become rows of one KV head, so that keys
            are read once; else heads and batch are the library's own.
    """
    questions, _, head_dim = query.shape
    kv_heads = len(keys)
    if folded:
        rows = query.reshape(questions, kv_heads, -1, head_dim).transpose(0, 1)
        q = rows.reshape(1, kv_heads, -1, head_dim)
        k, v = keys[None], values[None]
    else:
        q = query[:, :, None]  # (questions, heads, 1, head_dim)
        k = keys[None].expand(questions, -1, -1, -1)
        v = values[None].expand(questions, -1, -1, -1)

    def call() -> Tensor:
        with sdpa_kernel(LIBRARIES[library]):
            return scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=not folded)

    return call


def time_libraries(
    query: Tensor, layers: Sequence[tuple[Tensor, Tensor]], scale: float
) -> dict[str, dict[str, float]]:
    """Every library that runs, folded and not, over (keys, values) of several layers."""
    found = {}
    for library in LIBRARIES:
        for folded in (False, True):
            calls = [
                library_attention(query, k, v, library, folded=folded, scale=scale)
                for k, v in layers
            ]
            name = f"{library}_folded" if folded else library
            try:
                found[name] = time_graph(calls, least_steps=4, replays=12)
            except RuntimeError as error:
                print(f"{name} does not run: {str(error).splitlines()[0][:100]}")
    return found
