"""The operator's dashboard: server-rendered pages behind a login of their own."""
