"""What takes forward passes for running answers: the seam between the engine and a device.

The engine decides who takes part in a pass; a runner takes it, for any mixture of documents,
lengths and budgets. `TorchRunner` packs all tokens of a pass into one batch on any device.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

from torch import Tensor

from engine.decode.running_answer import PrefillChunk, RunningAnswer
from engine.document.cache import DocumentCache


class ModelRunner(Protocol):
    """Takes forward passes; one thread calls it.

    What a row computes and reads never depends on the other rows of its pass, but for the rounding
    of matrix products.

    Attributes:
        max_rows: answers that take part in one decoding pass at most.
    """

    max_rows: int

    def warm_up(self) -> None:
        """Compile and capture what passes need, so that no question waits for it; called once."""
        ...

    def add_document(self, key: Hashable, document: DocumentCache) -> None:
        """A document became resident: prepare what its questions need.

        Args:
            key: what `remove_document` will call it; one that is read again has another.
        """
        ...

    def remove_document(self, key: Hashable) -> None:
        """A document has gone, and no answer about it is running: forget it, and its tensors."""
        ...

    def add(self, running: RunningAnswer) -> None:
        """An answer begins, before its first pass.

        It may pause between any two of its passes, so that more than `max_rows` may be there.
        """
        ...

    def remove(self, running: RunningAnswer) -> None:
        """An answer ends, whether it is complete or not.

        Afterwards its state, with the keys and values of all its tokens, what it read and the
        attention mass it collected, stands in `running.state` alone.
        """
        ...

    def prefill(self, chunks: Sequence[PrefillChunk]) -> Tensor:
        """Take parts of the prefills of several questions, at most one of each.

        Returns: logits (last parts, vocabulary) fp32 after each part that is its question's last,
            in the order of `chunks`; they hold until the next pass.
        Raises: whatever the model or a kernel raises; then no state of these answers is to be used.
        """
        ...

    def begin_decode(self, rows: Sequence[RunningAnswer], tokens: Tensor | None = None) -> None:
        """Launch the pass that `decode` is called for next, if the host need not wait for it.

        Args:
            rows: as of `decode`. Until that is called for them, or for some of them, no other pass
                is taken, and rows are at most removed: then the pass was none of theirs.
            tokens: (rows,) int64 on the device, where the host does not know the latest ones yet;
                the rows `can_run_ahead`.
        """
        ...

    def can_run_ahead(self, rows: Sequence[RunningAnswer]) -> bool:
        """Whether the next pass of rows can be launched before their latest tokens are known.

        Args:
            rows: of the last pass.
        """
        ...

    def decode(self, rows: Sequence[RunningAnswer]) -> Tensor:
        """Take one pass for each row's latest token (`RunningAnswer.last_token`).

        Returns: logits (rows, vocabulary) fp32; they hold until the next pass.
        Raises: as `prefill`.
        """
        ...

    def forget_evidence(self, running: RunningAnswer) -> None:
        """Drop the attention mass that was collected for an answer: it belongs to no answer."""
        ...

    def collect_evidence(self, running: RunningAnswer) -> None:
        """Bring the attention mass that was collected for an answer so far into its state."""
        ...

    def close(self) -> None:
        """Give everything up; no answer is running."""
        ...
