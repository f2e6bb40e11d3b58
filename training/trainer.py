"""One update after another: losses, gradients averaged over ranks, Muon and AdamW."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from training.data.batch_loader import Batch
from training.data.documents import SCALE
from training.model import Reader, attend_rows, compile_blocks
from training.optimiser import Muon, split_parameters
from training.ranks import Rank
from training.schedule import Progress, Schedule

Optimiser = Literal["muon", "adamw"]
_DECAY = 0.1  # of matrices


class Trainer:
    """Model, optimisers and where training stands."""

    def __init__(
        self, reader: Reader, schedule: Schedule, rank: Rank, optimiser: Optimiser = "muon"
    ) -> None:
        self.reader, self.schedule, self.rank = reader.to(rank.device), schedule, rank
        self.progress = Progress()
        self._parameters = list(reader.parameters())
        matrices, rest = split_parameters(reader)
        self._muon = Muon(matrices if optimiser == "muon" else [], momentum=0.95, decay=_DECAY)
        groups: list[dict[str, Any]] = [{"params": rest, "weight_decay": 0.0}]
        if optimiser == "adamw":
            groups.append({"params": matrices, "weight_decay": _DECAY})
        self._adam = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True)
        self._losses = weighted_losses
        self._type = torch.device(rank.device).type
        if self._type == "cuda":
            self._losses = torch.compile(weighted_losses, dynamic=False)
            compile_blocks(reader)

    def warm_up(self, tokens: int) -> None:
        """Compile: run forward and backward once for each length, and forget the gradients."""
        for length in sorted({length for stage in self.schedule.stages for length, _ in stage.mix}):
            size = (max(1, tokens // length), length + 1)
            batch = Batch(np.zeros(size, np.uint16), np.full(size, SCALE, np.uint8))
            torch.autograd.backward(self._report(batch)[0])
            self.reader.zero_grad(set_to_none=True)
        self.wait()

    def step(self, batch: Batch) -> Tensor:
        """One update; returns (loss, answer loss, share of answer tokens right) on the device."""
        report = self._report(batch)
        torch.autograd.backward(report[0])
        self.rank.average([p.grad for p in self._parameters if p.grad is not None])
        torch.nn.utils.clip_grad_norm_(self._parameters, 1.0, foreach=True)
        rate = self.schedule.rate(self.progress)
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._muon.step(rate)
        self._adam.step()
        self.reader.zero_grad(set_to_none=True)
        self.progress.step += 1
        self.progress.steps_here += 1
        self.progress.tokens += self.rank.size * (batch.ids.size - len(batch.ids))
        return report.detach()

    def _report(self, batch: Batch) -> Tensor:
        """The losses of a batch; its rows lie one after another, so that all lengths are one."""
        ids = torch.from_numpy(batch.ids.astype("int32")).to(self.rank.device).long()
        share = torch.from_numpy(batch.weights.copy()).to(self.rank.device)
        rows, length = ids.shape[0], ids.shape[1] - 1
        positions = torch.arange(length, device=self.rank.device).repeat(rows)[None]
        with torch.autocast(self._type, torch.bfloat16):
            inputs = ids[:, :-1].reshape(1, -1)
            hidden = self.reader(inputs, positions, attend_rows(length))[0]
            table = self.reader.model.embed_tokens.weight
            return self._losses(hidden, table, ids[:, 1:].flatten(), share[:, 1:].flatten())

    def align(self) -> None:
        """Give every rank the first one's weights, should rounding have led them apart."""
        with torch.no_grad():
            self.rank.share(self._parameters)

    def wait(self) -> None:
        """Wait for the device."""
        if self._type == "cuda":
            torch.cuda.synchronize()

    def save(self, file: Path) -> None:
        """Store everything that training needs to go on."""
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(
            {
                "model": self.reader.state_dict(),
                "muon": self._muon.state(),
                "adam": self._adam.state_dict(),
                "progress": vars(self.progress),
            },
            file,
        )

    def restore(self, file: Path) -> None:
        """Take what save stored."""
        stored = torch.load(file, map_location=self.rank.device, weights_only=True)
        self.reader.load_state_dict(stored["model"])
        self._muon.restore(stored["muon"])
        self._adam.load_state_dict(stored["adam"])
        self.progress = Progress(**stored["progress"])


def weighted_losses(hidden: Tensor, table: Tensor, targets: Tensor, share: Tensor) -> Tensor:
    """Weighted loss, loss on answers, share of answer tokens right: (3,), nats.

    Args:
        hidden: (tokens, width).
        table: the tied embedding (vocabulary, width).
        targets: (tokens,) ids.
        share: (tokens,) uint8, the weight of each in hundredths; answers have the full one.
    """
    scores = F.linear(hidden, table.to(hidden.dtype))
    losses = F.cross_entropy(scores.float(), targets, reduction="none")
    scale, answers = share.float() / SCALE, share == SCALE
    right = (scores.argmax(-1) == targets) & answers
    total = answers.sum().clamp(min=1)
    return torch.stack(
        [
            (losses * scale).sum() / scale.sum(),
            (losses * answers).sum().detach() / total,
            right.sum() / total,
        ]
    )
