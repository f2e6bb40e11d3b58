"""Work beside the main stream of a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class SideStream:
    """A branch of work that nothing waits for until it is joined; on a CPU it is done at once.

    In a CUDA graph it becomes a branch of the graph.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._held: tuple[Tensor, ...] = ()

    @contextmanager
    def branch(self, *read: Tensor) -> Iterator[None]:
        """Do something beside what follows.

        Args:
            read: what it reads, at least one; held until the join, and not to be changed before.
        """
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        self._held += read
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """Let what follows wait for the branch, if there is one."""
        if self._stream is not None and self._held:
            torch.cuda.current_stream().wait_stream(self._stream)
            self._held = ()
