"""Limits of what the kernels can take, and integer arithmetic on sizes."""

WIDTH_STEP, MAX_WIDTH = 16, 256  # of a head: rows begin at multiples of 16 bytes, and tiles fit
MAX_ELEMENTS = 1 << 31  # of one KV head's keys: below it the kernels can count in 32 bits


def has_kernels(head_dim: int) -> bool:
    """Return whether the attention kernels take heads of a width.

    Args:
        head_dim: numbers of a key; a multiple of 16, up to 256.
    """
    return 0 < head_dim <= MAX_WIDTH and head_dim % WIDTH_STEP == 0


def tile_bytes(head_dim: int, element_size: int) -> int:
    """Return the bytes of a key in a tile, whose sides are powers of two.

    Args:
        head_dim: numbers of a key.
        element_size: bytes of one number.
    """
    return power_of_two(head_dim) * element_size


def power_of_two(count: int) -> int:
    """Return the least power of two that is at least `count`; 1 for a count of 0."""
    return 1 << max(0, count - 1).bit_length()


def ceil_div(count: int, divisor: int) -> int:
    """Return `count / divisor`, rounded up."""
    return -(-count // divisor)
