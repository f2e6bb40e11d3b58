"""Attention of a question over a document, and what it says about the document."""
