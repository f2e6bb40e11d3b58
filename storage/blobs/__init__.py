"""Where uploaded originals are stored; one file for each kind of blob store."""
