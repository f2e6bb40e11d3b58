"""Artifacts on disk: published as a whole or not at all, and verified when they are loaded."""
