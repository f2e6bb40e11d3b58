"""Which variant of a kernel is fastest: each is checked, timed, told and kept on file.

A variant that fails, or whose result is wrong, is dropped and named. The first variant of a stage
is what the code has now; the last lines say what to put there instead.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from bench import RESULTS
from bench.timing import WrongResult, time_graph
from training.record import circumstances, drawn, percentiles, write

V = TypeVar("V")
Steps = Sequence[Callable[[], object]]
SHOWN = 8  # variants of a stage that are printed; the file has all


class Scan:
    """Trials of variants, on file as they are made.

    Args:
        name: of the benchmark and its file.
        options: see `parse`.
    """

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self._name, self._options = name, options
        self._started = time.monotonic()
        self.allow(1.0)
        self._clock = time_calls if options.dry or options.warm else time_replays
        self._rows: list[dict[str, Any]] = []
        self._defaults: list[str] = []
        self._failed: list[str] = []
        self._winners: dict[str, dict[str, float]] = {}
        self._about = {
            "benchmark": name,
            **circumstances("cpu" if options.dry else "cuda", drawn("each row's case", 0)),
        }
        self._save()

    def allow(self, share: float) -> None:
        """Trials may begin until that share of the time is spent."""
        self._ends: float = self._started + share * self._options.seconds

    @property
    def dry(self) -> bool:
        """Whether the interpreter takes programs one by one: few of them, then."""
        return bool(self._options.dry)

    @property
    def over(self) -> bool:
        """Whether the time is spent."""
        return time.monotonic() > self._ends

    def pick(
        self,
        case: str,
        stage: str,
        constant: str,
        variants: Iterable[V],
        check: Callable[[V], None],
        steps: Callable[[V], Steps],
    ) -> V:
        """Try variants; returns the fastest that is right, or the first where none was tried.

        Args:
            constant: what holds the variant in the code.
            variants: hashable, the present one first.
            check: raises where a variant's result is wrong.
            steps: calls over inputs that together are several times the L2 cache.
        """
        tried = list(dict.fromkeys(variants))[: self._options.variants]
        if self._options.only and stage not in self._options.only:
            return tried[0]
        times: dict[V, float] = {}
        dropped: dict[V, str] = {}
        for variant in tried:
            if self.over:
                break
            row = {"case": case, "stage": stage, "variant": _plain(variant)}
            try:
                if not self._options.warm:
                    check(variant)
                timing = self._clock(steps(variant))
            except (Exception, WrongResult) as error:  # a compiler fails in many ways
                dropped[variant] = f"{type(error).__name__}: {error}"[:160]
                self._keep(row | {"dropped": dropped[variant]})
                if torch.cuda.is_available():
                    torch.cuda.synchronize()  # what the device does not recover from ends the scan
            else:
                times[variant] = timing["p50"]
                self._keep(row | timing)
        print(_table(f"{case} {stage}", tried, times, dropped), flush=True)
        if not times:
            self._failed += [f"{case} {stage}"] if dropped else []
            return tried[0]
        best = min(times, key=times.__getitem__)
        before = f", now {times[tried[0]]:.1f}" if tried[0] in times else ""
        self._defaults.append(
            f"{constant}: {_told(best, tried)}  ({case}: {times[best]:.1f} us{before})"
        )
        return best

    def tell(self, name: str, steps: Steps) -> None:
        """Time a part of what was picked, print it and keep it."""
        timing = self._winners[name] = self._clock(steps)
        told = ", ".join(f"{key} {timing[key]:.1f}" for key in ("p20", "p50", "p80"))
        print(f"  {name}: {told} us", flush=True)
        self._save()

    def close(self) -> None:
        """Print what to put into the defaults. Raises: SystemExit if a stage had no variant."""
        print("\nDefaults; what is not named stays:", *self._defaults, sep="\n  ", flush=True)
        print(f"written to {self._save()}")
        if self._failed:
            raise SystemExit(f"No variant is right: {', '.join(self._failed)}")

    def _keep(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        self._save()

    def _save(self) -> Path:
        result = {
            **self._about,
            "microseconds": self._rows,
            "defaults": self._defaults,
            "winners": self._winners,
        }
        return write(self._name, result, self._options.out)


def parse(
    parser: argparse.ArgumentParser, stages: Sequence[str], given: Sequence[str] | None
) -> argparse.Namespace:
    """The options that scans share, and those that `parser` has already."""
    parser.add_argument("--only", nargs="+", choices=stages, help="stages to scan")
    parser.add_argument("--seconds", type=float, default=280, help="begin no trial after them")
    parser.add_argument(
        "--warm", action="store_true", help="only compile: several at a time, before a scan"
    )
    parser.add_argument("--variants", type=int, default=None, help="of a stage, at most")
    parser.add_argument(
        "--dry", action="store_true", help="tiny, on a CPU, with TRITON_INTERPRET=1"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args(given)


def time_replays(steps: Steps) -> dict[str, float]:
    """As `time_graph`, with fewer samples: to rank variants, not to report one."""
    return time_graph(steps, least_steps=8, replays=20)


def time_calls(steps: Steps) -> dict[str, float]:
    """Microseconds a step on the host's clock: shows that a scan works, and nothing else."""
    started = time.perf_counter()
    for step in steps:
        step()
    return percentiles([(time.perf_counter() - started) * 1e6 / len(steps)])


def demand(errors: dict[str, float], tolerance: dict[str, float]) -> None:
    """Raise WrongResult unless every error is within its tolerance."""
    if not all(errors[name] <= limit for name, limit in tolerance.items()):
        raise WrongResult(f"A kernel is wrong: {errors}")


def _table(title: str, tried: Sequence[V], times: dict[V, float], dropped: dict[V, str]) -> str:
    ranked = sorted(times, key=times.__getitem__)
    left = len(tried) - len(times) - len(dropped)
    lines = [f"== {title}: {len(times)} right" + (f", {left} not tried" if left else "")]
    for variant in ranked[:SHOWN]:
        now = "  (now)" if variant == tried[0] else ""
        lines.append(f"  {times[variant]:8.1f} us  {_told(variant, tried)}{now}")
    if len(ranked) > SHOWN:
        lines.append(f"  ... up to {times[ranked[-1]]:.1f} us")
    lines += [f"  dropped {_told(variant, tried)}: {why}" for variant, why in dropped.items()]
    return "\n".join(lines)


def _told(variant: object, among: Sequence[object]) -> str:
    """The fields in which variants differ."""
    if not is_dataclass(variant) or len(among) == 1:
        return str(variant)
    names = [field.name for field in fields(variant)]
    differing = [name for name in names if len({getattr(one, name) for one in among}) > 1]
    return " ".join(f"{name}={getattr(variant, name)}" for name in differing)


def _plain(variant: object) -> object:
    return variant if not is_dataclass(variant) or isinstance(variant, type) else asdict(variant)
