"""`select_runs` in Triton: vote, threshold and compact in one launch."""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode.inputs import ResidentLayer, Scoring
from engine.kernels.decode.tuning import FEW_ROWS
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.overlap import release, settle
from engine.kernels.shared.triton.tiles import LOG2_E


@triton.jit
def load_parts(
    parts,
    near_lse,
    head,
    num_parts,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS_PAD: tl.constexpr,
    NEAR_PARTS: tl.constexpr,
    NEAR_PAD: tl.constexpr,
):
    """Parts of a denominator: of the clusters [PARTS_PAD, ROWS], and the near keys' E."""
    row = tl.arange(0, ROWS)
    question, member = row // GROUP_PAD, row % GROUP_PAD
    real = (question < BATCH) & (member < GROUP)
    part = tl.arange(0, PARTS_PAD)[:, None]
    far = tl.load(
        parts + (head * num_parts + part) * ROWS + row[None, :],
        mask=(part < num_parts) & real[None, :],
        other=float("-inf"),
    )
    part = tl.arange(0, NEAR_PAD)[:, None]
    pair = ((question * KV_HEADS + head) * NEAR_PARTS)[None, :] + part
    near = tl.load(
        near_lse + pair * GROUP + member[None, :],
        mask=(part < NEAR_PARTS) & real[None, :],
        other=float("-inf"),
    )
    return far, near


@triton.jit
def denominator(far, near):
    """exp(top) / inverse per row [ROWS], top finite, of what `load_parts` gave.

    Logarithms are not taken: one has the instructions of a dozen exponentials.
    """
    if far.shape[0] == near.shape[0]:  # one exchange between lanes for both
        top = tl.max(tl.maximum(far, near), 0)
    else:
        top = tl.maximum(tl.max(far, 0), tl.max(near, 0))
    top = tl.where(top == float("-inf"), 0.0, top)
    far = tl.exp2((far - top[None, :]) * LOG2_E)
    near = tl.exp2((near - top[None, :]) * LOG2_E)
    if far.shape[0] == near.shape[0]:
        mass = tl.sum(far + near, 0)
    else:
        mass = tl.sum(far, 0) + tl.sum(near, 0)
    return top, 1.0 / tl.where(mass > 0.0, mass, 1.0)


@triton.jit
def limits(thresholds, BATCH: tl.constexpr, BATCH_PAD: tl.constexpr):
    """Thresholds [BATCH_PAD]; none reaches that of a question that is not there."""
    question = tl.arange(0, BATCH_PAD)
    return tl.load(thresholds + question, mask=question < BATCH, other=float("inf"))


@triton.jit
def _reaches(
    logs, inverse, wanted, GROUP: tl.constexpr, AXIS: tl.constexpr, BY_MAXIMUM: tl.constexpr
):
    """Whether a group's vote reaches `wanted`: over the last axis, AXIS, of shares.

    A share is exp(log) x inverse. Shares and what is wanted are compared over the largest exp(log),
    so that neither is lost below the least number; what is wanted may be far above.
    """
    best = tl.max(logs, AXIS)
    level = tl.where(best == float("-inf"), 0.0, best)
    shares = tl.exp2((logs - tl.expand_dims(level, AXIS)) * LOG2_E) * inverse
    least = tl.exp2(tl.minimum((wanted - level) * LOG2_E, 64.0))
    vote = tl.max(shares, AXIS) if BY_MAXIMUM else tl.sum(shares, AXIS) * (1.0 / GROUP)
    return (vote >= least) & (best > float("-inf"))


@triton.jit
def askers_of(
    scores,
    top,
    inverse,
    wanted,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    BATCH_PAD: tl.constexpr,
    COUNT: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
):
    """Bit b [COUNT] int32: question b keeps the cluster; scores [COUNT, BATCH_PAD x GROUP_PAD].

    top and inverse are the `denominator`; wanted [BATCH_PAD] are logs.
    """
    logs = scores - top[None, :]
    if GROUP < GROUP_PAD:
        member = tl.arange(0, BATCH_PAD * GROUP_PAD) % GROUP_PAD
        logs = tl.where((member < GROUP)[None, :], logs, float("-inf"))
    if BATCH_PAD == 1:  # rows of one question stay with the thread that loaded them
        reached = _reaches(logs, inverse[None, :], wanted, GROUP, 1, BY_MAXIMUM)
        reached = tl.expand_dims(reached, 1)
    else:
        logs = tl.reshape(logs, [COUNT, BATCH_PAD, GROUP_PAD])
        inverse = tl.reshape(inverse, [1, BATCH_PAD, GROUP_PAD])
        reached = _reaches(logs, inverse, wanted[None, :], GROUP, 2, BY_MAXIMUM)
    question = tl.arange(0, BATCH_PAD)
    kept = reached & (question < BATCH)[None, :]
    return tl.sum(tl.where(kept, 1 << question[None, :], 0), 1)


@triton.jit
def count_for(tally, amounts, bits, BATCH: tl.constexpr, BATCH_PAD: tl.constexpr):
    """Add the amounts [COUNT] int32 to the tally of every question whose bit is set."""
    question = tl.arange(0, BATCH_PAD)
    asked = (bits[:, None] >> question[None, :]) & 1
    read = tl.sum(asked * amounts[:, None], 0).to(tl.int64)
    tl.atomic_add(tally + question, read, mask=question < BATCH, sem="relaxed")


@triton.jit
def list_runs(
    runs, askers, place, begin, size, pieces, bits, BATCH: tl.constexpr, PIECE: tl.constexpr
):
    """Write every kept cluster's pieces, `pieces` of them, to its place."""
    for piece in range(0, tl.max(pieces, 0)):
        start = begin + piece * PIECE
        length = tl.minimum(size - piece * PIECE, PIECE)
        tl.store(runs + place + piece, start * 32 + length, mask=piece < pieces)
        if BATCH > 1:
            tl.store(askers + place + piece, bits, mask=piece < pieces)


@triton.jit
def select_runs_kernel(
    scores,
    parts,
    num_parts,
    near_lse,
    offsets,
    thresholds,
    num_clusters,
    runs,
    askers,
    capacity,
    counts,
    num_chunks,
    totals,
    tally,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    BATCH_PAD: tl.constexpr,
    PARTS_PAD: tl.constexpr,
    NEAR_PARTS: tl.constexpr,
    NEAR_PAD: tl.constexpr,
    CHUNKS_PAD: tl.constexpr,
    CHUNK: tl.constexpr,
    PIECE: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One program is a chunk of one head's clusters; those before it are done or under way."""
    chunk, head = tl.program_id(0) % num_chunks, tl.program_id(0) // num_chunks
    ROWS: tl.constexpr = BATCH_PAD * GROUP_PAD
    # All loads before the first exchange between warps: together they cost one latency.
    cluster, row = chunk * CHUNK + tl.arange(0, CHUNK), tl.arange(0, ROWS)
    real = cluster < num_clusters
    begin = tl.load(offsets + head * (num_clusters + 1) + cluster, mask=real, other=0)
    size = tl.load(offsets + head * (num_clusters + 1) + cluster + 1, mask=real, other=0) - begin
    wanted = limits(thresholds, BATCH, BATCH_PAD)
    settle(OVERLAP)
    release(OVERLAP)
    far, near = load_parts(
        parts,
        near_lse,
        head,
        num_parts,
        KV_HEADS,
        GROUP,
        GROUP_PAD,
        BATCH,
        ROWS,
        PARTS_PAD,
        NEAR_PARTS,
        NEAR_PAD,
    )
    found = tl.load(
        scores + (head * num_clusters + cluster)[:, None] * ROWS + row[None, :],
        mask=real[:, None],
        other=float("-inf"),
    )
    top, inverse = denominator(far, near)
    bits = askers_of(
        found, top, inverse, wanted, GROUP, GROUP_PAD, BATCH, BATCH_PAD, CHUNK, BY_MAXIMUM
    )
    pieces = tl.where(bits != 0, (size + PIECE - 1) // PIECE, 0)
    own = tl.sum(pieces, 0)
    # Publish this chunk's count (plus 1: 0 means not yet), then wait for those before it, which
    # were started earlier. Places, and so the order of the list, are the same in every run. The
    # count is all that is published, so no other write need be seen before it.
    tl.atomic_xchg(counts + head * num_chunks + chunk, own + 1, sem="relaxed")
    # What needs no other chunk is done before theirs are asked for.
    since = tl.cumsum(pieces, 0) - pieces
    count_for(tally + head * BATCH, size, bits, BATCH, BATCH_PAD)
    other = tl.arange(0, CHUNKS_PAD)
    published = tl.load(
        counts + head * num_chunks + other, mask=other < chunk, other=1, volatile=True
    )
    while tl.min(published, 0) == 0:
        published = tl.load(
            counts + head * num_chunks + other, mask=other < chunk, other=1, volatile=True
        )
    before = tl.sum(published - 1, 0)
    if chunk == num_chunks - 1:
        tl.store(totals + head, before + own)
    place = head * capacity + before + since
    list_runs(runs, askers, place, begin, size, pieces, bits, BATCH, PIECE)


def padded(work: Workspace, parts: Tensor) -> dict[str, int]:
    """As many as `load_parts` loads: the same of both, of few rows, for one exchange then does."""
    far, near = power_of_two(parts.shape[1]), power_of_two(work.near_parts)
    if work.sizes.rows <= FEW_ROWS:
        far = near = max(far, near)
    return {"PARTS_PAD": far, "NEAR_PAD": near}


def select_runs_triton(
    layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """See `select_runs`."""
    s, num_chunks = work.sizes, work.counts.shape[1]
    select_runs_kernel[(work.counts.numel(),)](
        work.scores,
        work.parts,
        work.parts.shape[1],
        work.near_lse,
        layer.offsets,
        thresholds[1],
        s.num_clusters,
        work.runs,
        work.askers,
        work.runs.shape[1],
        work.counts,
        num_chunks,
        work.totals,
        work.tally[0],
        KV_HEADS=s.kv_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        BATCH=s.batch,
        BATCH_PAD=power_of_two(s.batch),
        NEAR_PARTS=work.near_parts,
        CHUNKS_PAD=power_of_two(num_chunks),
        CHUNK=work.chunk,
        PIECE=work.tuning.piece,
        BY_MAXIMUM=scoring.by_maximum,
        **padded(work, work.parts),
        num_warps=work.tuning.select_warps,
        **launch_options(work.tuning.overlap),
    )
