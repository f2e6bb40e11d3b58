"""Excerpts as they stand in real documents, written by hand, with slots; one text file a domain."""
