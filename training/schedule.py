"""The schedule: stages of mixed sequence lengths, and the learning rate over the whole time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

WARM_UP_STEPS = 150


@dataclass(frozen=True)
class Stage:
    """A part of the curriculum.

    Attributes:
        mix: sequence lengths, each with its share of the steps.
        seconds: of training.
    """

    mix: tuple[tuple[int, float], ...]
    seconds: float

    def lengths(self) -> Iterator[int]:
        """A length for each step, without end, spread evenly: the same in every process."""
        total = sum(share for _, share in self.mix)
        due = {length: 0.0 for length, _ in self.mix}
        while True:
            for length, share in self.mix:
                due[length] += share / total
            length = max(due, key=due.__getitem__)
            due[length] -= 1
            yield length


@dataclass
class Progress:
    """How far training has come."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    steps_here: int = 0  # since the moments began


@dataclass(frozen=True)
class Schedule:
    """Stages, and the learning rate over the whole time: warm-up, plateau, linear decay.

    Attributes:
        peak: learning rate.
        decay_share: of the time, at its end.
        warm_up: steps, whenever the moments begin anew.
    """

    stages: tuple[Stage, ...]
    peak: float
    decay_share: float
    warm_up: int = WARM_UP_STEPS

    @property
    def seconds(self) -> float:
        """Length of the whole training."""
        return sum(stage.seconds for stage in self.stages)

    def stage_at(self, seconds: float) -> Stage | None:
        """The stage at a time; nothing when all is done."""
        for stage in self.stages:
            if seconds < stage.seconds:
                return stage
            seconds -= stage.seconds
        return None

    def rate(self, progress: Progress) -> float:
        """Learning rate now."""
        left = max(0.0, 1 - progress.seconds / self.seconds)
        warm = min(1.0, (progress.steps_here + 1) / max(1, self.warm_up))
        return self.peak * warm * min(1.0, left / self.decay_share)

    def lasting(self, seconds: float) -> "Schedule":
        """The same schedule, stretched or shrunk to a length."""
        scale = seconds / self.seconds
        stages = (replace(stage, seconds=stage.seconds * scale) for stage in self.stages)
        return replace(self, stages=tuple(stages))


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Read `512:80,2048*3+8192:240`: lengths with their shares of the steps, and seconds."""
    parts = (part.split(":") for part in text.split(","))
    return tuple(Stage(_parse_mix(mix), float(seconds)) for mix, seconds in parts)


def _parse_mix(text: str) -> tuple[tuple[int, float], ...]:
    pairs = (f"{part}*1".split("*") for part in text.split("+"))
    return tuple((int(pair[0]), float(pair[1])) for pair in pairs)
