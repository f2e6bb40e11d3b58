"""One folder an operation: `op.py` is the contract, `reference.py` defines it in plain torch."""
