"""Where uploaded originals lie; one file per way of keeping them."""
