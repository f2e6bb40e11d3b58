"""Routes of documents: upload, list, progress events, deletion; and loading a document's cache."""
