"""The learning rate's course: up, flat, down."""

FLOOR = 0.1  # of the height
RAMP = 0.2  # of all steps, up and down alike


def learning_rate(step: int, steps: int, height: float) -> float:
    """The rate of a step, from 0 on.

    Linear from a tenth of the height in the first fifth of the steps, and back to it in the last.
    Source: DuoAttention, section 3.1.
    """
    ramp = RAMP * steps
    share = min(1.0, step / ramp, (steps - 1 - step) / ramp)
    return height * (FLOOR + (1 - FLOOR) * max(0.0, share))
