"""Work on a second stream of a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class SideStream:
    """A second stream for work that nothing waits for until it is joined.

    On a CPU the work is done at once. In a CUDA graph it becomes a branch of the graph.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._held: tuple[Tensor, ...] = ()

    @contextmanager
    def branch(self, *read: Tensor) -> Iterator[None]:
        """Run the block on the second stream, after what was launched on the main one so far.

        Args:
            read: tensors that the block reads, at least one; they are kept alive until the join and
                must not be changed before it.
        """
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        self._held += read
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """Let what is launched on the main stream from now on wait for the branch, if any."""
        if self._stream is not None and self._held:
            torch.cuda.current_stream().wait_stream(self._stream)
            self._held = ()
