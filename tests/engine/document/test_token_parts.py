"""Sums over the tokens of a text's parts."""

import pytest
import torch

from engine.document.token_parts import TokenParts


@pytest.mark.parametrize(
    "part_of_token",
    [[0, 0, 1, 3, 3, 3], [2], [], [0, 1, 0, 0, 4, 4, 1]],
    ids=["parts without tokens", "one token", "no token", "parts that come again"],
)
def test_each_part_gets_what_its_tokens_have(part_of_token: list[int]) -> None:
    parts = torch.tensor(part_of_token, dtype=torch.int64)
    values = torch.rand(len(parts), generator=torch.Generator().manual_seed(0))
    expected = torch.zeros(5).index_add_(0, parts, values)
    torch.testing.assert_close(TokenParts.of(parts, 5).sums(values), expected)
