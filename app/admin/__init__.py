"""The operator's dashboard: pages rendered on the server, with a login of their own."""
