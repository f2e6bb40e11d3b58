"""What all routes share: authentication, errors, limits, event streams, and the server itself."""
