"""`decode_attention` in Triton as one launch, whose programs meet between its phases.

Every program waits for all others at each meeting, so all of them have to be on the GPU together:
the grid is no larger than what the compiled kernel's registers and shared memory leave room for on
an empty GPU. A kernel of another stream may hold some of that room when the step begins, but waits
for nothing of the step: it ends, and what is left of the grid moves in. Only another kernel that
waits for its own programs could keep its half while this one keeps the other; a cooperative launch
is started as a whole or not at all, and refused where it would not fit.
"""

from enum import IntEnum
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.attend_runs.kernel import attend_given, attend_share
from engine.kernels.decoding import QuestionKeys, ResidentLayer, Scoring, Workspace
from engine.kernels.decoding.sizes import ceil_div
from engine.kernels.decoding.tuning import FEW_ROWS, UNITS
from engine.kernels.descend.kernel import descend_block, descend_given, descend_items
from engine.kernels.merge_splits.kernel import merge_columns, merge_given, merge_items
from engine.kernels.select_runs.kernel import select_chunk, select_given, select_items
from engine.kernels.survey.kernel import survey_given, survey_items, survey_part

REGISTERS, MOST_REGISTERS = 65_536, 255  # of an SM, and of a thread
RESERVED = 1024  # bytes of shared memory that the driver takes for each program
WARP = 32  # threads


class Phase(IntEnum):
    """What a step does between two meetings."""

    SURVEY = 0
    DESCEND = 1
    SELECT = 2
    ATTEND = 3
    MERGE = 4


@triton.jit
def meet(gate):
    """Wait until all programs are here; what they wrote before is seen by all loads after.

    The sign of the gate turns when the last one arrives: program 0 adds 2^31 less the others. So it
    needs no reset, and no launch has to know how many were before it.
    """
    tl.debug_barrier()  # every thread's writes come before what one thread of it releases
    others = tl.num_programs(0) - 1
    step = tl.where(tl.program_id(0) == 0, 2147483647 - others + 1, 1)
    before = tl.atomic_add(gate, step, sem="release", scope="gpu")
    now = before
    while (now ^ before) >= 0:
        now = tl.inline_asm_elementwise(
            "ld.acquire.gpu.global.b32 $0, [$1];",
            "=r,l",
            [gate],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )


@triton.jit
def turns(items):
    """How many of so many items this program takes: p takes p, p + programs, and so on."""
    return tl.cdiv(items - tl.program_id(0), tl.num_programs(0))


@triton.jit
def step_kernel(
    items,
    survey,
    descend,
    select,
    attend,
    merge,
    gate,
    DEEP: tl.constexpr,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
):
    """Phases FIRST to LAST, of which each has so many items; all programs meet in between."""
    first, programs = tl.program_id(0), tl.num_programs(0)
    if FIRST == 0:
        for turn in range(turns(items[0])):
            survey_part(first + turn * programs, *survey)
    if DEEP and FIRST <= 1 and LAST >= 1:
        if FIRST < 1:
            meet(gate)
        for turn in range(turns(items[1])):
            descend_block(first + turn * programs, *descend)
    if FIRST <= 2 and LAST >= 2:
        if FIRST < 2:
            meet(gate)
        # Ascending: a chunk waits only for chunks that come before it here or elsewhere.
        for turn in range(turns(items[2])):
            select_chunk(first + turn * programs, *select)
    if FIRST <= 3 and LAST >= 3:
        if FIRST < 3:
            meet(gate)
        for turn in range(turns(items[3])):
            attend_share(first + turn * programs, *attend)
    if LAST == 4:
        if FIRST < 4:
            meet(gate)
        for turn in range(turns(items[4])):
            merge_columns(first + turn * programs, *merge)


def fuses(work: Workspace) -> bool:
    """Whether the one launch can take steps of these sizes: it looks up, with few rows a tile."""
    s = work.sizes
    return bool(s.retrieval and s.num_clusters and s.rows <= FEW_ROWS)


def step_triton(
    query: Tensor,
    layer: ResidentLayer,
    question: QuestionKeys,
    thresholds: Tensor,
    work: Workspace,
    scoring: Scoring,
    last: Phase = Phase.MERGE,
) -> bool:
    """See `decode_attention`; up to the last phase, in one launch.

    Returns: whether it was launched: not if the GPU has no room for any program, or does not say.
    """
    given = partial(_given, query, layer, question, thresholds, work, scoring)
    t = work.tuning
    together = ceil_div(t.programs, UNITS)  # on an SM
    registers = REGISTERS // (together * t.warps * WARP) // 8 * 8
    options: dict[str, Any] = {
        "FIRST": int(Phase.SURVEY),
        "LAST": int(last),
        "num_warps": t.warps,
        "maxnreg": min(registers, MOST_REGISTERS),
        "launch_cooperative_grid": t.cooperative,
    }
    programs = t.programs
    while programs:
        compiled = step_kernel.warmup(*given(programs), **options, grid=(1,))
        room = resident_programs(compiled, t.warps, query.device)
        if room >= programs:
            break
        programs = room  # what is compiled for them may be another kernel
    if programs:
        step_kernel[(programs,)](*given(programs), **options)
    return programs > 0


def phase_triton(
    query: Tensor,
    layer: ResidentLayer,
    question: QuestionKeys,
    thresholds: Tensor,
    work: Workspace,
    scoring: Scoring,
    phase: Phase,
) -> None:
    """One phase of `step_triton` alone, whose programs may be taken one by one.

    The selection is then one program's, as a chunk waits for those before it.
    """
    t = work.tuning
    step_kernel[(1 if phase == Phase.SELECT else t.programs,)](
        *_given(query, layer, question, thresholds, work, scoring, t.programs),
        FIRST=int(phase),
        LAST=int(phase),
        num_warps=t.warps,
    )


def _given(
    query: Tensor,
    layer: ResidentLayer,
    question: QuestionKeys,
    thresholds: Tensor,
    work: Workspace,
    scoring: Scoring,
    shares: int,
) -> tuple[Any, ...]:
    """What `step_kernel` takes before the phases, of runs cut into so many shares."""
    deep = layer.upper is not None
    chunks, columns = select_items(work), merge_items(work)
    return (
        (survey_items(work), descend_items(work), chunks, shares, columns),
        survey_given(query, layer, question, work, scoring),
        descend_given(query, layer, thresholds, work, scoring) if deep else None,
        select_given(layer, thresholds, work, scoring),
        attend_given(query, layer, work, scoring, shares),
        merge_given(work, shares),
        work.gate,
        deep,
    )


def resident_programs(compiled: Any, warps: int, device: torch.device) -> int:
    """Programs of a compiled kernel that an empty GPU holds at once; 0 where it does not say."""
    gpu = torch.cuda.get_device_properties(device)
    registers = getattr(gpu, "regs_per_multiprocessor", 0)
    shared = getattr(gpu, "shared_memory_per_multiprocessor", 0)
    threads = warps * WARP
    _ = compiled.run  # loads it, whereupon it tells
    of_a_thread = ceil_div(compiled.n_regs, 8) * 8  # as they are handed out
    fitting = min(
        registers // (of_a_thread * threads),
        shared // (compiled.metadata.shared + RESERVED),
        gpu.max_threads_per_multi_processor // threads,
    )
    return int(fitting * gpu.multi_processor_count)
