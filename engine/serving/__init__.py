"""Answering many questions at once: who takes part in a pass, and the thread that takes them."""
