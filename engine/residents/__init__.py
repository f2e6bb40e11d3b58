"""The documents that are in memory: in which tier each is, what may be evicted, how one is loaded."""
