"""Decoding: graphs, the model that they run, tokens and text."""
