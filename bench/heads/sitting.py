"""Sitting an exam under a head plan: documents are read once, then all questions are answered."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from bench.heads.exam import Batch, Exam
from bench.heads.streaming import Kept, attend_streaming, keep_all, keep_streaming
from engine.model.head_plan import HeadPlan
from training.model import Reader
from training.tokenizer import END_ID


@torch.inference_mode()
def sit(reader: Reader, exam: Exam, plan: HeadPlan, tokenizer: Tokenizer) -> list[str]:
    """Answer every question greedily; an answer without an end is cut at the exam's limit."""
    turns = exam.turns
    state = TurnState(read_documents(reader, exam.documents, plan), exam)
    rows = torch.arange(len(turns.sizes), device=turns.ids.device)
    starts = exam.documents.sizes.repeat_interleave(len(rows) // len(exam.documents.sizes))
    places = torch.arange(turns.ids.shape[1], device=rows.device)
    hidden = reader(turns.ids, starts[:, None] + places, state.attend)
    state.advance(turns.ids.shape[1])
    last, found = hidden[rows, turns.sizes - 1], []
    ended = torch.zeros_like(rows, dtype=torch.bool)
    for step in range(exam.max_tokens):
        chosen = reader.logits(last).argmax(-1)
        ended |= chosen == END_ID
        found.append(torch.where(ended, END_ID, chosen))
        if step % 8 == 7 and bool(ended.all()):
            break
        positions = (starts + turns.sizes + step)[:, None]
        last = reader(found[-1][:, None], positions, state.attend)[:, 0]
        state.advance(1)
    answers = [row[: [*row, END_ID].index(END_ID)] for row in torch.stack(found, 1).tolist()]
    return tokenizer.decode_batch(answers)


@dataclass(frozen=True)
class KeptLayer:
    """What a layer's retrieval heads and its streaming heads keep, and which heads those are."""

    retrieval: Tensor
    streaming: Tensor
    kept: tuple[Kept, Kept]

    def parts(self) -> Iterator[tuple[Tensor, Kept]]:
        """KV heads and what they keep, for each kind that the layer has."""
        for heads, kept in zip((self.retrieval, self.streaming), self.kept, strict=True):
            if len(heads):
                yield heads, kept


def read_documents(reader: Reader, documents: Batch, plan: HeadPlan) -> list[KeptLayer]:
    """Prefill all documents under the plan's mask, from the first token on.

    Streaming heads see sinks and window alone, so what later layers hold is what they hold when
    the product reads a document under this plan.
    """
    layers: list[KeptLayer] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        is_retrieval = torch.tensor(plan.retrieval[layer], device=q.device)
        retrieval, streaming = is_retrieval.nonzero()[:, 0], (~is_retrieval).nonzero()[:, 0]
        far, near = (k[:, retrieval], v[:, retrieval]), (k[:, streaming], v[:, streaming])
        layers.append(
            KeptLayer(
                retrieval,
                streaming,
                (
                    keep_all(*far, documents.sizes),
                    keep_streaming(
                        *near,
                        documents.sizes,
                        num_sinks=plan.num_sinks,
                        window=plan.window,
                        compensation=plan.compensation,
                    ),
                ),
            )
        )
        grouped = torch.unflatten(q, 1, (k.shape[1], -1))  # documents, kv heads, group, tokens, d
        out = torch.empty_like(grouped)
        if len(retrieval):
            asked = grouped[:, retrieval].flatten(1, 2)
            whole = scaled_dot_product_attention(asked, *far, is_causal=True, enable_gqa=True)
            out[:, retrieval] = torch.unflatten(whole, 1, (len(retrieval), -1))
        if len(streaming):
            out[:, streaming] = attend_streaming(
                grouped[:, streaming], *near, plan.num_sinks, plan.window
            )
        return out.flatten(1, 2)

    positions = torch.arange(documents.ids.shape[1], device=documents.ids.device)
    reader(documents.ids, positions[None], attend)
    return layers


class TurnState:
    """Questions and answers so far, each against its own document alone.

    Every part of a layer holds its documents' places first and behind them, for each question of
    the document, room for the question and its answer. Scores are in fp32.
    """

    def __init__(self, layers: list[KeptLayer], exam: Exam) -> None:
        self._turns = exam.turns
        self._documents = len(exam.documents.sizes)
        self._room = exam.turns.ids.shape[1] + exam.max_tokens
        self._filled = 0
        self._heads = [[heads for heads, _ in layer.parts()] for layer in layers]
        self._parts = [[self._with_room(kept) for _, kept in layer.parts()] for layer in layers]
        self._hidden = torch.empty(0)

    def advance(self, steps: int) -> None:
        """Count the tokens of the pass that ended."""
        self._filled += steps

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend with q (questions, heads, steps, d) to the documents and to the turns' tokens."""
        if layer == 0:
            self._hidden = self._hidden_places(q.shape[2])
        grouped = torch.unflatten(q, 1, (k.shape[1], -1))  # questions, kv heads, group, steps, d
        out = torch.empty_like(grouped)
        for heads, part in zip(self._heads[layer], self._parts[layer], strict=True):
            self._store(part.keys, k[:, heads])
            self._store(part.values, v[:, heads])
            out[:, heads] = self._attend_part(grouped[:, heads], part)
        return out.flatten(1, 2)

    def _attend_part(self, q: Tensor, part: Kept) -> Tensor:
        """Attend with q (questions, kv heads, group, steps, d) to one part of a layer."""
        group, steps, dim = q.shape[2:]
        rows = torch.unflatten(q, 0, (self._documents, -1)).permute(0, 2, 3, 1, 4, 5).flatten(2, 4)
        scores = (rows.float() * dim**-0.5) @ part.keys.transpose(2, 3)
        width = part.bias.shape[1]
        scores[..., :width] += part.bias[:, None, None]
        turns = torch.unflatten(scores, 2, (group, -1))[..., width:]
        turns.masked_fill_(self._hidden, float("-inf"))
        out = (scores.softmax(-1) @ part.values).to(q.dtype)  # documents, kv heads, rows, d
        apart = torch.unflatten(out, 2, (group, -1, steps))
        return apart.permute(0, 3, 1, 2, 4, 5).flatten(0, 1)

    def _store(self, held: Tensor, fresh: Tensor) -> None:
        """Put this pass's keys or values (questions, heads, steps, d) behind the documents'."""
        slots = held[:, :, -self._per_document() * self._room :]
        slots = torch.unflatten(slots, 2, (-1, self._room))
        rows = torch.unflatten(fresh, 0, (self._documents, -1)).transpose(1, 2)
        slots[:, :, :, self._filled : self._filled + fresh.shape[2]] = rows.to(held.dtype)

    def _hidden_places(self, steps: int) -> Tensor:
        """What may not be seen: (documents, 1, 1, questions x steps, questions x room)."""
        device = self._turns.ids.device
        slots, now = torch.arange(self._room, device=device), self._filled
        asking = torch.arange(now, now + steps, device=device)[:, None]
        is_padding = (slots >= self._turns.sizes[:, None]) & (slots < self._turns.ids.shape[1])
        # Padding sees itself, or its softmax would divide by nothing where documents are empty.
        hidden = (slots > asking) | (is_padding[:, None] & (slots != asking))
        per_document = self._per_document()
        hidden = torch.unflatten(hidden, 0, (-1, per_document))  # ..., questions, steps, room
        others = ~torch.eye(per_document, dtype=torch.bool, device=device)
        spread = hidden[:, :, :, None] | others[:, None, :, None]
        return spread.flatten(3, 4).flatten(1, 2)[:, None, None]

    def _with_room(self, kept: Kept) -> Kept:
        """What is kept, in fp32, with zeros behind it for the turns."""
        documents, heads, _, dim = kept.keys.shape
        room = kept.bias.new_zeros(documents, heads, self._per_document() * self._room, dim)
        return Kept(
            torch.cat((kept.keys.float(), room), dim=2),
            torch.cat((kept.values.float(), room), dim=2),
            kept.bias,
        )

    def _per_document(self) -> int:
        return len(self._turns.sizes) // self._documents
