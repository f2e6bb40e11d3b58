"""Words that mean about the same: a question seldom repeats the words of its text."""

import re
from random import Random

from training.data.verbs import verb_of

# Groups of verbs by their base, of nouns by their singular, and of words that do not change.
_VERBS = """
begin start commence; end finish conclude; build construct erect; create make produce; use employ;
buy purchase acquire; get obtain receive gain; show display exhibit; help assist aid; kill slay;
choose select pick; destroy ruin demolish; allow permit let; stop halt cease; keep retain preserve;
happen occur; call name term; live reside dwell; become turn; change alter modify; grow increase;
reduce lower decrease; lead head direct; teach instruct educate; attack assault; beat defeat; own
possess; need require; want desire wish; think believe; say state declare claim; tell inform; ask
request; give grant award; send dispatch; move shift; leave depart; reach attain; find discover;
join enter; marry wed; win secure; lose forfeit; pay spend; hold contain; cover span; connect link;
divide split separate; join unite combine; describe depict portray; write pen compose; sing
perform; play act; publish release issue; introduce launch; replace succeed supplant; remove
eliminate; ban forbid prohibit; protect guard defend; rule govern; control dominate; support back
endorse; oppose resist; propose suggest; decide determine; appoint nominate; elect vote; visit
tour; travel journey; arrive come; return revert; rise climb; fall drop decline; break fracture;
hurt harm injure damage; cause trigger provoke; influence affect; inspire motivate; develop evolve;
study examine investigate; measure gauge; record register; mention cite note; include comprise;
explain clarify; prove demonstrate; fear dread; love adore; hate despise; see observe notice; hear
learn; eat consume; drink sip; burn scorch; collect gather; hide conceal; throw cast; pull drag;
push shove; carry transport; bring fetch; place put set; close shut; fix repair mend; design devise
"""
_NOUNS = """
person individual; country nation state; city town; village hamlet; king monarch ruler; war
conflict; battle fight; soldier warrior; worker employee; company firm business; boss chief head;
child kid; job occupation profession; house home dwelling; building structure; road street route;
ship vessel; sea ocean; river stream; hill mountain; forest wood; area region zone; place location
site; border boundary; start beginning; end conclusion; goal aim purpose; reason cause; result
outcome; effect consequence; idea notion concept; belief conviction; law statute; rule regulation;
right privilege; crime offence; prize award; song tune; book volume; writer author; story tale;
film movie; picture image painting; game match; team side; student pupil; teacher instructor;
school academy; disease illness sickness; doctor physician; death demise; part portion section;
piece fragment; amount quantity; kind type sort; group band; member participant; leader head chief;
plan scheme; problem difficulty issue; mistake error; change alteration; growth increase; decline
decrease fall; money cash; price cost; income revenue; tax duty; trade commerce; gift present;
friend companion; enemy foe; wife spouse; husband spouse; way manner method; tool instrument;
machine device; food meal; animal beast creature; stone rock; speech address; meeting gathering;
language tongue
"""
_FIXED = """
big large great; small little tiny; famous well-known renowned; important significant major; main
principal chief primary; ancient antique; new recent; quick fast rapid; rich wealthy; poor needy;
hard difficult tough; easy simple; strong powerful; weak feeble; early initial; last final; whole
entire complete; correct right; wrong incorrect; sick ill; strange odd unusual; common frequent
usual; rare uncommon; total overall; located situated; near beside; often frequently; usually
generally normally; mostly mainly chiefly primarily; about around roughly approximately; quickly
rapidly; only just solely; also too; because since; while whereas; besides except; during
throughout; among amongst between; before prior; almost nearly; biggest largest greatest; smallest
least; highest tallest; oldest earliest; best finest top; worst poorest; several various; enough
sufficient; later afterwards; finally eventually; together jointly
"""
_WORD = re.compile(r"\b[a-z-]{3,}\b")


def reword(text: str, rng: Random, share: float) -> str:
    """Exchange a share of the words for which another is known; names stay."""

    def exchange(match: re.Match[str]) -> str:
        others = _OTHERS.get(match.group())
        return rng.choice(others) if others and rng.random() < share else match.group()

    return _WORD.sub(exchange, text)


def _all_others() -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for group in _forms():
        for word in group:
            found.setdefault(word, set()).update(other for other in group if other != word)
    return {word: tuple(sorted(others)) for word, others in found.items() if others}


def _forms() -> list[list[str]]:
    """Groups of words of one form: all past tenses, all plurals."""
    groups = _groups(_FIXED)
    for nouns in _groups(_NOUNS):
        groups += [nouns, [_plural(noun) for noun in nouns]]
    for bases in _groups(_VERBS):
        verbs = [verb_of(base) for base in bases]
        groups += [
            [verb.base for verb in verbs],
            [verb.third for verb in verbs],
            [verb.past for verb in verbs],
            [verb.participle for verb in verbs],
            [verb.gerund for verb in verbs],
        ]
    return groups


def _groups(text: str) -> list[list[str]]:
    return [group.split() for group in text.split(";")]


def _plural(noun: str) -> str:
    if noun in ("person", "child"):
        return {"person": "people", "child": "children"}[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return noun + ("es" if noun.endswith(("s", "sh", "ch", "x")) else "s")


_OTHERS = _all_others()
