"""Loading a model for exact serving, and what it is made of."""
