"""What a model's generation_config.json asks for."""

from dataclasses import dataclass
from typing import Any

# Settings that choose tokens, which are not applied here; there is a warning if a model has them.
NOT_APPLIED = (
    "bad_words_ids", "begin_suppress_tokens", "encoder_repetition_penalty", "epsilon_cutoff",
    "eta_cutoff", "exponential_decay_length_penalty", "force_words_ids", "forced_bos_token_id",
    "forced_eos_token_id", "guidance_scale", "min_length", "min_new_tokens",
    "no_repeat_ngram_size", "num_beams", "penalty_alpha", "sequence_bias", "suppress_tokens",
    "top_h", "typical_p",
)  # fmt: skip


@dataclass(frozen=True)
class GenerationDefaults:
    """A model's own way of choosing tokens.

    Attributes:
        eos_ids: tokens that end an answer.
        temperature: 0.0 if the model asks for no sampling.
        top_p: share of probability that is drawn from; 1.0 for all.
        top_k: tokens that are drawn from; 0 for all.
        min_p: least probability, as a share of the likeliest token's; 0.0 for any.
        repetition_penalty: on tokens that question and answer hold already; 1.0 for none.
        not_applied: further settings that the model asks for, which are not applied.
    """

    eos_ids: tuple[int, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    not_applied: tuple[str, ...] = ()


GREEDY = GenerationDefaults()


def read_generation_defaults(generation: Any, tokenizer: Any) -> GenerationDefaults:
    """Read transformers' generation config; what it leaves open is taken to be off."""
    samples = bool(generation.do_sample)
    given = generation.to_diff_dict()  # without what is transformers' default
    return GenerationDefaults(
        eos_ids=_eos_ids(generation.eos_token_id, tokenizer.eos_token_id),
        temperature=float(_or(generation.temperature, 1.0)) if samples else 0.0,
        top_p=float(_or(generation.top_p, 1.0)) if samples else 1.0,
        top_k=int(_or(generation.top_k, 0)) if samples else 0,
        min_p=float(_or(generation.min_p, 0.0)) if samples else 0.0,
        repetition_penalty=float(generation.repetition_penalty or 1.0),
        not_applied=tuple(name for name in NOT_APPLIED if given.get(name) is not None),
    )


def _or(value: Any, otherwise: float) -> Any:
    return otherwise if value is None else value


def _eos_ids(*given: int | list[int] | None) -> tuple[int, ...]:
    found = [
        one for ids in given if ids is not None for one in ([ids] if isinstance(ids, int) else ids)
    ]
    return tuple(dict.fromkeys(found))
