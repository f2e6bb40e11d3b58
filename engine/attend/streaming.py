"""What a question sees of a streaming head's cache: the canonical streaming attention.

Two other places compute the same attention under other conditions, and tests hold them to this one:
`precompute.streaming_prefill` over a document that arrives in chunks, and
`precompute.heads.duo.blockwise` in blocks that a gradient can flow through.
"""

import math

from torch import Tensor

from engine.document.cache import StreamingCache
from engine.kernels.prefill.attend_causal import attend_all
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.state import State
from engine.model.attention import AttentionCall


def attend_streaming(call: AttentionCall, rows: Tensor, cache: StreamingCache) -> State:
    """Attend to what streaming heads keep of the document: sinks, window and compensation token.

    Every token of the question sees all of it: the question is short beside the window.

    Args:
        rows: queries of the streaming heads (kv_heads, group x tokens, head_dim).
    Source: RazorAttention, equation 5.
    """

    def attend(part: slice) -> State:
        keys, values = cache.keys[:, part], cache.values[:, part]
        return attend_all(rows, keys, values, scale=call.scale, softcap=call.softcap)

    kept = attend(slice(0, cache.num_kept))
    if cache.num_dropped == 0:
        return kept
    mean = attend(slice(cache.num_kept, None))
    return merge_states(kept, State(mean.out, mean.lse + math.log(cache.num_dropped)))
