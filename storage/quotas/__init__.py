"""What tenants and keys may use, and what they have used: limits, counts of rows, spans of time."""
