"""How each kind of database is connected to."""
