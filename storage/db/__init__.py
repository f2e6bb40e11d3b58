"""The SQL database: connections, tables, records, migrations and typed errors."""
