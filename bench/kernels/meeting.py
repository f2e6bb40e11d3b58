"""What a meeting of all programs of one launch costs on a GPU, and whether it orders their writes.

    python -m bench.kernels.meeting

For grids of one to three programs an SM, launched cooperatively or not, and two ways to wait. After
each meeting a program reads, plainly, what another wrote before it: `stale` counts what was older.
"""

from functools import partial

import torch
import triton
import triton.language as tl

from bench.kernels.common import time_graph
from engine.kernels.decode_attention.kernel import meet

SMS, PER_SM, LANES, MEETINGS = 132, (1, 2, 3), 128, 50
WAYS = {"acquire": True, "relaxed, then a fence": False}


@triton.jit
def _meet_relaxed(gate):
    """As `meet`, but wait by relaxed loads and fence behind them."""
    tl.debug_barrier()
    others = tl.num_programs(0) - 1
    step = tl.where(tl.program_id(0) == 0, 2147483647 - others + 1, 1)
    before = tl.atomic_add(gate, step, sem="release", scope="gpu")
    now = before
    while (now ^ before) >= 0:
        now = tl.inline_asm_elementwise(
            "ld.relaxed.gpu.global.b32 $0, [$1];",
            "=r,l",
            [gate],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
    tl.inline_asm_elementwise(
        "{ fence.acq_rel.gpu; mov.b32 $0, $1; }",
        "=r,r",
        [now],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def _meetings(gate, cells, stale, count, ACQUIRE: tl.constexpr, LANES: tl.constexpr):
    """Write, meet, read what another program wrote, meet; `count` times."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    lane = tl.arange(0, LANES)
    for turn in range(count):
        tl.store(cells + program * LANES + lane, tl.full([LANES], 1, tl.int32) * (turn + 1))
        if ACQUIRE:
            meet(gate)
        else:
            _meet_relaxed(gate)
        other = (program * 7 + turn * 13 + 1) % programs
        seen = tl.load(cells + other * LANES + lane)
        tl.atomic_add(stale, tl.sum((seen < turn + 1).to(tl.int32), 0), sem="relaxed")
        if ACQUIRE:
            meet(gate)
        else:
            _meet_relaxed(gate)


def main() -> None:
    """Measure and print."""
    for name, acquire in WAYS.items():
        for programs in (SMS * per_sm for per_sm in PER_SM):
            for cooperative in (True, False):
                print(f"{name}, {measure(programs, acquire, cooperative)}", flush=True)


def measure(programs: int, acquire: bool, cooperative: bool) -> str:
    """One line about one way."""
    gate, stale = torch.zeros(2, 1, dtype=torch.int32, device="cuda")
    cells = torch.zeros(programs * LANES, dtype=torch.int32, device="cuda")

    def launch(count: int) -> None:
        _meetings[(programs,)](
            gate, cells, stale, count, ACQUIRE=acquire, LANES=LANES, num_warps=4,
            launch_cooperative_grid=cooperative,
        )  # fmt: skip

    empty, full = (
        time_graph([partial(launch, count)], replays=20)["p50"] for count in (0, MEETINGS)
    )
    return (
        f"{programs} programs, cooperative {cooperative}: a launch {empty:.2f} us, "
        f"a meeting {(full - empty) / (2 * MEETINGS):.2f} us, stale {int(stale)}"
    )


if __name__ == "__main__":
    main()
