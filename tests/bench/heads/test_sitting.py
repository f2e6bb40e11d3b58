"""An exam under a plan: the same answers as with one mask over everything, and as the product."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from bench.heads.sitting import TurnState, read_documents, sit
from bench.heads.streaming import attend_streaming
from engine.model.head_plan import HeadPlan
from tests.bench.heads.conftest import SHAPE
from training.model import attend_causal

MIXED = HeadPlan("file", ((True, False, True), (False, False, True)), 4, 16, compensation=False)
PLANS = {
    "mixed": MIXED,
    "all": replace(MIXED, retrieval=((True,) * 3,) * 2),
    "streaming": replace(MIXED, retrieval=((False,) * 3,) * 2),
    "window of the whole document": replace(MIXED, window=200),
    "more sinks than window": replace(MIXED, num_sinks=24, window=5),
}


class Words:
    """A tokenizer whose words are the ids."""

    def decode_batch(self, rows):
        return [" ".join(map(str, row)) for row in rows]


def seen(plan, size, total):
    """Per layer and KV head what each of `total` tokens sees when the document has `size`."""
    at = torch.arange(total)
    distance = at[:, None] - at
    kept = (at < plan.num_sinks) | ((at >= size - plan.window) & (at < size)) | (at >= size)
    near = (at < plan.num_sinks) | (distance < plan.window)
    streaming = (distance >= 0) & torch.where(at[:, None] < size, near, kept)
    whole = distance >= 0
    return [[whole if head else streaming for head in layer] for layer in plan.retrieval]


def by_one_mask(reader, plan, ids, size):
    """Hidden states of document and turn in one pass, each head under its own mask."""
    masks = [torch.stack(layer).repeat_interleave(2, 0) for layer in seen(plan, size, len(ids))]

    def attend(layer, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=masks[layer], enable_gqa=True
        )

    return reader(ids[None], torch.arange(len(ids))[None], attend)[0]


@pytest.mark.parametrize("name", PLANS)
@torch.inference_mode()
def test_answers_are_those_of_one_mask_over_everything(name, tiny_reader, tiny_exam):
    found = sit(tiny_reader, tiny_exam, PLANS[name], Words())
    for row, text in enumerate(found):
        size = int(tiny_exam.documents.sizes[row // 2])
        ids = torch.cat((
            tiny_exam.documents.ids[row // 2, :size],
            tiny_exam.turns.ids[row, : tiny_exam.turns.sizes[row]],
        ))  # fmt: skip
        expected = []
        for _ in range(tiny_exam.max_tokens):
            hidden = by_one_mask(tiny_reader, PLANS[name], ids, size)
            expected.append(int(tiny_reader.logits(hidden[-1]).argmax()))
            if expected[-1] == 0:
                break
            ids = torch.cat((ids, torch.tensor([expected[-1]])))
        assert text.split() == [str(token) for token in expected if token]


@pytest.mark.parametrize(("num_sinks", "window"), [(4, 16), (0, 1), (3, 700), (600, 5)])
def test_streaming_prefill_is_attention_under_a_mask(num_sinks, window):
    draw = torch.Generator().manual_seed(0)
    q = torch.randn(2, 2, 3, 1100, 8, generator=draw)
    k, v = torch.randn(2, 2, 2, 1100, 8, generator=draw)
    at = torch.arange(1100)
    distance = at[:, None] - at
    mask = (distance >= 0) & ((distance < window) | (at < num_sinks))
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k[:, :, None].expand(-1, -1, 3, -1, -1), v[:, :, None].expand(-1, -1, 3, -1, -1), mask
    )
    assert_close(attend_streaming(q, k, v, num_sinks, window), expected, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_the_compensation_token_weighs_as_much_as_what_it_stands_for(tiny_reader, tiny_exam):
    plan = replace(PLANS["streaming"], compensation=True)
    layers = read_documents(tiny_reader, tiny_exam.documents, plan)
    state = TurnState(layers, tiny_exam)
    whole = read_documents(tiny_reader, tiny_exam.documents, PLANS["streaming"])
    draw = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(6, heads, 1, SHAPE.head_dim, generator=draw) for heads in (6, 3, 3))
    out = state.attend(0, q, k, v)
    keys = whole[0].kept[1]
    # Document 1 has 70 tokens: 4 sinks and 16 recent ones stay, 50 are dropped.
    mean = layers[0].kept[1].keys[1, 0, -1]
    raw_keys, raw_values = raw(tiny_reader, tiny_exam.documents.ids[1, :70])
    assert_close(mean, raw_keys[0, 4:54].mean(0), atol=1e-5, rtol=1e-4)
    held = torch.cat((keys.keys[1, 0], mean[None], k[2, 0]))
    values = torch.cat((keys.values[1, 0], raw_values[0, 4:54].mean(0)[None], v[2, 0]))
    weights = torch.exp(held @ q[2, 0, 0] / SHAPE.head_dim**0.5)
    weights[-2] *= 50
    assert_close(out[2, 0, 0], weights @ values / weights.sum(), atol=1e-5, rtol=1e-4)


def raw(reader, ids):
    """Keys and values of the first layer."""
    held = []

    def attend(layer, q, k, v):
        held.append((k[0], v[0]))
        return attend_causal(layer, q, k, v)

    reader(ids[None], torch.arange(len(ids))[None], attend)
    return held[0]
