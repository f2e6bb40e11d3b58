"""The protocol: middleware, errors, keys, event streams, the server and its health."""
