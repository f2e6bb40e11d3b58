"""The demo's handbook: an invented ferry cooperative, made by program from a fixed seed.

    python -m training.handbook

Its names, figures and wordings are its own: nothing here is drawn from the pools or the wordings
that the reader is trained on (tests/training/test_invented.py compares them).
"""

# ruff: noqa: E501  (one wording a line, however long)

from dataclasses import dataclass
from random import Random

from reader import HANDBOOK
from training.invented import Fact, Filler, Section, compose, save

SEED = 1911
FOLDER = HANDBOOK

PEOPLE = (
    "Maren Vestergaard", "Idris Pemberton", "Saoirse Hallorann", "Callum MacAskill",
    "Anneke Lindqvist", "Odile Castellane", "Piers Trevanion", "Zofia Abernathy",
    "Merete Rautavaara", "Dafydd Penhaligon", "Ottilie Fairbairn", "Lucan Nakashima",
    "Bettina Okonjo", "Ruairi Whitcombe", "Tove Sundaresan", "Rowan Duquesne",
)  # fmt: skip
VESSELS = ("Curlew of Skerrow", "Lady Isobel", "Sandpiper", "Northern Tern", "Grey Petrel")
PIERS = ("Gannet Rock", "Skerrow Pier", "Lowgate Quay", "Inverkell Slip", "Mossdyke Landing")


@dataclass(frozen=True)
class Cast:
    """People, times and extensions, drawn once for the whole handbook."""

    people: list[str]
    sailings: list[str]
    extensions: list[int]


def draw_cast(rng: Random) -> Cast:
    """Draw who does what, when boats sail and which numbers are called."""
    return Cast(
        people=rng.sample(PEOPLE, len(PEOPLE)),
        sailings=[f"{hour:02d}:{rng.randrange(2, 58):02d}" for hour in (6, 11, 16, 22)],
        extensions=rng.sample(range(7102, 7990), 8),
    )


def _welcome_aboard(crew: Cast, rng: Random) -> Section:
    return Section("Welcome aboard", (
        Fact(f"Kittiwake Sound Ferries is a cooperative of {rng.randrange(130, 190)} members. "
             f"It was set afloat in the spring of 1958 by two lighthouse families and a retired "
             f"pilot, and its first boat, the {VESSELS[0]}, is now a museum."),
        Fact(f"Our chair, {crew.people[0]}, greets every newcomer in person; the day-to-day business "
             f"is steered by {crew.people[1]}, the general manager."),
    ), ("the cooperative", "the founding story", "this booklet", "the old charter"))  # fmt: skip


def _sailings(crew: Cast, rng: Random) -> Section:
    del rng
    return Section("Sailings", (
        Fact(f"The early boat to {PIERS[1]} sails at {crew.sailings[0]}, the noon boat to "
             f"{PIERS[2]} at {crew.sailings[1]}, and the mail boat to {PIERS[3]} at {crew.sailings[2]}."),
        Fact(f"The night ferry to {PIERS[0]} casts off at {crew.sailings[3]} sharp and does not wait "
             f"for late lorries.",
             f"When does the night ferry to {PIERS[0]} leave?", crew.sailings[3]),
        Fact(f"Between October and March the {VESSELS[2]} stays in dock, and the {VESSELS[3]} "
             f"takes over her run."),
    ), ("the timetable", "the gangway", "a late passenger", "the mooring rope"))  # fmt: skip


def _watches_and_rest(crew: Cast, rng: Random) -> Section:
    return Section("Watches and rest", (
        Fact(f"A watch lasts {rng.choice((5, 6, 7))} hours. Between two watches a deckhand rests "
             f"for no fewer than {rng.choice((10, 11, 13))} hours."),
        Fact("Swapping a watch requires 36 hours of notice at the roster desk.",
             "How many hours of notice does swapping a watch require?", "36 hours"),
        Fact(f"The roster desk is staffed by {crew.people[2]} on weekdays and by {crew.people[3]} at "
             f"weekends."),
    ), ("the roster", "the watch below", "the bridge team", "the engine room"))  # fmt: skip


def _holidays_and_sick_days(crew: Cast, rng: Random) -> Section:
    return Section("Holidays and sick days", (
        Fact(f"Full-time crew are entitled to {rng.randrange(27, 34)} days off each year, and "
             f"part-time crew to {rng.randrange(14, 19)}."),
        Fact(f"A sick crew member rings {crew.people[4]} before the first sailing. From the fourth day "
             f"on, a doctor's note is wanted."),
    ), ("a day off", "the holiday calendar", "a swap between friends", "the first sailing"))  # fmt: skip


def _lifesaving_gear(crew: Cast, rng: Random) -> Section:
    return Section("Lifesaving gear", (
        Fact(f"Torn life jackets are mended by {crew.people[5]}, in the loft above the slip.",
             "Who mends torn life jackets?", crew.people[5]),
        Fact(f"Rafts are opened and repacked by an outside yard every {rng.choice((15, 21))} "
             f"months. {crew.people[6]} signs the raft log."),
        Fact(f"There are {rng.randrange(310, 390)} adult life jackets on the {VESSELS[1]} and "
             f"{rng.randrange(41, 79)} for children."),
    ), ("the life raft", "a flare", "the muster drill", "the lifeboat davit"))  # fmt: skip


def _fog_ice_and_heavy_seas(crew: Cast, rng: Random) -> Section:
    del crew
    return Section("Fog, ice and heavy seas", (
        Fact(f"Above wind force {rng.choice((8, 9))} nothing leaves {PIERS[4]}. The decision is "
             f"the master's and nobody else's."),
        Fact(f"When ice forms on deck, salt is taken from the grey bin at the stern; "
             f"{rng.randrange(12, 29)} sacks are held in reserve."),
    ), ("the radar", "the fog signal", "a following sea", "the lookout"))  # fmt: skip


def _spills_fires_and_other_alarms(crew: Cast, rng: Random) -> Section:
    return Section("Spills, fires and other alarms", (
        Fact(f"Oil spills of any size are phoned through to extension {crew.extensions[0]}, day or night. "
             f"Fires are phoned through to extension {crew.extensions[1]}, and injuries to extension "
             f"{crew.extensions[2]}.",
             "Which extension takes reports of oil spills?", str(crew.extensions[0])),
        Fact(f"After an alarm {crew.people[7]} writes the report, and the insurers get it within "
             f"{rng.choice((4, 9))} days."),
    ), ("the alarm bell", "a hose", "the fire door", "the muster list"))  # fmt: skip


def _money_and_receipts(crew: Cast, rng: Random) -> Section:
    return Section("Money and receipts", (
        Fact("Meals ashore are refunded up to £27.50 a day, and a bed for the night up to £94, "
             "in both cases against a receipt.",
             "Up to what amount are meals ashore refunded each day?", "£27.50"),
        Fact(f"Receipts go into the blue folder by the last Thursday of the month; {crew.people[8]} "
             f"in the purser's office pays them out."),
        Fact(f"Purchases over £{rng.randrange(11, 19)}00 need two signatures."),
    ), ("a receipt", "the petty cash", "the blue folder", "a purchase"))  # fmt: skip


def _lost_property(crew: Cast, rng: Random) -> Section:
    del rng
    return Section("Lost property", (
        Fact(f"Whatever passengers leave behind is held at the {PIERS[2]} ticket hatch for six "
             f"weeks and afterwards given to the seamen's mission.",
             "For how long is property that passengers leave behind held?", "six weeks"),
        Fact(f"Passports and medicine are an exception: they go to the police the same evening. "
             f"{crew.people[9]} keeps the lost-property book."),
    ), ("an umbrella", "the ticket hatch", "a forgotten bag", "the lost-property book"))  # fmt: skip


def _workshop_and_stores(crew: Cast, rng: Random) -> Section:
    return Section("Workshop and stores", (
        Fact(f"The winch cable on the {VESSELS[1]} is renewed after {rng.randrange(7, 10)}00 "
             f"crossings, the one on the {VESSELS[4]} after {rng.randrange(11, 14)}00."),
        Fact(f"The storekeeper, {crew.people[10]}, locks the iron shed every evening. Paint is stored "
             f"there, never below deck.",
             "Who locks the iron shed?", crew.people[10]),
        Fact(f"Tools that cost more than £{rng.randrange(60, 90)} carry a stamped number."),
    ), ("the iron shed", "a spanner", "the stores list", "the grinding wheel"))  # fmt: skip


def _learning_on_the_job(crew: Cast, rng: Random) -> Section:
    return Section("Learning on the job", (
        Fact(f"First-aid certificates have to be renewed after {rng.choice((26, 30))} months and "
             f"radio licences after {rng.choice((50, 56))}."),
        Fact(f"{crew.people[11]} runs the rope-work evenings, which are open to all crew and cost "
             f"nothing."),
    ), ("an apprentice", "the rope-work evening", "a certificate", "the classroom"))  # fmt: skip


def _passengers_with_special_needs(crew: Cast, rng: Random) -> Section:
    return Section("Passengers with special needs", (
        Fact(f"Wheelchair users board first and are met by {crew.people[12]}. The ramp bears "
             f"{rng.randrange(310, 460)} kilos."),
        Fact(f"Dogs travel free of charge, horses for £{rng.randrange(31, 48)}."),
    ), ("the ramp", "an elderly passenger", "a guide dog", "the quiet saloon"))  # fmt: skip


def _galley_and_cabins(crew: Cast, rng: Random) -> Section:
    return Section("Galley and cabins", (
        Fact(f"Supper on the {VESSELS[3]} is served until {rng.choice(('20:50', '21:10'))}. The "
             f"cook, {crew.people[13]}, wants to hear of allergies before casting off."),
        Fact(f"A cabin on the long run costs £{rng.randrange(52, 69)} for members and "
             f"£{rng.randrange(81, 99)} for guests."),
    ), ("the galley", "a bunk", "the coffee urn", "the crew mess"))  # fmt: skip


def _computers_radio_and_paper(crew: Cast, rng: Random) -> Section:
    return Section("Computers, radio and paper", (
        Fact(f"The ship's network is called {rng.choice(('Halyard', 'Bowsprit'))} and is run by "
             f"{crew.people[14]}. Forgotten passwords are reset at the roster desk."),
        Fact(f"Logbooks are kept for {rng.choice((12, 17))} years in the loft above the "
             f"sailmaker's."),
    ), ("the logbook", "a chart", "the radio", "the printer"))  # fmt: skip


def _leaving_us(crew: Cast, rng: Random) -> Section:
    return Section("Leaving us", (
        Fact(f"Whoever leaves gives {rng.choice(('five', 'seven'))} weeks' warning in writing and "
             f"hands oilskins and whistle to {crew.people[15]}."),
    ), ("a farewell", "the oilskin coat", "the last watch", "a reference"))  # fmt: skip


_SECTIONS = (
    _welcome_aboard,
    _sailings,
    _watches_and_rest,
    _holidays_and_sick_days,
    _lifesaving_gear,
    _fog_ice_and_heavy_seas,
    _spills_fires_and_other_alarms,
    _money_and_receipts,
    _lost_property,
    _workshop_and_stores,
    _learning_on_the_job,
    _passengers_with_special_needs,
    _galley_and_cabins,
    _computers_radio_and_paper,
    _leaving_us,
)


def sections(rng: Random) -> tuple[Section, ...]:
    """All sections, with people and figures drawn once."""
    crew = draw_cast(rng)
    return tuple(write(crew, rng) for write in _SECTIONS)


_SENTENCES = (
    "It pays to look twice at {0} before the tide turns.",
    "Old hands will show you how {0} is cared for, so do not be shy about asking.",
    "We would rather hear a silly question about {0} than mop up after a silly mistake.",
    "{0} and {1} have more to do with one another than a newcomer might think.",
    "Much of what follows was learned the hard way and is set down so that it need not be learned so again.",
    "Please treat {0} as though it were your own.",
    "In summer, when every berth is taken, {0} tends to be forgotten; in winter it is all we talk about.",
    "If something about {0} strikes you as odd, it probably is: speak up.",
    "What is written here holds on every boat, unless the master says otherwise on the day.",
    "Nobody ever got into trouble for being careful with {0}.",
    "A tidy deck, dry boots and a word of thanks go further than any rule about {1}.",
    "The sea does not read handbooks, which is why {0} calls for a clear head as well as for a rule.",
    "Those who have sailed with us for some time know this already, yet it does no harm to read it over.",
    "There is a drawing of {0} on the wall of the crew mess, beside the tide tables.",
    "Think of {0} as a promise that the crew makes to the passengers.",
    "When {0} and {1} get in each other's way, safety has the last word.",
    "Any change to this part is read out at the quayside before it is printed.",
    "Visitors like to hear about {0}; tell them what you know and leave the rest to the purser.",
    "Keep your voice down near {0} after dark, for the cabins have thin walls.",
    "Rust never sleeps, and neither should whoever has charge of {1}.",
    "On quiet crossings there is time to go over {0} with the younger crew.",
    "Some of us remember how things were done before {0} came along, and none of us wishes it back.",
    "A pencil and a dry notebook are worth more here than a good memory.",
    "Weather permitting, {0} gets a fresh look on the first Sunday after the equinox gales.",
    "The wording of this part is plain on purpose; if it is still unclear, help us to make it plainer.",
    "Whatever you decide about {0}, write it down, and say who was there.",
    "Small boats forgive little, and {1} forgives nothing at all.",
    "We try to keep {0} simple, since a rule that nobody remembers protects nobody.",
    "Gulls, grit and salt are the three enemies of {0}.",
    "If you are the last to touch {0}, you are the one to put it right.",
)  # fmt: skip
_OPENERS = ("", "", "", "As ever, ", "To be fair, ", "Now and then somebody asks why. ",
            "One more thing. ")  # fmt: skip


def write_handbook(seed: int = SEED) -> tuple[str, list[dict[str, str]]]:
    """The handbook's text and its questions with answers; the last one has none in the text."""
    rng = Random(seed)
    return compose(
        "# Kittiwake Sound Ferries: Handbook for Crew and Shore Staff",
        sections(rng),
        Filler(_SENTENCES, _OPENERS, paragraphs=4),
        f"How many cabins are there on the {VESSELS[4]}?",
        rng,
    )


if __name__ == "__main__":
    save(FOLDER, "handbook.md", *write_handbook())
