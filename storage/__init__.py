"""Everything that is stored: rows in SQL, originals and artifacts in folders."""
