"""The documents that are in memory: where each is, what may be evicted, how one is loaded."""
