"""Launches that start while the launch before them is still ending.

The mechanism is CUDA's programmatic dependent launch. A launch that uses it may start its programs
as soon as every program of the previous launch has released it (`release_next_launch`) or ended.
Without it, the order of launches alone guarantees that a kernel reads what the kernel before it
wrote. With it, a program has to wait on the device (`wait_for_previous_launch`): the wait returns
when the previous launch has ended and its writes can be read.

Every kernel with the argument `OVERLAP` follows two rules:

1. Every program waits, on every path and exactly once, before it writes anything, and before it
   reads anything that the previous launch may write. A buffer that the previous launch still reads
   is not overwritten before the wait either. The wait stands outside of loops, because the compiler
   issues a loop's loads ahead of it.
2. A program releases the next launch only after it has waited itself, or it does not release it at
   all: then the end of the program does.

It follows that the end of a launch means the end of all launches before it: an ordinary launch
starts after them, and every program of an overlapping launch has waited for the one before. The
second rule gives more. When a program starts, all launches but the one right before it have ended,
since the programs of that one have already waited for them. So at most two launches run at the same
time, and before its wait a program may read whatever the launch right before it does not write:

- `score_centroids_and_attend_dense` reads a document's centroids and offsets. Right before it comes
  a copy of the query or `append_keys`; for a caller that accumulates attention mass on a second
  stream, `accumulate_attention_mass`. A document is written when it is made resident, before the
  forward pass, which begins with ordinary launches.
- `score_children` reads parents, offsets, thresholds and queries, after
  `score_centroids_and_attend_dense`.
- `select_runs` reads offsets and thresholds, after `score_centroids_and_attend_dense` or
  `score_children`.
- `combine_splits` reads the states over dense keys and the numbers of segments, where `attend_runs`
  comes right before it.
- `skinny_gemm` reads weights, which nothing writes; its second launch, where there is one, reads
  nothing.

The launches of a question's prefill follow the same rules if it has at most `MAX_OVERLAP_ROWS` rows
(`should_overlap`, the one place that turns overlapping on). They come in a fixed order:
`select_tokens_denominator`, `select_tokens_aggregate`, `find_threshold` (where a number of tokens
is given), `select_tokens_list`, `attend_tokens_splits` and `attend_tokens_combine`. Two kernels are
always ordinary launches: the one that aggregates the scores of long questions
(`select_tokens_aggregate_long`), which replaces the second, and `attend_tokens_gather`, which comes
before `attend_tokens_splits`. Before its wait

- `select_tokens_denominator` reads nothing, as any launch may come before it, also one that writes
  the query.
- `select_tokens_aggregate` reads the query, after `select_tokens_denominator`.
- `find_threshold`, `select_tokens_list` and `attend_tokens_splits` read nothing: the first thing
  that they need is what the launch right before them writes.
- `attend_tokens_combine` reads counts and the dense state, after `attend_tokens_splits`.

The kernels of `attend_question` come in the same order and call the same functions. Before its wait
each of them reads its question's table and its document's record as well, which are written before
the pass, which begins with ordinary launches.

A launch starts when all programs of the launch before it have started. So the programs that it puts
on the GPU take no place that the launch before still needs. `select_runs`, whose programs wait for
each other, can therefore not be blocked by programs of `attend_runs` that wait for it; nor by those
of the launch before it, which are all running and wait for nobody.

Source: CUDA programming guide, programmatic dependent launch; PTX, griddepcontrol.
"""

import torch

MIN_CAPABILITY = (9, 0)  # Hopper
MAX_OVERLAP_ROWS = 256  # rows per KV head of a question whose launches overlap


def can_overlap(device: torch.device) -> bool:
    """Return whether a device can start a launch before the previous one has ended.

    Args:
        device: on which kernels are launched. CPUs, and GPUs older than Hopper, cannot; nor can the
            interpreter.
    """
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    from triton import knobs

    is_capable = torch.cuda.get_device_capability(device) >= MIN_CAPABILITY
    return is_capable and not knobs.runtime.interpret


def should_overlap(num_rows: int) -> bool:
    """Return whether the launches of a question's prefill overlap, on a device that can do so.

    On an H200, over 512K and 128K keys, 64 rows gain 3 and 6 % by it, 256 rows 0.7 and 2 %. Longer
    questions were not timed.

    Args:
        num_rows: rows per KV head: query heads of a group x tokens.
    """
    return num_rows <= MAX_OVERLAP_ROWS


def launch_options(overlap: bool) -> dict[str, bool]:
    """Return the launch arguments of a kernel that has the argument `OVERLAP`.

    Args:
        overlap: whether the launch starts before the previous one has ended.
    Returns: `OVERLAP`, and `launch_pdl` only where it is on: other compilers than CUDA's do not
        know it.
    """
    return {"OVERLAP": True, "launch_pdl": True} if overlap else {"OVERLAP": False}
