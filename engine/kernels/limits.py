"""What kernels can take; a document or a model past it is attended to without them."""

HEAD_DIMS = (16, 32, 64, 128, 256)  # a tile's sides are powers of two
MAX_ELEMENTS = 1 << 31  # of one head's keys: within it kernels count in 32 bits
