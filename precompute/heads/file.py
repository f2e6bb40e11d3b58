"""DuoAttention's pattern files: a folder with the gates as TSV and the settings as JSON.

`full_attention_heads.tsv` has a line a layer and a number a KV head, tab-separated, without a
header; `config.json` has `sink_size` and `recent_size`. Source: the authors' repository,
https://github.com/mit-han-lab/duo-attention, attn_patterns/.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from common.errors import HeadPlanRejected, InvalidInput
from engine.model.head_plan import HeadPlan
from engine.model.loader import LoadedModel
from precompute.heads.base import HeadMethod, Measure, Progress, Scores

GATES_FILE, SETTINGS_FILE = "full_attention_heads.tsv", "config.json"
GATED = frozenset({"duo", "file"})  # methods whose scores are gates already


@dataclass(frozen=True)
class FileConfig:
    """The pattern's folder."""

    folder: Path


@dataclass(frozen=True)
class Pattern:
    """A pattern file's contents.

    Attributes:
        gates: in [0, 1], per layer, per KV head.
        num_sinks, window: of streaming heads, in tokens.
    """

    gates: Scores
    num_sinks: int
    window: int


CONFIG = FileConfig


def build(config: FileConfig) -> "PatternFile":
    """Build the method."""
    return PatternFile(config)


class PatternFile(HeadMethod):
    """Gates that somebody else trained; the highest are retrieval heads."""

    def __init__(self, config: FileConfig) -> None:
        self._folder = config.folder

    def measure(self, model: LoadedModel, progress: Progress) -> Measure:
        """Read the gates.

        Raises: HeadPlanRejected if they are unreadable, or for another number of layers or heads.
        """
        pattern = read_pattern(self._folder)
        shape = [len(layer) for layer in pattern.gates]
        wanted = [layer.num_kv_heads for layer in model.spec.layers]
        if shape != wanted:
            raise HeadPlanRejected(
                f"The pattern in '{self._folder}' has {len(shape)} layers of {_counts(shape)} "
                f"heads; the model has {len(wanted)} layers of {_counts(wanted)} KV heads."
            )
        progress(1, 1)
        settings = {
            "pattern": self._folder.name,
            "num_sinks": pattern.num_sinks,
            "window": pattern.window,
        }
        return Measure(pattern.gates, settings)


def read_pattern(folder: Path) -> Pattern:
    """Read a pattern; training leaves gates slightly outside [0, 1], which are clipped.

    Raises: HeadPlanRejected if a file is missing or damaged.
    """
    try:
        lines = (folder / GATES_FILE).read_text(encoding="utf-8").splitlines()
        config = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
        gates = tuple(tuple(map(_gate, line.split("\t"))) for line in lines if line.strip())
        sizes = int(config["sink_size"]), int(config["recent_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HeadPlanRejected(f"'{folder}' holds no pattern that can be read: {error}.") from error
    if not gates or len({len(layer) for layer in gates}) > 1:
        raise HeadPlanRejected(f"The lines of {GATES_FILE} in '{folder}' differ in length.")
    return Pattern(gates, *sizes)


def write_pattern(plan: HeadPlan, folder: Path) -> None:
    """Write a plan for DuoAttention's programs.

    Gates are written as they are; of other methods, whose scores are no gates, what they chose.

    Args:
        folder: gets the gates, a line a layer and a column a KV head, and the settings.
    Raises: InvalidInput for a plan whose window depends on the length, which they cannot express.
    """
    if plan.window_share:
        raise InvalidInput(
            "DuoAttention's pattern files have no window that depends on a document's length."
        )
    rows = plan.scores if plan.method in GATED and plan.scores else plan.retrieval
    lines = ("\t".join(f"{float(number):.18e}" for number in row) for row in rows)
    config = {"sink_size": plan.num_sinks, "recent_size": plan.window}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GATES_FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / SETTINGS_FILE).write_text(json.dumps(config) + "\n", encoding="utf-8")


def _gate(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"a gate is {text}")
    return min(1.0, max(0.0, number))


def _counts(shape: list[int]) -> str:
    return "/".join(map(str, sorted(set(shape))))
