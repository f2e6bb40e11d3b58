"""Settings of DuoAttention's gates."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Recipe = Literal["served", "paper"]


@dataclass(frozen=True)
class DuoConfig:
    """How gates are trained; the schedule is the paper's, section 3.1.

    Attributes:
        steps: of the optimiser, one document each.
        min_tokens, max_tokens, num_lengths: documents are of that many lengths between these two;
            the model's context bounds them further.
        num_passkeys: hidden in a document and asked for after it.
        recipe: "served", passkeys of several kinds, of names that are near rivals, each asked for
            on its own, through what streaming heads keep of the document when it is served; or
            "paper", pass phrases alone, whose questions follow one another as one text.
        max_words: longest pass phrase; its length is drawn from 1 on. The paper's are up to 32.
        learning_rate: at its height.
        regularisation: weight of the gates' L1 norm, taken as their mean (as in the authors' code;
            the paper writes the sum) so that it means the same for models of any size.
        num_sinks, window: what a streaming head sees of a document, in tokens.
        compensation: whether a mean token stands for what it drops, when questions are "served".
        haystack: a text file, or a folder of them, to hide passkeys in; empty for made-up text.
        state: file to resume from and to save to now and then; empty to keep nothing.
        save_steps: steps between two saves.
        seed: of all documents.
    """

    steps: int = 2000
    min_tokens: int = 1000
    max_tokens: int = 32_000
    num_lengths: int = 50
    num_passkeys: int = 10
    recipe: Recipe = "served"
    max_words: int = 4
    learning_rate: float = 0.02
    regularisation: float = 0.05
    num_sinks: int = 64
    window: int = 256
    compensation: bool = True
    haystack: str = ""
    state: str = ""
    save_steps: int = 50
    seed: int = 42

    def described(self) -> dict[str, Any]:
        """What the gates depend on, JSON-like; a folder's place does not matter, its name does."""
        fields = asdict(self)
        del fields["state"], fields["save_steps"]
        fields["haystack"] = self.haystack.rstrip("/").rpartition("/")[2]
        return fields
