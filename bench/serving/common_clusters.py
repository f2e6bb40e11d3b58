"""How much of a document several askers read in common, when each asks something else.

    python -m bench.serving.common_clusters --text BOOK.txt

Rows of one document share what they read, so that a batch is as quick as its rows are alike. One
step is looked at: of the bundled reader over a book, one question about each of as many places in
it, and of a layer of Llama 3 8B's shape whose keys are drawn with clusters, and whose questions are
drawn without anything in common. Nothing is timed.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from bench import RESULTS
from bench.kernels.decode_step import draw_step, with_sparsity
from bench.kernels.layer import Shape, draw_layer
from bench.serving.first_token import document_of, read_and_reload
from engine.attend import rows
from engine.config import ModelConfig
from engine.decode.sampling import Sampling
from engine.document.budget import BALANCED
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import load_model
from precompute.config import PrecomputeConfig
from reader import WEIGHTS
from training.record import circumstances, write

ASKERS = (2, 4, 16)
WORDS = 4  # of the text that a question is about


def main() -> None:
    """Count, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--text", type=Path, required=True, help="a long plain text")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--drawn-keys", type=int, default=32_768, help="of the drawn layer's heads")
    parser.add_argument("--sparsity", type=int, default=85, help="percent, of the drawn layer")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args()
    model = load_model(ModelConfig(str(WEIGHTS), device="cpu"))
    text = document_of(model, options.text.read_text(), options.tokens)
    document, _ = read_and_reload(model, text, PrecomputeConfig())
    result = {
        "benchmark": "clusters in common",
        **circumstances("cpu", model.weights),
        "document_tokens": document.num_tokens,
        "reader": shares(of_reader(Engine(model), document, max(ASKERS))),
        "drawn_keys": options.drawn_keys,
        "drawn_sparsity": options.sparsity,
        "drawn": shares(of_drawn(options.drawn_keys, options.sparsity, max(ASKERS))),
    }
    print(write("common_clusters", result, options.out).read_text())


def of_reader(engine: Engine, document: DocumentCache, askers: int) -> list[tuple[Tensor, Tensor]]:
    """Which clusters each of several questions reads in its second pass, by layer and head.

    Returns: for each head which row selects what (askers, clusters) bool, and the clusters' sizes.
    """
    sampling = Sampling(max_tokens=4, ignore_eos=True)
    asked = [
        engine.start(document, question, budget=BALANCED, sampling=sampling)
        for question in questions(document.text, askers)
    ]
    for one in asked:
        while one.num_next_chunk:
            engine.step([one])
    with _selections() as found:
        engine.step(asked)
    for one in asked:
        engine.finish(one)
    layers = [layer for layer in document.layers if layer.has_clusters]
    return [
        (selected[head], layer.level2.sizes[head])
        for layer, selected in zip(layers, found, strict=True)
        for head in range(layer.num_retrieval)
    ]


def of_drawn(num_keys: int, sparsity: int, askers: int) -> list[tuple[Tensor, Tensor]]:
    """The same of a drawn layer whose questions leave out a share of the clustered tokens."""
    shape = Shape(num_keys)
    layer = draw_layer(shape, 0, "cpu")
    step = with_sparsity(draw_step(shape, layer, 0, batch=askers, levels=1, streaming=0), sparsity)
    selected, sizes = step.define().selected, step.layer.offsets.diff()
    return [(selected[:, head], sizes[head]) for head in range(len(sizes))]


def questions(text: str, number: int) -> list[str]:
    """One question about each of as many places, evenly spread over a text."""
    words = text.split()
    starts = range(0, len(words) - WORDS, len(words) // number)
    return [f"What is said about {' '.join(words[at : at + WORDS])}?" for at in starts][:number]


def shares(heads: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """What askers have in common, in clustered tokens, over all heads.

    Returns: `alone`, the share of the document that one reads; `in_common`, the share of it that
        another one reads, too; `union`, by number of askers the share that any of them reads.
    """
    total = float(sum(int(sizes.sum()) for _, sizes in heads))
    reads = torch.stack([_tokens(selected, sizes) for selected, sizes in heads]).sum(0)
    both = sum(
        (selected.double() * sizes) @ selected.double().T for selected, sizes in heads
    )  # (askers, askers)
    assert isinstance(both, Tensor)
    pairs = [
        float(both[one, other] / reads[one]) for one, other in permutations(range(len(reads)), 2)
    ]
    return {
        "alone": float(reads.mean()) / total,
        "in_common": fmean(pairs),
        "union": {
            str(number): sum(
                float(_tokens(selected[:number].any(0)[None], sizes)) for selected, sizes in heads
            )
            / total
            for number in ASKERS
        },
    }


def _tokens(selected: Tensor, sizes: Tensor) -> Tensor:
    """Tokens of the selected clusters (rows,)."""
    return (selected * sizes).sum(dim=1).double()


@contextmanager
def _selections() -> Iterator[list[Tensor]]:
    """What rows select while the block runs, layer by layer (heads, rows, clusters) bool."""
    found: list[Tensor] = []
    select = rows.select_clusters

    def note(*arguments: Any) -> Tensor | None:
        selected = select(*arguments)
        if selected is not None:
            found.append(selected)
        return selected

    with mock.patch.object(rows, "select_clusters", note):
        yield found


if __name__ == "__main__":
    main()
