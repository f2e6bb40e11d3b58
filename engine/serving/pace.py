"""How much work a forward pass may hold, so that nobody waits long for it; learned from times."""

PREFILL_STEP_S = 0.030  # that somebody who decodes waits for others' prefills
DECODE_STEP_S = 0.080  # that a question's prefill waits for others' tokens
RECENT_WEIGHT = 0.2
OUTLIER = 2.0  # times the mean: what a single step counts at most
MIN_ROWS = 4
SHARED_ROWS = 8  # about one document, in a step that holds no other's, however slow it is


class Pace:
    """Limits of a step that follow from how long steps took.

    They decide when a question is served, never what it computes.

    Args:
        max_rows: answers that can take part in one decoding pass.
        max_prefill_tokens: of one pass, however fast it is.

    Attributes:
        prefill_tokens: of the prefills of one step; a single part may have more.
        decode_rows: answers that take part in one decoding step.
        shared_rows: the same where all are about one document, at least `SHARED_ROWS`: what they
            read of it is read once, so that fewer would make the step hardly quicker.
    """

    def __init__(self, max_rows: int, max_prefill_tokens: int = 4096) -> None:
        self._max_rows = max_rows
        self._max_prefill_tokens = max_prefill_tokens
        self._token_s: float | None = None
        self.prefill_tokens = min(512, max_prefill_tokens)
        self.decode_rows = min(16, max_rows)

    @property
    def shared_rows(self) -> int:
        """Answers about one document that take part in one decoding step."""
        return min(self._max_rows, max(self.decode_rows, SHARED_ROWS))

    def note_prefill(self, num_tokens: int, spent_s: float) -> None:
        """Learn from a step of prefills."""
        token_s = spent_s / num_tokens
        mean_s = token_s if self._token_s is None else self._token_s
        token_s = min(token_s, OUTLIER * mean_s)  # the machine did something else meanwhile
        self._token_s = mean_s + RECENT_WEIGHT * (token_s - mean_s)
        fitting = int(PREFILL_STEP_S / max(self._token_s, 1e-9))
        self.prefill_tokens = max(1, min(fitting, self._max_prefill_tokens))

    def note_decode(self, num_rows: int, spent_s: float) -> None:
        """Learn from a decoding step: more rows while steps are quick, fewer where they are not."""
        if spent_s > DECODE_STEP_S:
            fewer = int(num_rows * DECODE_STEP_S / spent_s)
            self.decode_rows = min(self._max_rows, max(MIN_ROWS, fewer))
        else:
            faster = int(num_rows * min(2.0, DECODE_STEP_S / max(spent_s, 1e-9)))
            self.decode_rows = min(self._max_rows, max(self.decode_rows, faster))
