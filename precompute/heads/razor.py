"""RazorAttention: echo heads and induction heads, found on random tokens that repeat.

An echo head looks back at the same token as the current one, an induction head at the token that
followed it. Source: RazorAttention, https://arxiv.org/abs/2407.15891, section 3.3.
"""

from dataclasses import asdict, dataclass

from engine.model.loader import LoadedModel
from precompute.heads.base import (
    HeadMethod,
    Heads,
    Measure,
    Progress,
    Scores,
    chosen_heads,
    num_chosen,
    ranked,
    refuse_plan,
)
from precompute.induction import measure_induction

ECHO = "echo"


@dataclass(frozen=True)
class RazorConfig:
    """Settings of the method.

    Attributes:
        num_ids: random tokens, all different.
        repeats: how often the sequence of them is read.
        echo, induction: shares of echo and induction heads among retrieval heads, as the paper's
            1 % and 14 % of all heads; any ratio of heads is parted as they are.
        seed: of the tokens.
    """

    num_ids: int = 2500
    repeats: int = 4
    echo: float = 0.01
    induction: float = 0.14
    seed: int = 0


CONFIG = RazorConfig


def build(config: RazorConfig | None = None) -> "Razor":
    """Build the method."""
    return Razor(config or RazorConfig())


class Razor(HeadMethod):
    """Attention to echo and induction tokens; a KV head counts as its best query head."""

    def __init__(self, config: RazorConfig) -> None:
        self._config = config

    def measure(self, model: LoadedModel, progress: Progress) -> Measure:
        """Read the tokens once.

        Returns: the induction scores; echo scores beside them.
        Raises: InvalidInput if vocabulary or context are too small, or if the model was loaded with
            a head plan; UnsupportedModel with ALiBi.
        """
        refuse_plan(model)
        config = self._config
        progress(0, 1)
        state = measure_induction(model, config.num_ids, config.repeats, config.seed)
        progress(1, 1)
        return Measure(tuple(state.induction), asdict(config), {ECHO: tuple(state.echo)})

    def choose(self, measure: Measure, ratio: float) -> Heads:
        """The best echo heads' part of a share of the heads, and the rest the best induction heads.

        Heads that are both count once, so the share is kept.
        """
        induction, echo = _flat(measure.scores), _flat(measure.others[ECHO])
        config, total = self._config, num_chosen(len(induction), ratio)
        part = config.echo / (config.echo + config.induction)
        chosen = ranked(echo)[: min(total, num_chosen(len(echo), ratio * part))]
        others = [head for head in ranked(induction) if head not in chosen]
        return chosen_heads(measure.scores, chosen + others[: total - len(chosen)])


def _flat(scores: Scores) -> list[float]:
    return [score for layer in scores for score in layer]
