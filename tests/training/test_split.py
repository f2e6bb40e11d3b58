"""What is held out stays held out, whatever is added to training."""

from zlib import crc32

from training.data import frames, wordings
from training.data.attributes import ATTRIBUTES
from training.data.split import patterns_for

GENERIC = (
    wordings.STATEMENTS, wordings.PRONOUN_STATEMENTS, wordings.QUESTIONS,
    wordings.STATEMENT_HEADS, wordings.STATEMENT_TAILS, wordings.QUESTION_HEADS,
    wordings.QUESTION_TAILS, wordings.INNER_TAILS, frames.NOUN_PHRASES, frames.QUESTION_FRAMES,
    frames.SUBJECT_QUESTIONS, frames.PREDICATES, frames.SUBJECT_STATEMENTS,
    frames.VERB_STATEMENTS, frames.CONTRASTS, frames.NEGATIVE_STATEMENTS,
    *frames.TYPED_QUESTIONS.values(), *frames.TYPED_PREDICATES.values(),
)  # fmt: skip


def held_out(pools):
    """How many patterns the pools hold out, and their checksum."""
    kept = sorted(one for pool in pools for one in patterns_for(pool, "held_out"))
    return len(kept), crc32("\n".join(kept).encode())


def test_the_held_out_wordings_are_those_of_run_5():
    assert held_out(GENERIC) == (173, 2144329415)


def test_the_held_out_paraphrases_are_those_of_run_5():
    own = [pool for one in ATTRIBUTES for pool in (one.statements, one.questions)]
    assert held_out(own) == (172, 1851081470)
