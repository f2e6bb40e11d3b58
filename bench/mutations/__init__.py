"""Plant bugs one at a time, and see whether the tests notice.

    python -m bench.mutations                       # all of them, in copies of the tree
    python -m bench.mutations --only budget --jobs 2
    python -m bench.mutations --resume run.json     # go on after an interruption

The TOML files beside this one list the bugs: a text within a function, and what replaces it. Each
is planted in a temporary copy of the tree, never in the working tree, and the tests that should see
it are run there, until one fails. The tests that failed must pass without the bug. Not part of CI,
where a quick test checks that every bug can be planted.
"""

from bench.mutations.program import main

__all__ = ["main"]
