"""Documents with passkeys at random depths, and the questions that ask for them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product, zip_longest
from random import Random
from string import ascii_uppercase

import torch
from torch import Tensor

from common.errors import InvalidInput
from engine.model.loader import LoadedModel
from precompute.heads.duo.config import DuoConfig
from precompute.heads.duo.haystack import NOUNS, SYLLABLES, Haystack

DEPTHS = (0.05, 0.95)  # of the text, first and last place of a passkey
SAMPLE_CHARS = 20_000


@dataclass(frozen=True)
class PasskeyDocument:
    """A prompt that ends with every passkey asked for and answered.

    Attributes:
        ids: (tokens,) int64.
        answers: (answer tokens,) int64: where the model foretells the answers' tokens, the places
            right before theirs.
        turns: (tokens,) int64: 0 for the document, else the number of the token's question.
    """

    ids: Tensor
    answers: Tensor
    turns: Tensor


@dataclass(frozen=True)
class Passkeys:
    """Makes the documents of a training, each from its step alone.

    Attributes:
        chars_per_token: of the haystack in the model's tokens.
    """

    model: LoadedModel
    config: DuoConfig
    haystack: Haystack
    chars_per_token: float

    @classmethod
    def of(cls, model: LoadedModel, config: DuoConfig, haystack: Haystack) -> "Passkeys":
        """Measure the haystack's tokens.

        Raises: InvalidInput if the model's context does not hold the shortest document.
        """
        if config.min_tokens > min(config.max_tokens, model.spec.context_length):
            raise InvalidInput(
                f"Documents of {config.min_tokens} tokens and more do not fit: at most "
                f"{min(config.max_tokens, model.spec.context_length)} are allowed."
            )
        sample = haystack.draw(SAMPLE_CHARS, Random(config.seed))
        tokens = len(model.prompt.encode_document(sample).ids)
        return cls(model, config, haystack, len(sample) / tokens)

    def document(self, step: int) -> PasskeyDocument:
        """The document of a step, from 0 on; as long as its passkeys at least."""
        config, rng = self.config, Random(f"{self.config.seed} {step}")
        keys = (_rivals if config.recipe == "served" else _phrases)(rng, config)
        facts = [f"The {name} is: {value}." for name, value in keys.items()]
        turns = [self._turn(name, value) for name, value in keys.items()]
        rng.shuffle(turns)
        prompt, room = self.model.prompt, self._length(rng)
        room -= sum(len(part) for turn in turns for part in turn)
        room -= sum(len(prompt.encode_answer(fact)) for fact in facts)
        num_chars = max(1, int(room * self.chars_per_token))
        text = hide(facts, self.haystack.draw(num_chars, rng), rng)
        return _join(prompt.encode_document(text).ids, turns)

    def _length(self, rng: Random) -> int:
        config = self.config
        most = min(config.max_tokens, self.model.spec.context_length)
        part = rng.randrange(config.num_lengths) / max(1, config.num_lengths - 1)
        return round(config.min_tokens + part * (most - config.min_tokens))

    def _turn(self, name: str, value: str) -> tuple[Tensor, Tensor]:
        """A question and its answer, with the token that ends it unless the next turn brings it."""
        prompt, ends = self.model.prompt, self.model.eos_ids
        end = () if prompt.middle and prompt.middle[0] in ends else ends[:1]
        question = prompt.encode_question(f"What is the {name}?")
        return question, torch.cat((prompt.encode_answer(value), torch.tensor(end).long()))


def hide(facts: Sequence[str], text: str, rng: Random) -> str:
    """Put facts between sentences of a text, at depths drawn one by one; no two trade places."""
    places = sorted(_gap(text, int(rng.uniform(*DEPTHS) * len(text))) for _ in facts)
    cuts = zip([0, *places], [*places, len(text)], strict=True)
    pieces = [text[start:end].strip() for start, end in cuts]
    parts = (part for pair in zip_longest(pieces, facts) for part in pair)
    return " ".join(part for part in parts if part)


def _gap(text: str, place: int) -> int:
    """The end of the sentence that `place` stands in, or of its word if no sentence ends."""
    found = re.compile(r"[.!?]\s").search(text, place) or re.compile(r"\s").search(text, place)
    return found.end() if found else place


def _phrases(rng: Random, config: DuoConfig) -> dict[str, str]:
    """Pass phrases of names that have little in common."""
    return {
        f"pass phrase of {_made(rng)} {rng.choice(NOUNS).title()}": _words(rng, config.max_words)
        for _ in range(config.num_passkeys)
    }


def _rivals(rng: Random, config: DuoConfig) -> dict[str, str]:
    """Values of several kinds; most names share a part, and their kind, with others."""
    first = [_made(rng) for _ in range(max(2, -(-config.num_passkeys // len(KINDS))))]
    last = [noun.title() for noun in rng.sample(NOUNS, 2)]
    chosen = rng.sample(list(product(KINDS, first, last)), config.num_passkeys)
    return {
        f"{kind} of {one} {other}": KINDS[kind](rng, config.max_words)
        for kind, one, other in chosen
    }


def _made(rng: Random) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(3)).title()


def _words(rng: Random, most: int) -> str:
    return " ".join(rng.choice(NOUNS) for _ in range(rng.randint(1, most)))


def _number(rng: Random, _most: int) -> str:
    return str(rng.randrange(10 ** rng.randint(1, 6)))


def _code(rng: Random, _most: int) -> str:
    return f"{''.join(rng.choices(ascii_uppercase, k=3))}-{rng.randrange(1000, 10_000)}"


def _full_name(rng: Random, _most: int) -> str:
    return f"{_made(rng)} {_made(rng)}"


KINDS = {
    "pass phrase": _words,
    "badge number": _number,
    "access code": _code,
    "keeper": _full_name,
}


def _join(document: Tensor, turns: Sequence[tuple[Tensor, Tensor]]) -> PasskeyDocument:
    parts, answers, length = [document], [], len(document)
    numbers = [torch.zeros_like(document)]
    for number, (question, answer) in enumerate(turns, start=1):
        first = length + len(question) - 1
        answers.append(torch.arange(first, first + len(answer)))
        parts += [question, answer]
        numbers.append(torch.full((len(question) + len(answer),), number))
        length += len(question) + len(answer)
    return PasskeyDocument(torch.cat(parts), torch.cat(answers), torch.cat(numbers))
