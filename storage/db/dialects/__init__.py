"""How to connect to each kind of database, one file each."""
