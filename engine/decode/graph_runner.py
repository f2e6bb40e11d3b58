"""Forward passes that decode through the graphs of documents on a GPU, and else by `TorchRunner`.

A document has one graph, which one answer at a time decodes with; all others share a pass.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.config import DecodeConfig
from engine.decode.graph_pool import DecodeGraphPool, DecodeSession
from engine.decode.running_answer import RunningAnswer
from engine.decode.torch_runner import MAX_ROWS, TorchRunner
from engine.fallbacks import Fallbacks
from engine.model.loader import LoadedModel


class GraphRunner(TorchRunner):
    """A `ModelRunner` that decodes each answer with a graph of its document, if there is one.

    Args:
        model: the loaded model.
        config: what may be used on a GPU.
        max_rows: answers that take part in one decoding step at most.
        fallbacks: where it is counted what is done without; None for nowhere that anybody looks.

    Attributes:
        graphs: decode graphs of the documents that are resident on a GPU, but for those of a model
            with LongRoPE.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: DecodeConfig,
        max_rows: int = MAX_ROWS,
        fallbacks: Fallbacks | None = None,
    ) -> None:
        super().__init__(model, max_rows)
        self._fallbacks = fallbacks or Fallbacks()
        self.graphs = DecodeGraphPool(model.model, model.spec, config, self._fallbacks)
        # A model with LongRoPE runs differently over short and over long documents.
        ropes = () if model.longrope is None else model.longrope.models
        self._graphs_by_rope: dict[str | None, DecodeGraphPool] = {None: self.graphs} | {
            rope: DecodeGraphPool(model.with_rope(rope).model, model.spec, config, self._fallbacks)
            for rope in ropes
        }
        self._sessions: dict[RunningAnswer, DecodeSession] = {}

    def add(self, running: RunningAnswer) -> None:
        """Prepare to decode; the graph is taken with the first token."""
        rope = running.state.document.choices.rope
        self._sessions[running] = DecodeSession(
            self._graphs_by_rope[rope],
            self._model.with_rope(rope).model,
            running.state,
            running.max_tokens,
        )

    def remove(self, running: RunningAnswer) -> None:
        """Give back the graph that an answer uses."""
        self._sessions.pop(running).close()

    def decode(self, rows: Sequence[RunningAnswer]) -> Tensor:
        """Replay the graphs one after the other, then take one pass for all other rows."""
        logits: dict[RunningAnswer, Tensor] = {}
        for row in rows:
            if (session := self._sessions[row]).take_graph():
                token = torch.tensor([row.last_token]).to(self._model.device)
                logits[row] = session.logits(token).clone()
        others = [row for row in rows if row not in logits]
        if not logits:
            return super().decode(others)
        if others:
            logits |= zip(others, super().decode(others), strict=True)
        return torch.stack([logits[row] for row in rows])

    def forget_evidence(self, running: RunningAnswer) -> None:
        """Drop the attention mass of an answer, in its state and in its graph."""
        super().forget_evidence(running)
        self._sessions[running].forget_evidence()

    def collect_evidence(self, running: RunningAnswer) -> None:
        """Take over what the answer's graph has collected."""
        self._sessions[running].collect_evidence()

    def close(self) -> None:
        """Give up all graphs."""
        for graphs in self._graphs_by_rope.values():
            graphs.clear()
