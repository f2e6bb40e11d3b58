"""Artifacts on disk: published whole or not at all, verified when loaded."""
