"""The SQL database: connections, tables, records and migrations."""
