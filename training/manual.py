"""A second document of another kind: the service manual of an invented peat kiln.

    python -m training.manual

Like the handbook (training/handbook.py), it shares no name, figure or wording with the training data
(tests/training/test_invented.py compares them).
"""

# ruff: noqa: E501  (one wording a line, however long)

from pathlib import Path
from random import Random

from training.invented import Fact, Filler, Section, compose, save

SEED = 1848
FOLDER = Path(__file__).parent / "manual"
PEOPLE = ("Leontine Oduya", "Ingvar Castlemaine", "Philippa Zwicker", "Benedikt Achterberg")


def _about(rng: Random) -> Section:
    return Section("What this machine does", (
        Fact(f"The Brindlemoor KV-4 dries, presses and bags up to {rng.randrange(610, 690)} kilograms "
             f"of cut peat an hour. It burns its own dust and wants no other fuel once it is hot."),
        Fact("Three persons may stand on the service platform together, and not one more."),
    ), ("the kiln", "the nameplate", "the service platform", "the bagging chute"))  # fmt: skip


def _setting_up(rng: Random) -> Section:
    return Section("Setting up", (
        Fact(f"The ground below the frame has to carry {rng.randrange(5, 8)},{rng.randrange(100, 900)} "
             f"kilograms. Shims go beneath the two rear feet, never beneath the front ones."),
        Fact("Drum bolts are drawn tight crosswise with 47 newton-metres, and once more when the first "
             "load has gone through.",
             "With how many newton-metres are drum bolts drawn tight?", "47 newton-metres"),
    ), ("the frame", "a levelling foot", "the drum", "the crane eye"))  # fmt: skip


def _lighting_up(rng: Random) -> Section:
    return Section("Lighting up", (
        Fact(f"Open flap B by a hand's breadth, hold the green key down for {rng.randrange(7, 12)} "
             f"seconds, and listen for the blower."),
        Fact("The blower cuts in by itself as soon as the chamber shows 63 °C; below that it would only "
             "blow the flame out.",
             "At which chamber reading does the blower cut in?", "63 °C"),
    ), ("the flame", "flap B", "the blower", "the ignition key"))  # fmt: skip


def _cooling(rng: Random) -> Section:
    return Section("Letting it cool", (
        Fact("Leave the hatch bolted until the kiln has stood idle for 85 minutes, whatever the dial "
             "may show.",
             "For how many minutes must the kiln stand idle before the hatch is unbolted?",
             "85 minutes"),
        Fact(f"Glowing dust keeps its heat under ash for as much as {rng.randrange(17, 23)} hours."),
    ), ("the hatch", "the ash pan", "the dial", "a glowing clod"))  # fmt: skip


def _lamp_signs(rng: Random) -> Section:
    return Section("What the lamp tells you", (
        Fact("Two short flashes: the hopper has run empty. Three long flashes: the feed screw has "
             "seized. One long flash and two short: the belt has slipped off.",
             "What does the lamp do when the feed screw has seized?", "Three long flashes"),
        Fact(f"A steady glow means nothing bad; it goes out of its own accord after "
             f"{rng.randrange(31, 44)} seconds."),
    ), ("the signal lamp", "the feed screw", "the hopper", "the belt"))  # fmt: skip


def _grease(rng: Random) -> Section:
    return Section("Oil and grease", (
        Fact("Into the gear housing goes Tarnow 68, a thick oil without additives, up to the lower of "
             "the two scratches on the sight glass.",
             "Which oil goes into the gear housing?", "Tarnow 68"),
        Fact(f"The {rng.randrange(13, 19)} nipples along the press take two strokes of the gun each, "
             f"every morning, engine at rest."),
    ), ("the gear housing", "a grease nipple", "the sight glass", "the grease gun"))  # fmt: skip


def _press(rng: Random) -> Section:
    return Section("The press and its gauge", (
        Fact(f"Leaving the yard, each gauge gets a lead seal from {PEOPLE[0]}, and a gauge whose seal "
             f"is torn counts as broken.",
             "Who puts the lead seal on each gauge?", PEOPLE[0]),
        Fact(f"The ram travels {rng.randrange(260, 330)} millimetres and stays down for "
             f"{rng.randrange(4, 8)} heartbeats of the valve."),
    ), ("the ram", "the gauge", "the lead seal", "the return valve"))  # fmt: skip


def _filters(rng: Random) -> Section:
    return Section("Filter mats", (
        Fact("Filter mats are sold in packs of nine; quote PM-40418 on the slip and you will be sent "
             "the washable sort.",
             "What has to be quoted on the slip to be sent washable filter mats?", "PM-40418"),
        Fact(f"Knock a mat out after {rng.randrange(24, 31)} loads, and lay the felt side towards the "
             f"fire."),
    ), ("a filter mat", "the felt side", "the clamp rail", "the dust drawer"))  # fmt: skip


def _electrics(rng: Random) -> Section:
    return Section("Electrics", (
        Fact(f"The control cabinet is fed with {rng.choice((380, 415))} volts. {PEOPLE[1]} alone holds "
             f"the plans, and will read them to you over the telephone."),
        Fact("Rain does the cabinet no harm; a pressure washer ruins it."),
    ), ("the control cabinet", "a cable gland", "the earthing strap", "the red mushroom button"))  # fmt: skip


def _storage(rng: Random) -> Section:
    return Section("Laying up for the winter", (
        Fact(f"Slacken the belt by {rng.randrange(3, 6)} turns, hang a bag of rice in the chamber, and "
             f"plug the chimney with a sack."),
        Fact(f"{PEOPLE[2]} lends covers to owners who live within a day's ride of the moor."),
    ), ("the belt tensioner", "the winter cover", "the chimney", "a mouse nest"))  # fmt: skip


def _warranty(rng: Random) -> Section:
    return Section("If we have to put it right", (
        Fact(f"We make good whatever breaks during the first {rng.randrange(29, 35)} months, belts and "
             f"lamps apart. {PEOPLE[3]} reads every complaint and writes back by hand."),
    ), ("a complaint", "the logbook", "a broken part", "the sales slip"))  # fmt: skip


_SECTIONS = (
    _about,
    _setting_up,
    _lighting_up,
    _cooling,
    _lamp_signs,
    _grease,
    _press,
    _filters,
    _electrics,
    _storage,
    _warranty,
)
_SENTENCES = (
    "Step back from {0} before you shout to the others.",
    "Gloves come off only when {0} is cold to the back of the hand.",
    "A drawing at the end of the binder shows {0} from below, with {1} folded away.",
    "Wipe {0} with a dry rag; water drives the peat dust into every crack.",
    "If {0} squeals, stop; if it hums, carry on; if it is silent, worry.",
    "Never use {1} as a step, a hook or a place for your lunch.",
    "Left and right are meant as seen by somebody who faces {0}.",
    "We have left out what any smith knows and set down what only we can know about {0}.",
    "Fit {0} first and {1} last, or you will be taking both off again.",
    "Dust settles on {0} within the hour, and that is as it should be.",
    "Paint worn off {1} is a good sign: it shows where hands belong.",
    "Do not hurry here; more fingers were lost to haste than to {0}.",
    "When {0} has been moved, check {1} as well, since one pulls at the other.",
    "Our fitters tap {0} with a wooden mallet and go by the ring of it.",
    "Those parts of {0} that look alike are alike, and may be swapped freely.",
    "A child's bicycle pump is the best tool for clearing {1}.",
    "Mark the old position of {0} with chalk before anything is loosened.",
    "Should {0} refuse to budge, warm it, wait, and try anew.",
    "{0} was redrawn for this edition; earlier owners may find it on the other side.",
    "Two people see more than one: let somebody else look over {0} when you are done.",
    "What rattles at {1} in the morning will have fallen off by the evening.",
    "Pictures of {0} in the sales brochure flatter it and are no guide to its shape.",
    "It takes a dry week and a patient hand to get {0} just right.",
    "Any thread on {0} that will not turn by hand has been started askew.",
    "Wood ash, soot and peat crumbs may stay on {0}; tar may not.",
    "There is no shame in sending {0} back to the yard in a crate.",
    "Keep {1} out of the reach of goats, who are fond of it.",
    "With the guard removed, nobody but the person at {0} has any business on the platform.",
    "The shape of {0} follows from that of {1} and cannot be improved with a file.",
    "Read this page aloud to whoever is going to hold {0} for you.",
    "A smell of burnt hair near {0} is nearly always a strand of somebody's sleeve.",
    "Numbers stamped into {1} are for the foundry and mean nothing to you.",
    "By the second season you will know {0} better than this binder does.",
    "Always ease {0} back a little after it has come up hard against {1}.",
    "Cold oil is slow oil: give {0} the time that it asks for.",
    "Photographs from the moor, with {0} in the foreground, are welcome at the yard.",
)  # fmt: skip
_OPENERS = ("", "", "", "", "Careful. ", "Once more: ", "In wet years, ", "As a habit, ")


def sections(rng: Random) -> tuple[Section, ...]:
    """All sections, with their figures drawn."""
    return tuple(write(rng) for write in _SECTIONS)


def write_manual(seed: int = SEED) -> tuple[str, list[dict[str, str]]]:
    """The manual's text and its questions with answers; the last one has none in the text."""
    rng = Random(seed)
    return compose(
        "# Brindlemoor KV-4 Peat Kiln: Service Manual",
        sections(rng),
        Filler(_SENTENCES, _OPENERS, paragraphs=7),
        "How many fuses sit in the control cabinet?",
        rng,
    )


if __name__ == "__main__":
    save(FOLDER, "manual.md", *write_manual())
