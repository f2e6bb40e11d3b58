"""`python -m bench.mutations`."""

from bench.mutations import main

if __name__ == "__main__":
    main()
