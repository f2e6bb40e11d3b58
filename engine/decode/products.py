"""Products of a layer's input with its weights, whatever the number of rows."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from engine.kernels.decode.matvec import MAX_ROWS, empty_products, matvec


@torch.library.custom_op("lectern::products", mutates_args=())
def products(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Multiply vectors by one or several matrices: a few by `matvec`, more by the library.

    To a compiler it is one operation for any number of rows, so that it compiles layers once for
    all of them.

    Args:
        x: (rows, k), at least one row.
        weights: as for `matvec`, each (n, k).
        biases: (n,) for each weight, or none at all.
    Returns: (rows, sum of n) in x's dtype; the products with the weights side by side.
    Raises: ShapeError as `matvec`.
    """
    if len(x) <= MAX_ROWS:
        few: Tensor = matvec(x, weights, biases)
        return few
    if len(weights) == 1:
        return linear(x, weights[0], biases[0] if biases else None)
    out = empty_products(x, weights, biases)
    sizes = [len(weight) for weight in weights]
    for index, part in enumerate(torch.split(out, sizes, 1)):
        if biases:
            torch.addmm(biases[index], x, weights[index].T, out=part)
        else:
            torch.mm(x, weights[index].T, out=part)
    return out


products.register_fake(empty_products)
