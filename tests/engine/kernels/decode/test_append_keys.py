"""A token's key and value find their place, and touch nothing beside it."""

import pytest
import torch
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.decode.append_keys import append_keys, append_keys_reference
from tests.engine.kernels.launched import DEVICE, DTYPES, assert_guards, beside, guarded
from tests.engine.naive import normal

kernel = pytest.importorskip("engine.kernels.decode.triton.append_keys")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [16, 24, 128])
@pytest.mark.parametrize("append", [append_keys, append_keys_reference, kernel.append_keys_triton])
def test_a_token_takes_its_slot_alone(append: object, head_dim: int, dtype: torch.dtype) -> None:
    (keys, values), whole = guarded(normal(2, 3, 10, head_dim, dtype=dtype).to(DEVICE))
    before = keys.clone(), values.clone()
    token = beside(normal(1, 6, head_dim, dtype=dtype, seed=1).to(DEVICE))
    key, value = (part.transpose(0, 1) for part in token.split(3, dim=1))
    append(keys, values, key, value, torch.tensor([7], device=DEVICE))  # type: ignore[operator]
    for found, old, new in zip((keys, values), before, (key, value), strict=True):
        expected = old.clone()
        expected[:, 7] = new[:, 0]
        assert_close(found, expected, rtol=0.0, atol=0.0)
    assert_guards(whole)


def test_a_token_that_does_not_fit_is_refused() -> None:
    keys = normal(3, 10, 16)
    with pytest.raises(ShapeError, match="does not fit"):
        append_keys(keys, keys, keys[:, :2], keys[:, :2], torch.tensor([0]))
