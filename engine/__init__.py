"""Tensors: model, caches, lookup, attention and generation; no web, no SQL."""
