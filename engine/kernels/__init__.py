"""One folder an operation: `op.py` is the contract, `reference.py` the plain torch that defines it."""
