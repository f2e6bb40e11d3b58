"""What lives as long as the process: queue of questions, cache of documents, watchers."""
