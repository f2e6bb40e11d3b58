"""What kernels can take; a document or a model past it is attended to without them."""

HEAD_DIMS = (16, 32, 64, 128, 256)  # a tile's sides are powers of two
MAX_ELEMENTS = 1 << 31  # of one head's keys: within it kernels count in 32 bits


def power_of_two(count: int) -> int:
    """The least power of two that is at least `count`."""
    return 1 << max(0, count - 1).bit_length()


def ceil_div(count: int, by: int) -> int:
    """How many parts of `by` hold `count`."""
    return -(-count // by)
