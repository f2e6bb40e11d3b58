"""A document as the engine holds it, on disk and in memory, and its budgets."""
