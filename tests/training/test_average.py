"""Averages of weights: on the way from one to the other, and of one shape only."""

from dataclasses import replace

import pytest
import torch

from common.errors import InvalidInput
from training.average import average
from training.model import TINY, Reader


@pytest.fixture
def pair():
    torch.manual_seed(0)
    return Reader(TINY), Reader(TINY)


def parameters(reader):
    return torch.cat([parameter.detach().flatten().clone() for parameter in reader.parameters()])


@pytest.mark.parametrize("share", [0.0, 0.65, 1.0])
def test_an_average_has_its_share_of_either(pair, share):
    later, earlier = map(parameters, pair)
    assert (later - earlier).norm() > 1
    found = parameters(average(*pair, share))
    torch.testing.assert_close(found, share * later + (1 - share) * earlier)


def test_the_rotary_base_stays_the_later_ones():
    later = replace(TINY, rope_theta=4 * TINY.rope_theta)
    assert average(Reader(later), Reader(TINY), 0.65).shape == later


def test_weights_of_another_shape_are_refused(pair):
    other = Reader(replace(TINY, layers=TINY.layers + 1))
    with pytest.raises(InvalidInput, match="one shape"):
        average(pair[0], other, 0.5)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_past_the_ends_is_refused(pair, share):
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        average(*pair, share)
