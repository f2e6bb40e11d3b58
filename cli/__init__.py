"""The `lectern` command: it composes all packages, and is a client of the HTTP API."""
