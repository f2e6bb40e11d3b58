"""Training and evaluation data, generated on the fly and never stored."""
