"""Performance and accuracy programs, with their results in `results/`."""
