"""A token's key and value are written to their slot, and nothing is written around it."""

from collections.abc import Callable

import pytest
import torch
from torch.testing import assert_close

from engine.kernels.decode.append_keys import append_keys, append_keys_reference
from tests.engine.kernels.harness import DEVICE, DTYPES, assert_guards, guarded, surrounded
from tests.engine.naive import normal

pytest.importorskip("triton")

from engine.kernels.decode.triton.append_keys import append_keys_triton


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [24, 128])
@pytest.mark.parametrize("append", [append_keys, append_keys_reference, append_keys_triton])
def test_a_token_is_written_to_its_slot_alone(
    append: Callable[..., None], head_dim: int, dtype: torch.dtype
) -> None:
    (keys, values), whole = guarded(normal(2, 3, 10, head_dim, dtype=dtype).to(DEVICE))
    before = keys.clone(), values.clone()
    token = surrounded(normal(1, 6, head_dim, dtype=dtype, seed=1).to(DEVICE))
    key, value = (part.transpose(0, 1) for part in token.split(3, dim=1))
    append(keys, values, key, value, torch.tensor([7], device=DEVICE))
    for found, old, new in zip((keys, values), before, (key, value), strict=True):
        expected = old.clone()
        expected[:, 7] = new[:, 0]
        assert_close(found, expected, rtol=0.0, atol=0.0)
    assert_guards(whole)
