"""What stands in a slot of a wording: a value of its kind, or the name of a thing."""

from random import Random

from training.data import values
from training.data.entities import draw_entity
from training.data.speech import Voice

ENTITY_KINDS = {"object": "thing", "event": "project", "site": "site", "service": "service"}


def draw_slot(kind: str, rng: Random, voice: Voice) -> str:
    """Draw what fills a slot of a kind of ENTITY_KINDS or of training.data.values.

    Raises: KeyError for an unknown kind.
    """
    if kind in ENTITY_KINDS:
        return draw_entity(ENTITY_KINDS[kind], rng, held_out=voice.held_out).name
    return values.draw(kind, rng, held_out=voice.held_out)
