"""Limits of what the kernels can take, and integer arithmetic on sizes."""

HEAD_DIMS = (16, 32, 64, 128, 256)  # Triton's tiles have sides of powers of two
MAX_ELEMENTS = 1 << 31  # of one KV head's keys: below it the kernels can count in 32 bits


def power_of_two(count: int) -> int:
    """Return the least power of two that is at least `count`; 1 for a count of 0."""
    return 1 << max(0, count - 1).bit_length()


def ceil_div(count: int, divisor: int) -> int:
    """Return `count / divisor`, rounded up."""
    return -(-count // divisor)
