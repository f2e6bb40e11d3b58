"""Greedy decoding of many questions about one document, each as if it were the only one."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from training.model import Reader, attend_causal
from training.tokenizer import ANSWER_ID, END_ID, QUESTION_ID

_MOST_SCORES = 2**26  # at once: twenty questions after 131,072 tokens would take ten times as many


@dataclass(frozen=True)
class Read:
    """A document's keys and values.

    Attributes:
        keys, values: per layer (kv heads, tokens, head_dim).
        num_tokens: how many positions are taken.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    num_tokens: int


@torch.no_grad()
def read(reader: Reader, ids: list[int]) -> Read:
    """Prefill a document (with its first special token) once."""
    weight = reader.model.embed_tokens.weight
    keys: list[Tensor] = []
    values: list[Tensor] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys.append(k[0])
        values.append(v[0])
        return attend_causal(layer, q, k, v)

    tokens = torch.tensor([ids], device=weight.device)
    reader(tokens, torch.arange(len(ids), device=weight.device)[None], attend)
    return Read(tuple(keys), tuple(values), len(ids))


@torch.no_grad()
def answer(
    reader: Reader, document: Read, questions: list[list[int]], max_tokens: int
) -> list[list[int]]:
    """Answer each question on its own; ids of the answers without the end token.

    Args:
        questions: token ids of the questions' texts.
    """
    device = reader.model.embed_tokens.weight.device
    turns = [[QUESTION_ID, *ids, ANSWER_ID] for ids in questions]
    sizes = torch.tensor([len(turn) for turn in turns], device=device)
    longest = int(sizes.max())
    tokens = torch.tensor(
        [turn + [END_ID] * (longest - len(turn)) for turn in turns], device=device
    )
    tail = _Tail(document, len(turns), longest + max_tokens, sizes)
    places = torch.arange(longest, device=device).expand(len(turns), -1)
    hidden = reader(tokens, document.num_tokens + places, tail.attend)
    tail.filled = longest
    last = hidden[torch.arange(len(turns), device=device), sizes - 1]
    found: list[Tensor] = []
    ended = torch.zeros(len(turns), dtype=torch.bool, device=device)
    for step in range(max_tokens):
        chosen = reader.logits(last).argmax(-1)
        ended |= chosen == END_ID
        found.append(torch.where(ended, END_ID, chosen))
        if bool(ended.all()) or step == max_tokens - 1:
            break
        positions = document.num_tokens + (sizes + step)[:, None]
        last = reader(found[-1][:, None], positions, tail.attend)[:, 0]
        tail.filled += 1
    rows = torch.stack(found, 1).tolist()
    return [row[: row.index(END_ID)] if END_ID in row else row for row in rows]


class _Tail:
    """Keys and values after the document, one row a question, padded in the middle."""

    def __init__(self, document: Read, rows: int, most: int, sizes: Tensor) -> None:
        heads, _, dim = document.keys[0].shape
        like = document.keys[0]
        self._document = document
        self._keys = [like.new_zeros(rows, heads, most, dim) for _ in document.keys]
        self._values = [like.new_zeros(rows, heads, most, dim) for _ in document.keys]
        places = torch.arange(most, device=like.device)
        self._is_padding = (places >= sizes[:, None]) & (places < int(sizes.max()))
        self.filled = 0

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend to the document and to the row's own tail; q is (rows, heads, steps, d)."""
        stop = self.filled + q.shape[2]
        self._keys[layer][:, :, self.filled : stop] = k
        self._values[layer][:, :, self.filled : stop] = v
        hidden = self._hidden(q.shape[2], stop)
        many = max(1, _MOST_SCORES // (q[0, :, :, 0].numel() * (self._document.num_tokens + stop)))
        parts = [
            self._attend_rows(layer, rows, q[rows], hidden[rows])
            for rows in (slice(start, start + many) for start in range(0, len(q), many))
        ]
        return torch.cat(parts)

    def _attend_rows(self, layer: int, rows: slice, q: Tensor, hidden: Tensor) -> Tensor:
        """Attend with some of the rows; `hidden` is what they may not see of their tails."""
        keys, values = self._document.keys[layer], self._document.values[layer]
        stop = hidden.shape[-1]
        near_keys, near_values = (
            part[layer][rows, :, :stop] for part in (self._keys, self._values)
        )
        grouped = _group(q, keys.shape[0]) * q.shape[-1] ** -0.5  # rows, kv, group, steps, d
        far = torch.einsum("rkgsd,kld->rkgsl", grouped, keys)
        near = torch.einsum("rkgsd,rkld->rkgsl", grouped, near_keys)
        near = near.masked_fill(hidden, float("-inf"))
        share = F.softmax(torch.cat([far, near], -1).float(), -1).to(values.dtype)
        far_share, near_share = share[..., : far.shape[-1]], share[..., far.shape[-1] :]
        out = torch.einsum("rkgsl,kld->rkgsd", far_share, values)
        out = out + torch.einsum("rkgsl,rkld->rkgsd", near_share, near_values)
        return out.flatten(1, 2)

    def _hidden(self, steps: int, stop: int) -> Tensor:
        """What each row's steps may not see, (rows, 1, 1, steps, stop)."""
        device = self._is_padding.device
        queries = torch.arange(stop - steps, stop, device=device)[:, None]
        later = torch.arange(stop, device=device) > queries
        own = torch.arange(stop, device=device) == queries  # padding rows see themselves: no NaN
        hidden = (self._is_padding[:, None, :stop] & ~own) | later
        return hidden[:, None, None]


def _group(q: Tensor, kv_heads: int) -> Tensor:
    """(rows, heads, steps, d) to (rows, kv heads, heads of a group, steps, d)."""
    rows, heads, steps, dim = q.shape
    return q.reshape(rows, kv_heads, heads // kv_heads, steps, dim)
