"""Attention of many tokens at a time: a document's prefill, and a question's."""
