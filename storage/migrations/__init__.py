"""The schema's history; `storage.migrate` runs it."""
