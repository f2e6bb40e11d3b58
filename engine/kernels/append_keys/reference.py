"""`append_keys` in plain torch."""

from torch import Tensor


def append_keys_reference(
    keys: Tensor, values: Tensor, key: Tensor, value: Tensor, slot: Tensor
) -> None:
    """See `append_keys`."""
    keys.index_copy_(1, slot, key)
    values.index_copy_(1, slot, value)
