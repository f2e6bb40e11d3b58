"""Attention of one layer's step of many rows over several documents, beside two other ways.

    python -m bench.kernels.batch --out DIR

Rows are tokens of questions that are drawn independently, 90 % sparsity each, over documents that
are drawn with clusters. A step is `attend_rows` in a CUDA graph; beside it, in the same run, stand
`decode_attention`, document by document with up to 16 questions each, and full attention by the
faster library with the rows of a document folded, document by document. No figure is given before
outputs and bytes read agree with `decode_attention`.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench import RESULTS
from bench.kernels.decode_step import QUESTION_TOKENS, Step, draw_step, with_sparsity
from bench.kernels.layer import Shape, draw_layer
from bench.kernels.libraries import library_attention
from bench.timing import WrongResult, copy_bandwidth, time_graph
from engine.kernels.batch.accumulate_rows_mass import accumulate_rows_mass
from engine.kernels.batch.attend_rows import attend_rows
from engine.kernels.batch.inputs import BatchInputs
from engine.kernels.batch.sizes import PAGE, BatchSizes
from engine.kernels.batch.tables import DocumentTable, StepRow, StepTables
from engine.kernels.batch.triton.attend import attend_triton
from engine.kernels.batch.triton.score import score_triton
from engine.kernels.batch.triton.select import select_triton
from engine.kernels.batch.tuning import BatchTuning, default_batch_tuning
from engine.kernels.batch.workspace import BatchWorkspace, allocate_batch
from engine.kernels.shared.sizes import ceil_div, power_of_two
from training.record import circumstances, drawn, write

DEVICE = "cuda"
SHAPE = "32 query heads, 8 KV heads, head_dim 128, bf16"
SPARSITY = 90
# Documents, clustered keys of each, rows of each.
MIXES = (
    (1, 131_072, 1), (1, 131_072, 16), (4, 65_536, 4), (1, 131_072, 64), (1, 131_072, 4),
    (4, 65_536, 1), (2, 65_536, 8), (16, 10_240, 1), (16, 32_768, 4), (5, 10_240, 1),
    (1, 8_192, 8),
)  # fmt: skip
# Tokens, stages, warps and programs of other tiles of `attend_kernel`: of 64 query rows, of more.
MANY_ROWS_TILES = ((64, 2, 4, 264), (32, 5, 4, 264), (32, 3, 4, 264))
WIDEST_TILES = ((32, 6, 8, 132), (32, 4, 8, 264), (16, 6, 8, 132), (64, 2, 8, 132))
ROTATED_BYTES = (
    400_000_000  # of the selected keys of a graph's layers together: no cache holds them
)
TOLERANCE = 2e-2  # relative, of outputs in bf16
READ_TOLERANCE = 1e-3  # relative, of bytes read: a cluster at the threshold may fall on either side


@dataclass(frozen=True)
class Layers:
    """Several layers of a step, each with documents of its own, which a graph takes in turn.

    Attributes:
        steps: by layer and document, the questions of that document alone.
        pools: by layer, the questions' own keys and values (2, pages, kv_heads, PAGE, head_dim).
        table: the documents.
        rows: of the step, in the order of the tables.
    """

    steps: list[list[Step]]
    pools: list[Tensor]
    table: DocumentTable
    rows: tuple[StepRow, ...]

    @property
    def num_layers(self) -> int:
        """Layers."""
        return len(self.steps)


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mixes", type=int, nargs="+", default=range(len(MIXES)))
    parser.add_argument("--scan", action="store_true", help="time other tiles too")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args()
    found: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "benchmark": "kernels_batch",
        "about": circumstances(DEVICE, drawn(SHAPE, 0)),
        "shape": SHAPE,
        "sparsity": SPARSITY,
        "copy_bytes_per_s": copy_bandwidth(),
        "mixes": found,
    }
    for index in arguments.mixes:
        found.append(measure(*MIXES[index], scan=arguments.scan))
        path = write("kernels_batch", result, arguments.out)
        torch.cuda.empty_cache()
    print(f"written to {path}")


def measure(documents: int, num_keys: int, asked: int, *, scan: bool) -> dict[str, Any]:
    """Time one mixture."""
    shape = Shape(num_keys)
    layers = draw(shape, documents, asked)
    found: dict[str, Any] = {
        "documents": documents, "num_keys": num_keys, "rows_each": asked, "ways": {},
    }  # fmt: skip
    found["beside"] = time_beside(shape, layers)
    beside = {name: round(t["p50"], 1) for name, t in found["beside"].items()}
    print(f"== {documents} x {num_keys} x {asked}: {beside}", flush=True)
    for reads_all in (False, True):
        for group_rows in classes(documents * asked, asked):
            for name, tuning in tunings(shape, layers, group_rows, scan=scan):
                way = f"{'exact' if reads_all else 'budget'} by {group_rows}{name}"
                try:
                    times = time_rows(shape, layers, group_rows, tuning, reads_all=reads_all)
                except WrongResult:
                    raise
                except Exception as error:  # a tile that does not fit the device
                    print(f"   {way}: {type(error).__name__} {str(error)[:200]}", flush=True)
                    continue
                found["ways"][way] = times
                told = {part: round(t["p50"], 1) for part, t in times.items()}
                print(f"   {way}: {told}", flush=True)
    return found


def classes(rows: int, asked: int) -> list[int]:
    """Group sizes that a bucket of so many rows may be captured with."""
    if rows == 1:
        return [1]
    if rows == 4:
        return [4]
    if asked <= 4:
        return [4]
    return [4, 8] if rows <= 8 else [size for size in (4, 16, 32) if size <= 2 * asked]


def tunings(
    shape: Shape, layers: Layers, group_rows: int, *, scan: bool
) -> list[tuple[str, BatchTuning]]:
    """The default tiles, and others if asked for."""
    base = default_batch_tuning(sizes_of(shape, layers, group_rows), 2)
    found = [("", base)]
    if not scan:
        return found
    if group_rows <= 4:
        return [
            *found,
            (" b32 s5", replace(base, attend_block=32, attend_stages=5)),
            (" s4", replace(base, attend_stages=4, attend_programs=264)),
            (" scoreless", replace(base, keep_scores=False)),
            (" early", replace(base, early_combine=not base.early_combine)),
        ]
    attend = MANY_ROWS_TILES if base.attend_warps == 4 else WIDEST_TILES
    return [
        *found,
        (" scoreless", replace(base, keep_scores=False)),
        (" whole", replace(base, whole_share=0.0)),
        *(
            (
                f" b{block} s{stages} w{warps} p{programs}",
                replace(
                    base,
                    attend_block=block,
                    attend_stages=stages,
                    attend_warps=warps,
                    attend_programs=programs,
                ),
            )
            for block, stages, warps, programs in attend
        ),
        (" select8w", replace(base, select_warps=8)),
        (" score128", replace(base, split_clusters=128)),
    ]


def draw(shape: Shape, documents: int, asked: int) -> Layers:
    """Draw layers of documents, and rows about them."""
    bytes_each = documents * shape.num_keys * shape.kv_heads * shape.head_dim * 4
    num_layers = max(2, min(4, ROTATED_BYTES // max(1, bytes_each // 5)))
    steps: list[list[Step]] = []
    table = DocumentTable(documents, num_layers, torch.device(DEVICE), shape.kv_heads)
    for layer in range(num_layers):
        steps.append([])
        for document in range(documents):
            seed = 100 * layer + document
            drawn_layer = draw_layer(shape, seed, DEVICE)
            step = draw_step(shape, drawn_layer, seed, batch=asked, levels=1, streaming=0)
            steps[-1].append(with_sparsity(step, SPARSITY))
    num_tokens = shape.num_keys + shape.num_anchors
    orders = [torch.randperm(num_tokens, device=DEVICE) for _ in range(shape.kv_heads)]
    positions = torch.stack(orders).int()
    for document in range(documents):
        of_layers = [steps[layer][document].layer for layer in range(num_layers)]
        table.put(document, num_tokens, of_layers, [positions] * num_layers)
    each = ceil_div(QUESTION_TOKENS, PAGE)
    pools = [
        torch.zeros(
            2, documents * asked * each, shape.kv_heads, PAGE, shape.head_dim,
            dtype=torch.bfloat16, device=DEVICE,
        )
        for _ in range(num_layers)
    ]  # fmt: skip
    rows = []
    for index in range(documents * asked):
        document, question = divmod(index, asked)
        pages = range(index * each, (index + 1) * each)
        for layer, pool in enumerate(pools):
            own = steps[layer][document].question
            for side, keys in enumerate((own.keys, own.values)):
                for place, page in enumerate(pages):
                    part = keys[question, :, place * PAGE : (place + 1) * PAGE]
                    pool[side, page, :, : part.shape[1]] = part
        mass = torch.zeros(num_tokens, device=DEVICE)
        rows.append(StepRow(document, 0, QUESTION_TOKENS, pages, 0.0, False, mass))
    return Layers(steps, pools, table, tuple(rows))


def sizes_of(shape: Shape, layers: Layers, group_rows: int) -> BatchSizes:
    """Sizes of a bucket that holds the rows, in a model whose context is 128K tokens."""
    rows = power_of_two(len(layers.rows))
    most = max(131_072, shape.num_keys) + 1024
    return BatchSizes(
        rows=rows,
        group_rows=group_rows,
        num_heads=shape.num_heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_pages=64,
        clusters=max(most // 16, min(rows * most // 16, 64 * 8192)),
        list_tokens=rows * most,
        anchor_tokens=rows * 1024,
    )


def time_rows(
    shape: Shape, layers: Layers, group_rows: int, tuning: BatchTuning, *, reads_all: bool
) -> dict[str, dict[str, float]]:
    """Times of `attend_rows` and of its parts, after a check."""
    sizes = sizes_of(shape, layers, group_rows)
    device = torch.device(DEVICE)
    # One threshold of each layer: a table for each.
    inputs = []
    work = allocate_batch(sizes, torch.bfloat16, device, tuning)
    for layer in range(layers.num_layers):
        tables = StepTables(sizes, tuning, device)
        rows = [
            replace(
                row,
                threshold=float(layers.steps[layer][row.document].thresholds[1, 0]),
                reads_all=reads_all,
            )
            for row in layers.rows
        ]
        tables.write(rows, layers.table)
        query = torch.zeros(
            sizes.rows, shape.num_heads, shape.head_dim, dtype=torch.bfloat16, device=device
        )
        query[: len(rows)] = torch.cat([step.query for step in layers.steps[layer]])
        pool = layers.pools[layer]
        inputs.append(
            BatchInputs(
                query,
                pool[0],
                pool[1],
                tables,
                layers.table,
                layer,
                shape.kv_heads,
                layers.steps[layer][0].scoring,
            )
        )
    torch.cuda.synchronize()
    for layer, each in enumerate(inputs[:2]):
        check(each, work, layers.steps[layer], reads_all=reads_all)

    def turns(part: Callable[[BatchInputs, BatchWorkspace], object]) -> dict[str, float]:
        return time_graph([lambda each=each: part(each, work) for each in inputs], replays=20)  # type: ignore[misc]

    times = {"step": turns(attend_rows)}
    attend_rows(inputs[0], work)
    times["score"] = turns(score_triton)
    times["lookup"] = turns(_look_up)
    attend_rows(inputs[0], work)
    # Lists are those of the first layer.
    times["attend"] = time_graph([lambda: attend_triton(inputs[0], work)], replays=20)
    attend_rows(inputs[0], work)
    times["mass"] = time_graph([lambda: accumulate_rows_mass(inputs[0], work)], replays=20)
    return times


def _look_up(inputs: BatchInputs, work: BatchWorkspace) -> None:
    score_triton(inputs, work)
    select_triton(inputs, work)


def check(
    inputs: BatchInputs, work: BatchWorkspace, steps: Sequence[Step], *, reads_all: bool
) -> None:
    """Compare with `decode_attention`, document by document.

    Raises: WrongResult where outputs or bytes differ.
    """
    work.read_bytes.zero_()
    attend_rows(inputs, work)
    begin = 0
    for step in steps:
        for first in range(0, step.batch, 16):
            part = _part(step, slice(first, first + 16))
            if reads_all:
                part = replace(part, thresholds=torch.full_like(part.thresholds, -1e30))
            other = part.workspace()
            part.attend(other)
            rows = slice(begin, begin + part.batch)
            begin += part.batch
            out, expected = work.out[rows].float(), other.out.float()
            error = float((out - expected).norm() / expected.norm())
            read = other.read_counts[0].sum(0) * 2 * 256
            apart = (read - work.read_bytes[rows]).abs().sum() / read.sum()
            same = reads_all or float(apart) < READ_TOLERANCE
            if not (error < TOLERANCE and same):
                raise WrongResult(
                    f"outputs differ by {error:.4f}; bytes {work.read_bytes[rows].tolist()[:4]}, "
                    f"not {read.tolist()[:4]}"
                )


def _part(step: Step, questions: slice) -> Step:
    own = step.question
    return replace(
        step,
        query=step.query[questions].contiguous(),
        question=replace(
            own,
            keys=own.keys[questions].contiguous(),
            values=own.values[questions].contiguous(),
            lengths=own.lengths[questions].contiguous(),
        ),
        thresholds=step.thresholds[:, questions].contiguous(),
    )


def time_beside(shape: Shape, layers: Layers) -> dict[str, dict[str, float]]:
    """Times of `decode_attention` and of full attention, one document after the other."""
    calls: list[Callable[[], object]] = []
    full: dict[str, list[Callable[[], object]]] = {"flash": [], "cudnn": []}
    for steps in layers.steps:
        parts = [
            _part(step, slice(first, first + 16))
            for step in steps
            for first in range(0, step.batch, 16)
        ]
        works = [part.workspace() for part in parts]
        calls.append(lambda p=parts, w=works: [a.attend(b) for a, b in zip(p, w, strict=True)])  # type: ignore[misc]
        for library, of_layers in full.items():
            each = [
                library_attention(step.query, step.layer.keys, step.layer.values, library,
                                  folded=library == "flash", scale=shape.scale)
                for step in steps
            ]  # fmt: skip
            of_layers.append(lambda e=each: [call() for call in e])  # type: ignore[misc]
    found = {"decode_attention": time_graph(calls, least_steps=4, replays=12)}
    for library, of_layers in full.items():
        if library == "flash" or layers.steps[0][0].batch <= 4:
            found[library] = time_graph(of_layers, least_steps=4, replays=12)
    return found


if __name__ == "__main__":
    main()
