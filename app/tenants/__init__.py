"""Routes of a tenant: its keys, what it has used, and what holds for its documents."""
