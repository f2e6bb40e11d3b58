"""Routes of documents: upload, list, progress, and loading their caches."""
