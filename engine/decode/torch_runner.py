"""Forward passes on any device: all tokens in one batch, attention question by question."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from engine.attend.question import open_question
from engine.cpu_threads import CpuThreads
from engine.decode.packed_pass import PackedTokens, packed_forward
from engine.decode.running_answer import PrefillChunk, RunningAnswer
from engine.document.budget import EXACT
from engine.document.cache import DocumentCache
from engine.model.empty_document import empty_document
from engine.model.loader import LoadedModel

MAX_ROWS = 64


class TorchRunner:
    """A `ModelRunner` that keeps nothing beside the states of the answers.

    Args:
        model: the loaded model.
        max_rows: answers that take part in one decoding pass at most.

    Attributes:
        threads: that passes are spread over on a CPU; None elsewhere.
    """

    def __init__(self, model: LoadedModel, max_rows: int = MAX_ROWS) -> None:
        self._model = model
        self.max_rows = max_rows
        self.threads = CpuThreads() if model.device.type == "cpu" else None

    def warm_up(self) -> None:
        """Find out how many threads decoding is worth; nothing is compiled or captured."""
        if self.threads is None:
            return
        document = empty_document(self._model)
        token = torch.zeros(1, dtype=torch.int64)

        def take_pass() -> Tensor:
            return packed_forward(
                self._model.model, [PackedTokens(open_question(document, EXACT), token)]
            )

        self.threads.measure(take_pass)

    def add_document(self, key: Hashable, document: DocumentCache) -> None:
        """Nothing is prepared."""

    def remove_document(self, key: Hashable) -> None:
        """Nothing was prepared."""

    def add(self, running: RunningAnswer) -> None:
        """Nothing is kept beside its state."""

    def remove(self, running: RunningAnswer) -> None:
        """Nothing was kept."""

    def prefill(self, chunks: Sequence[PrefillChunk]) -> Tensor:
        """Take parts of prefills, see `ModelRunner.prefill`."""
        logits = self._forward([(chunk.running, chunk.ids) for chunk in chunks])
        last = [row for row, chunk in enumerate(chunks) if chunk.is_last]
        return logits if len(last) == len(chunks) else logits[last]

    def begin_decode(self, rows: Sequence[RunningAnswer], tokens: Tensor | None = None) -> None:
        """Nothing is computed before it is asked for."""

    def can_run_ahead(self, rows: Sequence[RunningAnswer]) -> bool:  # noqa: ARG002
        """Never: attention asks the host for each row's thresholds."""
        return False

    def decode(self, rows: Sequence[RunningAnswer]) -> Tensor:
        """Take one pass for each row's latest token, see `ModelRunner.decode`."""
        tokens = torch.tensor([row.last_token for row in rows]).to(self._model.device)
        return self._forward(list(zip(rows, tokens.chunk(len(rows)), strict=True)))

    def forget_evidence(self, running: RunningAnswer) -> None:
        """Drop the attention mass of an answer."""
        running.forget_evidence()

    def collect_evidence(self, running: RunningAnswer) -> None:
        """It stands in the answer's state alone."""

    def close(self) -> None:
        """Nothing is kept."""

    def _forward(self, parts: Sequence[tuple[RunningAnswer, Tensor]]) -> Tensor:
        if self.threads is None:
            return self._forward_by_rope(parts)
        num_tokens = sum(len(ids) for _, ids in parts)
        return self.threads.take(num_tokens, lambda: self._forward_by_rope(parts))

    def _forward_by_rope(self, parts: Sequence[tuple[RunningAnswer, Tensor]]) -> Tensor:
        """Take a pass for each set of factors (LongRoPE) that the documents were read with."""
        ropes = [running.state.document.choices.rope for running, _ in parts]
        logits: Tensor | None = None
        for rope in dict.fromkeys(ropes):
            members = [row for row, other in enumerate(ropes) if other == rope]
            packed = [PackedTokens(parts[row][0].state, parts[row][1]) for row in members]
            found = packed_forward(self._model.with_rope(rope).model, packed)
            if len(members) == len(parts):
                return found
            if logits is None:
                logits = found.new_empty(len(parts), found.shape[1])
            logits[members] = found
        assert logits is not None  # there is a part at least
        return logits
