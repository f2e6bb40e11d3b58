"""The schema's history; `storage.db.migrate` runs it."""
