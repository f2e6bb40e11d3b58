"""Finding out that an answer goes round in a circle."""

LONGEST_CYCLE = 64  # tokens
LEAST_REPEATS = 5
LEAST_TOKENS = 80  # that all repeats have together; a row of a table or a hash of zeros has fewer


class RepetitionDetector:
    """Says after each token whether the answer ends in one and the same piece again and again.

    Only exact repeats count: lists, tables and verses whose lines differ in anything never do.
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._matches = [0] * (LONGEST_CYCLE + 1)  # by length of the cycle: equal tokens at the end

    def push(self, token: int) -> bool:
        """Add a token; return whether a cycle was repeated too often."""
        tokens, found = self._tokens, False
        for cycle in range(1, min(LONGEST_CYCLE, len(tokens)) + 1):
            if tokens[-cycle] != token:
                self._matches[cycle] = 0
                continue
            self._matches[cycle] += 1
            repeated = self._matches[cycle] + cycle
            found = found or repeated >= max(LEAST_TOKENS, LEAST_REPEATS * cycle)
        tokens.append(token)
        return found
