"""The `lectern` command: the composition root and a client of the HTTP API."""
