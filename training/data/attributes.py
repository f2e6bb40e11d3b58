"""What can be said of a subject: attributes with wordings of their own."""

from dataclasses import dataclass
from random import Random

from training.data import words
from training.data.paraphrases import TABLE


@dataclass(frozen=True)
class Attribute:
    """One attribute.

    Attributes:
        names: nouns for it ("birthplace"); the generic wordings use them.
        value: the kind of its values (training.data.values).
        subjects: kinds of entities that have it.
        statements, questions: wordings of its own, with {E} and {V}.
    """

    names: tuple[str, ...]
    value: str
    subjects: tuple[str, ...]
    statements: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


_SUBJECTS = {
    "P": "person", "B": "body", "S": "site", "T": "thing", "J": "project", "V": "service",
}  # fmt: skip


def _parse(table: str, more: str) -> tuple[Attribute, ...]:
    extra = {block.splitlines()[0]: block.splitlines()[1:] for block in _blocks(more)}
    found = []
    for block in _blocks(table):
        head, *lines = block.splitlines()
        names, value, subjects = (field.strip() for field in head.split(";"))
        lines = list(dict.fromkeys(lines + extra.get(names.split(",")[0], [])))
        found.append(
            Attribute(
                names=tuple(name.strip() for name in names.split(",")),
                value=value,
                subjects=tuple(_SUBJECTS[letter] for letter in subjects),
                statements=tuple(line[2:] for line in lines if line.startswith("S ")),
                questions=tuple(line[2:] for line in lines if line.startswith("Q ")),
            )
        )
    return tuple(found)


def _blocks(table: str) -> list[str]:
    return table.strip().split("\n\n")


_TABLE = """
birthplace, place of birth, home town; place; P
S {E} was born in {V}
S {E} first saw the light of day in {V}
S {E} is a native of {V}
S {E} [grew up|spent the first years of life] in {V}
Q Where was {E} born?
Q In which [town|place|city] was {E} born?
Q Where does {E} come from?
Q Which [town|place] is {E} a native of?

date of birth, birthday; date; P
S {E} was born on {V}
S {E} came into the world on {V}
S {E} celebrates a birthday on {V}
Q When was {E} born?
Q On what [day|date] was {E} born?
Q When does {E} celebrate a birthday?

profession, occupation, trade; trade; P
S {E} works as a {V}
S {E} earns a living as a {V}
S {E} trained as a {V} and still works as one
S {E} has been a {V} for many years
Q What does {E} do for a living?
Q What is {E}'s job?
Q As what does {E} work?

spouse, partner; person; P
S {E} is married to {V}
S {E} married {V} in spring
S {V} is the spouse of {E}
S {E} shares a house with a partner, {V}
Q Who is {E} married to?
Q Whom did {E} marry?
Q Who is the [spouse|partner] of {E}?

employer; org; P
S {E} works for {V}
S {E} is employed by {V}
S {V} employs {E}
S {E} was hired by {V}
Q Who does {E} work for?
Q [Which organisation|Who] employs {E}?
Q Where does {E} work?

teacher, mentor; person; P
S {E} was taught by {V}
S {E} learned everything from {V}
S {V} was the teacher of {E}
S {E} studied under {V}
Q Who taught {E}?
Q Under whom did {E} study?
Q Whose pupil was {E}?

pet, favourite animal; animal; P
S {E} keeps a {V} as a pet
S {E} owns a tame {V}
S {E} likes no animal better than the {V}
Q What [kind of animal|pet] does {E} keep?
Q Which animal does {E} own?

favourite dish, favourite meal; food; P
S {E} likes nothing better than {V}
S {E} always orders {V}
S if {E} may choose, there is {V} for dinner
Q What does {E} like to eat?
Q Which dish does {E} always order?
Q What would {E} choose for dinner?

favourite colour; colour; P
S {E} loves the colour {V}
S {E} always dresses in {V}
Q Which colour does {E} love?
Q What colour does {E} like best?

mother tongue, native language; language; P
S {E} grew up speaking {V}
S {E} speaks {V} at home
S {V} is the language {E} learned first
Q Which language does {E} speak at home?
Q What language did {E} grow up speaking?

instrument; instrument; P
S {E} plays the {V}
S {E} practises the {V} every evening
S {E} has played the {V} since childhood
Q What instrument does {E} play?
Q Which instrument does {E} practise?

field of study, subject; subject; P
S {E} studied {V}
S {E} wrote a thesis on {V}
S {E} gives lectures on {V}
Q What did {E} study?
Q What does {E} lecture on?
Q On which subject did {E} write a thesis?

salary, yearly pay; money; P
S {E} earns {V} a year
S {E} is paid {V} a year
S {E} receives a salary of {V}
Q How much does {E} earn?
Q What is {E} paid [a year|per year]?

age; unitless; P
S {E} is {V} years old
S {E} turned {V} last month
Q How old is {E}?
Q What age is {E}?

phone number, telephone number, extension; phone; PBSV
S {E} can be reached [at|on|under] {V}
S to call {E}, dial {V}
S anyone who wants to ring {E} should use {V}
S calls for {E} go to {V}
Q [On|At|Under] which number can {E} be reached?
Q What number should [I|one|you] dial to reach {E}?
Q How can [I|one|you] reach {E} by phone?
Q Which number reaches {E}?

email address, address for mail; email; PBV
S {E} answers mail at {V}
S write to {V} to reach {E}
S messages for {E} go to {V}
Q Where should [I|one|you] write to reach {E}?
Q To which address do messages for {E} go?

office, room; room; PBV
S {E} [sits|is found|can be found] in {V}
S the place to find {E} is {V}
S {E} has moved to {V}
Q Where can {E} be found?
Q Where does {E} sit?
Q In which room is {E}?

badge number, staff number, personal number; code; P
S {E} carries badge {V}
S {E} is listed under number {V}
S {E} wears the number {V}
Q Which badge does {E} carry?
Q Under which number is {E} listed?

nickname, code name; brand; PJ
S friends know {E} as {V}
S {E} is also known as {V}
S everyone calls {E} {V}
Q What is {E} also known as?
Q What do people call {E}?
Q By what name do friends know {E}?

head, director, leader, manager; person; BJ
S {E} is [led|headed|run|managed|directed] by {V}
S {V} [leads|heads|runs|manages|directs] {E}
S {V} is in charge of {E}
S at the head of {E} stands {V}
S {V} took over {E} [last year|two years ago|in spring]
S responsibility for {E} lies with {V}
Q Who [leads|heads|runs|manages|directs] {E}?
Q Who is in charge of {E}?
Q By whom is {E} [led|headed|run]?
Q Who stands at the head of {E}?
Q Who is responsible for {E}?

founder; person; BS
S {E} was founded by {V}
S {V} [founded|established|set up] {E}
S {E} owes its existence to {V}
Q Who [founded|established|set up] {E}?
Q By whom was {E} founded?
Q Whose idea was {E}?

founding year, year of foundation; year; BS
S {E} was [founded|established|set up] in {V}
S {E} has existed since {V}
S {E} dates from {V}
S it was in {V} that {E} came into being
Q When was {E} [founded|established|set up]?
Q In [what|which] year was {E} founded?
Q How long has {E} existed, that is, since when?
Q Since when has {E} existed?

seat, head office, location; place; BJ
S {E} has its seat in {V}
S {E} is based in {V}
S the head office of {E} stands in {V}
S {E} moved to {V}
Q Where is {E} based?
Q In which [town|city] is {E}?
Q Where does {E} have its seat?

number of members, headcount, number of staff; count; B
S {E} has {V} members
S {E} employs {V} people
S {V} people [belong to|work for] {E}
Q How many [people|members] does {E} have?
Q How many people [belong to|work for] {E}?
Q How large is the staff of {E}?

annual budget, budget, funding; money; BJ
S {E} has {V} to spend
S {E} was granted {V}
S a sum of {V} was set aside for {E}
S {E} runs on {V} a year
Q How much money does {E} have?
Q How much was set aside for {E}?
Q What sum was granted to {E}?

turnover, yearly revenue; money; B
S {E} turned over {V} last year
S {E} took in {V}
Q How much did {E} take in?
Q How much did {E} turn over?

motto; phrase; B
S {E} chose {V} for its emblem
S the emblem of {E} shows {V}
Q What does the emblem of {E} show?
Q What did {E} choose for its emblem?

main product, speciality; good; B
S {E} [makes|produces|sells] {V}
S {E} is known for its {V}
S most of the income of {E} comes from {V}
Q What does {E} [make|produce|sell]?
Q What is {E} known for?

opening time, opening hour; time; BSV
S {E} opens at {V}
S the doors of {E} open at {V}
S nobody gets into {E} before {V}
S {E} is open from {V}
Q When does {E} open?
Q [At what time|What time] does {E} open?
Q From when is {E} open?
Q How early can one get into {E}?

closing time, closing hour; time; BSV
S {E} closes at {V}
S {E} shuts its doors at {V}
S the lights in {E} go out at {V}
S {E} is open until {V}
S everyone has to be out of {E} by {V}
Q When does {E} close?
Q [At what time|What time] does {E} close?
Q Until when is {E} open?
Q By when does everyone have to be out of {E}?

closing day, day of rest; weekday; BS
S {E} is closed on {V}
S {E} stays shut every {V}
S on {V} nobody works at {E}
Q On which day is {E} closed?
Q On what day of the week does {E} stay shut?

capacity, number of places; count; STJ
S {E} holds {V} people
S there is room for {V} people in {E}
S {E} can take {V} people
S no more than {V} people are allowed in {E}
Q How many people does {E} hold?
Q How many people fit into {E}?
Q How many people are allowed in {E}?

height; measure; ST
S {E} is {V} high
S {E} rises to {V}
S {E} stands {V} tall
Q How high is {E}?
Q How tall is {E}?
Q What height does {E} reach?

width; measure; ST
S {E} is {V} wide
S {E} measures {V} across
S from side to side {E} has {V}
Q How wide is {E}?
Q What does {E} measure across?

depth; measure; ST
S {E} is {V} deep
S {E} goes down {V}
Q How deep is {E}?
Q How far down does {E} go?

length, extent; measure; ST
S {E} measures {V}
S {E} is {V} long
S {E} reaches {V}
Q How long is {E}?
Q How much does {E} measure?

weight, mass, load; measure; T
S {E} weighs {V}
S {E} tips the scales at {V}
S {E} carries up to {V}
Q How much does {E} weigh?
Q How heavy is {E}?
Q How much can {E} carry?

price, cost, value; money; TVJ
S {E} costs {V}
S {E} was bought for {V}
S {E} sells for {V}
S we paid {V} for {E}
S whoever wants {E} pays {V}
Q How much does {E} cost?
Q What does {E} cost?
Q How much was paid for {E}?
Q What does one pay for {E}?

fee, charge; money; SV
S there is a charge of {V} for {E}
S {V} is charged for {E}
S {E} comes at {V}
Q How much is charged for {E}?
Q What is the charge for {E}?

colour, paint; colour; ST
S {E} is painted {V}
S {E} was given a coat of {V}
S {E} is {V}
Q What colour is {E}?
Q In which colour is {E} painted?

material; material; ST
S {E} is made of {V}
S {E} was built from {V}
S {V} was used to make {E}
Q What is {E} made of?
Q What was used to make {E}?
Q Of which material is {E}?

owner, holder; person; ST
S {E} belongs to {V}
S {V} owns {E}
S {E} is the property of {V}
S {V} bought {E} at an auction
Q Who owns {E}?
Q Who does {E} belong to?
Q To whom does {E} belong?

maker, builder; person; ST
S {E} was [built|designed|invented|made] by {V}
S {V} [built|designed|made] {E}
S the plans for {E} came from {V}
Q Who [built|designed|made] {E}?
Q Who drew the plans for {E}?
Q By whom was {E} [built|designed]?

keeper, caretaker, person responsible; person; STV
S {V} looks after {E}
S {V} takes care of {E}
S {E} is looked after by {V}
S {E} is the responsibility of {V}
S if there is trouble with {E}, ask {V}
S questions about {E} should be put to {V}
Q Who looks after {E}?
Q Who takes care of {E}?
Q Whom should [I|one|you] ask about {E}?
Q Whose responsibility is {E}?
Q Who should be asked if there is trouble with {E}?

serial number, registration; code; T
S {E} is registered as {V}
S {E} bears the number {V}
S stamped on {E} is {V}
Q Under which number is {E} registered?
Q What is stamped on {E}?
Q Which number does {E} bear?

storage place, place, location; spot; TV
S {E} is kept {V}
S {E} stands {V}
S look for {E} {V}
S {E} was put {V}
Q Where is {E} kept?
Q Where does {E} stand?
Q Where should one look for {E}?

storage place, place of storage; room; T
S {E} is [kept|stored|locked away] in {V}
S we keep {E} in {V}
S {E} went to {V}
Q Where is {E} [kept|stored]?
Q Where do we keep {E}?

output, power; measure; T
S {E} reaches {V} at full power
S {E} manages {V}
S at its best {E} delivers {V}
Q How much does {E} manage?
Q What does {E} deliver at its best?

lifetime, warranty period, service life; duration; T
S {E} lasts {V}
S {E} will do for {V}
S {E} is expected to last {V}
Q How long does {E} last?
Q How long is {E} expected to last?

service interval, maintenance interval, inspection interval; duration; TS
S {E} is [serviced|checked|cleaned|inspected] every {V}
S every {V} somebody [checks|cleans|inspects] {E}
S {E} has to be [serviced|checked|inspected] every {V}
Q How often is {E} [serviced|checked|cleaned|inspected]?
Q How often does {E} have to be checked?
Q After how long does {E} need a check?

start date, date; date; J
S {E} [begins|starts] on {V}
S {E} takes place on {V}
S {E} was [held|opened] on {V}
S {E} is planned for {V}
Q When does {E} [begin|start|take place]?
Q On what date does {E} take place?
Q When was {E} held?
Q For when is {E} planned?

venue, meeting place; place; J
S {E} takes place in {V}
S {E} was held in {V}
S {V} was chosen for {E}
Q Where does {E} take place?
Q Where was {E} held?
Q In which [town|place] is {E} held?

duration, length; duration; JV
S {E} [lasts|lasted|takes|took] {V}
S {E} goes on for {V}
S {V} are planned for {E}
S {E} is over after {V}
Q How long does {E} [last|take]?
Q How long did {E} [last|take]?
Q How much time is planned for {E}?
Q After how long is {E} over?

number of participants, attendance; count; J
S {V} people [took part in|attended|came to] {E}
S {E} [drew|attracted] {V} visitors
S {E} had {V} participants
Q How many people [took part in|attended|came to] {E}?
Q How many visitors did {E} [draw|attract]?

winner, champion; person; J
S {V} won {E}
S {E} was won by {V}
S first prize in {E} went to {V}
Q Who won {E}?
Q To whom did first prize in {E} go?

cause of delay, reason for the delay; cause; J
S {E} was delayed by {V}
S {V} held up {E}
S because of {V} {E} could not go on
Q What [delayed|held up] {E}?
Q Why was {E} delayed?
Q Why could {E} not go on?

sponsor, funder; org; J
S {E} is [paid for|funded|sponsored] by {V}
S {V} [pays for|funds|sponsors] {E}
S the money for {E} comes from {V}
Q Who [pays for|funds|sponsors] {E}?
Q Where does the money for {E} come from?

deadline, due date, closing date; date; JV
S {E} is due on {V}
S {E} must be [finished|handed in|submitted] by {V}
S the last day for {E} is {V}
S nobody may hand in {E} after {V}
Q When is {E} due?
Q By when must {E} be [finished|handed in|submitted]?
Q What is the last day for {E}?
Q Until when may {E} be handed in?

notice period, time limit, grace period; duration; V
S {E} must be [filed|announced|requested] {V} in advance
S ask for {E} at least {V} ahead
S {E} runs out after {V}
S {E} is valid for {V}
S {E} may be used for {V}
Q How far in advance must {E} be [filed|announced|requested]?
Q How long is {E} valid?
Q For how long may {E} be used?
Q After how long does {E} run out?

processing time, waiting time; duration; V
S {E} is dealt with within {V}
S {E} takes {V} to process
S expect to wait {V} for {E}
Q How long does it take to process {E}?
Q Within what time is {E} dealt with?
Q How long does one wait for {E}?

approver, signatory; role; VJ
S {E} needs the signature of {V}
S {E} must be [signed|approved] by {V}
S {V} [signs|approves] {E}
S only {V} may [grant|approve] {E}
S without the consent of {V} there is no {E}
Q Who [signs|approves] {E}?
Q Whose signature does {E} need?
Q By whom must {E} be [signed|approved]?
Q Who may approve {E}?
Q Whose consent does {E} need?

responsible role, first contact; role; VST
S {E} is handled by {V}
S {V} deals with {E}
S {E} has to be handed to {V}
S bring {E} to {V}
S {V} keeps the key to {E}
Q Who handles {E}?
Q Who deals with {E}?
Q To whom must {E} be handed?
Q Who keeps the key to {E}?

form, form number; code; V
S for {E} use form {V}
S {E} is made on form {V}
S {E} requires form {V}
S fill in {V} for {E}
Q Which form is used for {E}?
Q Which form does {E} require?
Q What must be filled in for {E}?

limit, maximum, ceiling; money; V
S {E} is limited to {V}
S {E} may not exceed {V}
S {E} covers at most {V}
S no more than {V} may be spent on {E}
Q How much may {E} cover at most?
Q To what sum is {E} limited?
Q What sum may {E} not exceed?
Q How much may be spent on {E}?

quota, limit; count; V
S {E} is limited to {V} a year
S each person gets {V} of {E}
S {E} may be used {V} times
Q To how many is {E} limited?
Q How many times may {E} be used?

discount, rebate; percent; VBJ
S {E} brings a discount of {V}
S {E} gets {V} off
S {E} is covered at {V}
S {V} of the cost of {E} is paid back
Q What discount does {E} bring?
Q What share of the cost of {E} is paid back?
Q At what rate is {E} covered?

access code, door code; pin; SVT
S {E} opens with {V}
S to enter {E}, type {V}
S {E} is locked with {V}
Q What opens {E}?
Q What must be typed to enter {E}?
Q With which code is {E} locked?

internal code, reference, short code; code; VJBS
S {E} is filed under {V}
S {E} goes by the code {V}
S {E} is booked on {V}
S quote {V} when writing about {E}
Q Under which code is {E} filed?
Q By what code does {E} go?
Q What should be quoted when writing about {E}?

web page, address on the web; url; BJV
S {E} is described at {V}
S see {V} for {E}
S {E} is published at {V}
Q Where on the web is {E} described?
Q Which page describes {E}?

version, release; version; TJ
S {E} runs version {V}
S {E} was updated to {V}
S {E} needs {V} or later
Q Which version does {E} run?
Q To which version was {E} updated?

meeting day, day of the week; weekday; BJV
S {E} meets every {V}
S {E} happens on {V}
S {V} is the day for {E}
Q On which day does {E} meet?
Q On what day of the week does {E} happen?

month; month; JV
S {E} falls in {V}
S {E} is repeated every {V}
S each year {E} comes round in {V}
Q In which month does {E} fall?
Q In what month does {E} come round?

mayor, governor; person; S
S {E} is governed by {V}
S {V} governs {E}
S the people of {E} elected {V}
Q Who governs {E}?
Q Whom did the people of {E} elect?

distance, distance from town; measure; S
S {E} lies {V} from the town
S it is {V} from here to {E}
S to reach {E} one travels {V}
Q How far is {E} from the town?
Q How far is it to {E}?

neighbour, nearest town; place; S
S {E} lies next to {V}
S {E} borders on {V}
S the road from {E} leads to {V}
Q What lies next to {E}?
Q Where does the road from {E} lead?

cargo, contents; good; T
S {E} was full of {V}
S {E} is loaded with {V}
S inside {E} there were {V}
Q What was inside {E}?
Q What is {E} loaded with?
Q What was {E} full of?

destination; place; TJ
S {E} was sent to {V}
S {E} is bound for {V}
S {E} set out for {V}
Q Where was {E} sent?
Q Where is {E} bound?
"""

_MODIFIERS = [
    "emergency",
    "annual",
    "backup",
    "internal",
    "old",
    "new",
    "winter",
    "visitor",
    "default",
    "hidden",
    "local",
    "public",
    "secret",
    "maximum",
    "minimum",
    "monthly",
    "first",
    "second",
    "last",
    "current",
    "former",
    "special",
    "temporary",
    "primary",
    "secondary",
    "official",
    "personal",
    "technical",
    "spare",
    "master",
    "night",
    "daily",
    "weekly",
    "standard",
    "reserve",
    "customer",
    "project",
]
_TYPED_NOUNS = {
    "code": "code number reference label tag badge ticket identifier",
    "pin": "pin number code combination key password",
    "money": "fee budget rate allowance deposit fine price bonus fund",
    "count": "quota count score limit stock total target rank",
    "date": "date deadline day appointment",
    "time": "hour slot departure arrival",
    "duration": "period delay interval shift break",
    "person": "contact officer deputy guest winner tenant author witness",
    "place": "address station town stop port",
    "colour": "colour light flag",
    "word": "password signal symbol word keyword",
    "pair": "password phrase signal code",
    "hyphen": "password tag label code",
    "measure": "length weight load distance pressure",
    "percent": "rate share margin discount",
    "phone": "number extension line",
    "uuid": "token identifier key",
    "digits12": "number account reference serial",
    "hash": "checksum hash key signature",
    "url": "page link address",
    "email": "address mailbox contact",
    "room": "room place shelf desk",
    "animal": "mascot emblem animal",
    "food": "dish meal snack",
    "title": "song book play hymn",
    "phrase": "gift prize item trophy",
}


def made_attribute(rng: Random, lexicon: tuple[str, ...] = ()) -> Attribute:
    """Compose an attribute from a noun of its value's kind and other words: "spare combination"."""
    return attribute_of(rng.choice(tuple(_TYPED_NOUNS)), rng, lexicon)


def attribute_of(value: str, rng: Random, lexicon: tuple[str, ...] = ()) -> Attribute:
    """Compose an attribute whose values are of one kind.

    Raises: KeyError for a kind without nouns.
    """
    noun = rng.choice(_TYPED_NOUNS[value].split())
    return Attribute(
        (_compose(noun, rng, lexicon or words.COMMON),),
        value,
        ("person", "body", "site", "thing", "project", "service"),
    )


def _compose(noun: str, rng: Random, lexicon: tuple[str, ...]) -> str:
    luck = rng.random()
    if luck < 0.4:
        return f"{rng.choice(_MODIFIERS)} {noun}"
    if luck < 0.65:
        return f"{rng.choice(lexicon)} {noun}"
    if luck < 0.73:
        return f"{rng.choice(lexicon)} {rng.choice(lexicon)}"
    if luck < 0.8:
        return f"{rng.choice(_MODIFIERS)} {rng.choice(lexicon)} {noun}"
    if luck < 0.86:
        return f"{noun} of the {rng.choice(lexicon)}"
    return rng.choice(lexicon) if luck < 0.9 else noun


ATTRIBUTES = _parse(_TABLE, TABLE)
