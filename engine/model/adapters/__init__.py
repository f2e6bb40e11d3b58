"""Models whose attention bypasses transformers' interface; a file is named after its model type."""
