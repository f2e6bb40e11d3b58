"""Average weights that were trained from one another.

    python -m training.average LATER EARLIER --share 0.65 --out OUT

Along the way from one training's weights to those of another that went on from them, what both
know is kept, and what only the later one learned fades slowly (model soups, Wortsman et al. 2022,
arXiv:2203.05482).
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from common.errors import InvalidInput
from training.model import Reader
from training.weights import load_weights, save_weights


@torch.no_grad()
def average(later: Reader, earlier: Reader, share: float) -> Reader:
    """The later one's parameters, moved to `share` of themselves and the rest of the earlier's.

    The rotary base stays the later one's.

    Raises: InvalidInput if they differ in sizes or the share is not within 0 and 1.
    """
    if later.shape != replace(earlier.shape, rope_theta=later.shape.rope_theta):
        raise InvalidInput("Only weights of one shape can be averaged.")
    if not 0 <= share <= 1:
        raise InvalidInput(f"A share of {share} is not between 0 and 1.")
    for mine, other in zip(later.parameters(), earlier.parameters(), strict=True):
        mine.copy_(mine * share + other * (1 - share))
    return later


def main() -> None:
    """Parse the command line, average, write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("later", type=Path, help="folder of weights")
    parser.add_argument("earlier", type=Path, help="folder of weights")
    parser.add_argument("--share", type=float, required=True, help="of the later weights")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    readers = load_weights(options.later), load_weights(options.earlier)
    save_weights(average(*readers, options.share), options.out)


if __name__ == "__main__":
    main()
