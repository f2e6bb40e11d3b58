"""Rules and events: sentences with several slots, each of which can be asked for.

A slot is `name:kind` in the table; kinds are those of training.data.values plus nouns of the pools.
A question is followed by the slot that answers it.
"""

# ruff: noqa: E501  (one wording a line, however long)

import re
from dataclasses import dataclass
from functools import lru_cache

from training.data.relations import TABLE


@dataclass(frozen=True)
class Scene:
    """One kind of rule or event.

    Attributes:
        statements: wordings with slots.
        slots: kind by slot name.
        questions: (wording, name of the slot that answers it); they may name other slots.
        key: the slots that tell one such scene from another.
    """

    statements: tuple[str, ...]
    slots: dict[str, str]
    questions: tuple[tuple[str, str], ...]


_SLOT = re.compile(r"\{(\w+):(\w+)\}")

_TABLE = """
S {who:role} must [return|hand back] {obj:object} within {t:duration} of {ev:event}
S within {t:duration} of {ev:event}, {who:role} has to [return|hand back] {obj:object}
Q How soon after {ev} must {obj} be returned?=t
Q Within what time does {who} have to hand back {obj}?=t
Q Who must return {obj} after {ev}?=who

S before {ev:event}, {who:role} checks {obj:object} and enters the result on form {f:code}
S {who:role} checks {obj:object} before {ev:event}; the result goes on form {f:code}
Q Who checks {obj} before {ev}?=who
Q On which form is the check of {obj} recorded?=f
Q What does {who} check before {ev}?=obj

S requests for {obj:object} above {m:money} need the signature of {p:person}
S whoever wants {obj:object} for more than {m:money} needs the signature of {p:person}
S above {m:money}, {p:person} must sign for {obj:object}
Q Who signs requests for {obj} above {m}?=p
Q Above what sum do requests for {obj} need a signature?=m
Q Whose signature is needed for {obj} above a certain sum?=p

S {who:rolename}s [receive|get|are paid] {m:money} for {ev:event}
S for {ev:event}, every {who:rolename} is paid {m:money}
Q How much does every {who} receive for {ev}?=m
Q What are {who}s paid for {ev}?=m

S the key to {site:site} hangs {sp:spot} and may be used only by {who:role}
S {who:role} alone may take the key to {site:site}, which hangs {sp:spot}
Q Where does the key to {site} hang?=sp
Q Who may use the key to {site}?=who

S {site:site} may be entered only between {t1:time} and {t2:time}
S between {t1:time} and {t2:time}, and at no other hour, {site:site} may be entered
Q From when may {site} be entered?=t1
Q Until when may {site} be entered?=t2

S on {d:date}, {p:person} sold {n:count} {g:good} to {q:person} for {m:money}
S {q:person} bought {n:count} {g:good} from {p:person} on {d:date} and paid {m:money}
Q How many {g} did {p} sell to {q}?=n
Q How much did {q} pay {p} for the {g}?=m
Q Who bought {g} from {p}?=q
Q When did {q} buy {g} from {p}?=d
Q From whom did {q} buy {g}?=p

S {p:person} travelled from {a:place} to {b:place} in {t:duration}
S it took {p:person} {t:duration} to get from {a:place} to {b:place}
Q How long did it take {p} to travel from {a} to {b}?=t
Q From where did {p} travel to {b}?=a
Q Where did {p} go from {a}?=b

S in {y:year} {p:person} moved to {a:place} and opened a shop for {g:good} there
S {p:person}, who had moved to {a:place} in {y:year}, opened a shop for {g:good}
Q When did {p} move to {a}?=y
Q What did the shop of {p} sell?=g
Q Where did {p} open a shop?=a

S {p:person} found {x:phrase} {sp:spot}
S {sp:spot}, {p:person} came upon {x:phrase}
Q What did {p} find {sp}?=x
Q Where did {p} find {x}?=sp
Q Who found {x} {sp}?=p

S {p:person} lent {x:object} to {q:person} for {t:duration}
S for {t:duration}, {q:person} was allowed to use {x:object} of {p:person}
Q For how long did {p} lend {x} to {q}?=t
Q What did {p} lend to {q}?=x
Q To whom did {p} lend {x}?=q

S {n:count} {g:good} are stored in {r:room}, and {p:person} counts them every {w:weekday}
S every {w:weekday}, {p:person} counts the {n:count} {g:good} in {r:room}
Q How many {g} are stored in {r}?=n
Q On which day does {p} count the {g}?=w
Q Who counts the {g} in {r}?=p
Q Where are the {g} that {p} counts?=r

S if {site:site} must be cleared, everyone gathers {sp:spot} and {who:role} counts heads
S when the alarm sounds in {site:site}, people meet {sp:spot}; {who:role} counts them
Q Where do people gather if {site} must be cleared?=sp
Q Who counts heads when {site} is cleared?=who

S {svc:service} must be requested [from|with] {who:role} at least {t:duration} in advance
S whoever needs {svc:service} asks {who:role}, {t:duration} ahead at the latest
Q Whom does one ask for {svc}?=who
Q How far ahead must {svc} be requested?=t
Q From whom is {svc} requested?=who

S staff may [claim|spend] up to {m:money} [a year|per year] on {svc:service}
S for {svc:service}, each member of staff may spend {m:money} a year
Q How much may staff spend on {svc}?=m
Q Up to which sum can staff claim {svc}?=m

S after {t:duration} without use, {svc:service} is [cancelled|withdrawn] by {who:role}
S {who:role} cancels {svc:service} if it was not used for {t:duration}
Q After how long without use is {svc} cancelled?=t
Q Who cancels {svc} that was not used?=who

S lost {g:good} must be reported to {who:role} before {t:time}; a new set costs {m:money}
S whoever loses {g:good} tells {who:role} before {t:time} and pays {m:money} for a new set
Q To whom must lost {g} be reported?=who
Q What does a new set of {g} cost?=m
Q By what time must lost {g} be reported?=t

S {p:person} chairs {ev:event}, which is held every {w:weekday} in {r:room}
S every {w:weekday} {ev:event} is held in {r:room}, with {p:person} in the chair
Q Who chairs {ev}?=p
Q On which day is {ev} held?=w
Q In which room is {ev} held?=r

S {x:object} must be cleaned with {liq:food} every {t:duration}
S every {t:duration}, {x:object} is to be rubbed with {liq:food}
Q How often must {x} be cleaned?=t
Q With what is {x} cleaned?=liq

S visitors to {site:site} [sign in|report] at {r:room} and wear a {c:colour} badge
S at {r:room}, visitors to {site:site} are given a {c:colour} badge
Q Where do visitors to {site} sign in?=r
Q What colour of badge do visitors to {site} wear?=c

S records of {ev:event} are kept for {t:duration} in {r:room}
S we keep the records of {ev:event} in {r:room} for {t:duration}
Q How long are records of {ev} kept?=t
Q Where are the records of {ev} kept?=r

S no more than {n:count} people may [join|attend] {ev:event} at once
S {ev:event} is open to {n:count} people at a time
Q How many people may attend {ev} at once?=n
Q To how many people at a time is {ev} open?=n

S orders placed before {t:time} leave {site:site} on the same day; later ones wait {d:duration}
S {site:site} sends orders the same day if they come before {t:time}, others after {d:duration}
Q Before what time must orders be placed to leave {site} on the same day?=t
Q How long do late orders wait at {site}?=d

S {org:org} bought {x:object} from {o2:org} in {y:year} for {m:money}
S in {y:year}, {o2:org} sold {x:object} to {org:org} for {m:money}
Q Who sold {x} to {org}?=o2
Q How much did {org} pay for {x}?=m
Q In which year did {org} buy {x}?=y

S the temperature in {site:site} must stay [below|above] {n:heat}
S nobody may let the temperature in {site:site} [pass|leave] {n:heat}
Q At [what|which] temperature lies the limit for {site}?=n
Q Which temperature [is|counts as] the limit for {site}?=n

S {p:person} painted {c:title} in {y:year} while living in {a:place}
S while living in {a:place}, in {y:year}, {p:person} painted {c:title}
Q Who painted {c}?=p
Q In which year was {c} painted?=y
Q Where did {p} live while painting {c}?=a

S {p:person} said that the [storm|fire|flood] had cost {a:place} {m:money} and {n:count} houses
S {a:place} lost {n:count} houses and {m:money} in the [storm|fire|flood], {p:person} said
Q How many houses did {a} lose?=n
Q How much money did {a} lose?=m
Q Who said what {a} had lost?=p

S to report {bad:cause}, call {ph:phone} and ask for {p:person}
S in the event of {bad:cause}, {p:person} is to be called on {ph:phone}
Q Which number should be called to report {bad}?=ph
Q Who is to be called in the event of {bad}?=p

S {who:role} [replaces|changes] {x:object} after {n:count} uses, or after {t:duration} if that is sooner
S after {n:count} uses or {t:duration}, {who:role} [replaces|changes] {x:object}
Q After how many uses is {x} replaced?=n
Q Who replaces {x}?=who
Q After how long is {x} replaced at the latest?=t

S {p:person} and {q:person} share {r:room} with {n:count} {g:good}
S in {r:room}, among {n:count} {g:good}, sit {p:person} and {q:person}
Q Who shares {r} with {p}?=q
Q Which room do {p} and {q} share?=r

S new [staff|members] spend their first {t:duration} [with|under] {p:person} in {site:site}
S the first {t:duration} of new [staff|members] are spent in {site:site}, under {p:person}
Q How long do new members spend in {site}?=t
Q Under whom do new members spend their first time in {site}?=p

S the committee voted {n:unitless} to {m:unitless} [for|against] {ev:event}
S with {n:unitless} votes to {m:unitless}, the committee decided [for|against] {ev:event}
Q With how many votes to {m} did the committee decide about {ev}?=n

S {x:object} broke down because of {c:cause}; {p:person} repaired it in {t:duration}
S {p:person} needed {t:duration} to repair {x:object}, which had failed because of {c:cause}
Q Why did {x} fail?=c
Q Who repaired {x}?=p
Q How long did it take to repair {x}?=t

S payment for {svc:service} is due {t:duration} after {ev:event}; late payers owe {m:money}
S {svc:service} must be paid {t:duration} after {ev:event}, or {m:money} is added
Q How long after {ev} is payment for {svc} due?=t
Q How much do late payers of {svc} owe?=m

S {p:person} gave {m:money} to {org:org} on condition that {g:good} be bought
S {org:org} received {m:money} from {p:person}, to be spent on {g:good}
Q How much did {p} give to {org}?=m
Q Who gave money to {org}?=p
Q On what did {org} have to spend the money of {p}?=g

S [anyone|a guest|whoever] who [breaks|loses|damages] {obj:object} [tells|informs] {p:person}, who [has|keeps] the list of repairs
S {obj:object}, if broken, is taken to {p:person}, the one who [has|keeps] the list of repairs
Q Who should [be told|hear] when {obj} is [broken|damaged]?=p
Q To whom does one [take|bring] {obj} if it is broken?=p
Q [Which person|Who] [has|keeps] the list of repairs for {obj}?=p

S people who want to [change|give up|trade] {svc:service} have to [say so|speak up] at least {t:duration} [beforehand|ahead of time]
S a wish to [change|trade|give up] {svc:service} has to be [known|heard] not less than {t:duration} [beforehand|ahead]
Q How [long|far] ahead must one say that {svc} is to be [changed|given up|traded]?=t
Q How much warning is needed to [change|trade|give up] {svc}?=t
Q With how much notice can {svc} be [changed|given up]?=t

S {g:good} that nobody [claims|collects] stay at {site:site} for {t:duration} before they are [sold|thrown away|auctioned]
S unclaimed {g:good} [remain|lie] at {site:site}; after {t:duration} they are [sold|thrown away]
Q How long do unclaimed {g} [stay|remain] at {site}?=t
Q For [how long|what length of time] are {g} that nobody claims [kept|stored]?=t
Q Where are unclaimed {g} [kept|stored]?=site
Q After [how long|what time] are unclaimed {g} [sold|disposed of]?=t

S the [first|last|only] train to {a:place} [pulls out|goes|departs] at {t:time} from {r:room}
S at {t:time} the [coach|train|bus] for {a:place} [pulls out|gets going|departs] from {r:room}
Q When does the [train|coach|bus] to {a} [leave|go|depart]?=t
Q [At what time|At which hour|What time] does one have to be there to get to {a}?=t
Q From where does the [train|bus|coach] for {a} [leave|depart]?=r

S travel by {x:object} is [reimbursed|paid back|compensated] [at|with] {m:money} [a day|per trip|a week], and by {y:object} [at|with] {n:money}
S for a journey by {x:object} one gets back {m:money}, for a journey by {y:object} {n:money}
Q How much is [reimbursed|paid back] for travel by {x}?=m
Q What amount does one get back for a journey by {y}?=n
Q What [sum|amount] is refunded for travelling by {x}?=m

S [hotel bills|taxi rides|lunches|books] are [covered|paid|met] up to {m:money} each, and {svc:service} up to {n:money}
S up to {n:money} is [paid|granted] for {svc:service}, and up to {m:money} for a hotel bill
Q What is the [most|highest amount] that is paid for {svc}?=n
Q Up to [what sum|how much] is {svc} [covered|paid]?=n
Q How high may the cost of {svc} be?=n

S accidents in {site:site} are [reported|announced|signalled] on {ph:phone}, and thefts on {ph2:phone}
S call {ph2:phone} about a theft and {ph:phone} about an accident in {site:site}
Q On which [line|number|extension] are accidents in {site} [reported|announced]?=ph
Q Which [line|number|extension] is for thefts in {site}?=ph2
Q Whom does one call about an accident in {site}: which number?=ph

S [only one person|nobody but one], {p:person}, [carries|owns|has] a key to {site:site}
S {site:site} is locked, and {p:person} alone [carries|has|holds] the key
Q Who [carries|has|holds] the key to {site}?=p
Q [What|Which] person can unlock {site}?=p
Q Whose key opens {site}?=p

S {x:object} is [swapped|exchanged|overhauled] after {n:count} [trips|turns|runs], {y:object} after {m:count}
S {n:count} [trips|runs] are allowed with {x:object} before it is [swapped|exchanged]; with {y:object} it is {m:count}
Q After how many [trips|runs|turns] is {x} [swapped|exchanged|replaced]?=n
Q How many [trips|runs] does {y} do before it is [swapped|exchanged]?=m

S [licences|certificates|permits] for {x:object} [expire|lapse|end] after {t:duration}, those for {y:object} after {u:duration}
S a [licence|permit] for {x:object} is good for {t:duration} and one for {y:object} for {u:duration}
Q After how long does the [licence|permit|certificate] for {x} [expire|lapse]?=t
Q For how long is a [licence|permit] for {y} good?=u

S a shift in {site:site} [lasts|takes] {t:duration}, followed by a rest of {u:duration}
S those who work in {site:site} do {t:duration} at a stretch and then rest for {u:duration}
Q How long is a shift in {site}?=t
Q How long do people from {site} rest [after|between] shifts?=u

S {who:rolename}s have {n:duration} of leave a year, {who2:rolename}s only {m:duration}
S there are {n:duration} of leave a year for a {who:rolename} and {m:duration} for a {who2:rolename}
Q How long may a {who} be on leave each year?=n
Q How long is the yearly leave of a {who}?=n
Q How long may {who2}s be on leave?=m

S a [note|slip|certificate] is wanted from day {n:unitless} of [an illness|an absence] on, and {p:person} files it
S {p:person} files the [note|slip] that is wanted from day {n:unitless} of [an illness|an absence]
Q From which day of an [illness|absence] on is a [note|slip] wanted?=n
Q Who files the [note|slip] about an [illness|absence]?=p

S children under {n:unitless} [travel|enter|eat] free at {site:site}; everyone else pays {m:money}
S whoever is under {n:unitless} pays nothing at {site:site}, and the rest pay {m:money}
Q Under what age is {site} free?=n
Q What does an adult pay at {site}?=m
Q How much is the [entrance|ticket] at {site} for grown-ups?=m

S {p:person} greets [newcomers|visitors|strangers] at {site:site}, while {q:person} [runs|manages] the [business|place] itself
S while {q:person} [runs|manages] {site:site}, it is {p:person} who greets [newcomers|visitors]
Q Who greets [newcomers|visitors|strangers] at {site}?=p
Q Who [really runs|manages|runs] {site}?=q

S {x:object} [replaces|stands in for] {y:object} from {mo:month} to {mo2:month}
S from {mo:month} to {mo2:month}, {y:object} [rests|is away] and {x:object} [takes its place|does its work]
Q What [replaces|stands in for] {y} from {mo} to {mo2}?=x
Q From which month does {x} stand in for {y}?=mo

S dinner at {site:site} is [dished up|on the table|offered] until {t:time}, and {p:person} [cooks|does the cooking]
S {p:person} [cooks|is the cook] at {site:site}, where dinner ends at {t:time}
Q Until when is dinner offered at {site}?=t
Q Who [cooks|is the cook] at {site}?=p
Q How late can one have dinner at {site}?=t

S forgotten [passwords|codes|keys] are [replaced|renewed] by {p:person} in {r:room} [against|for] {m:money}
S {p:person} in {r:room} renews forgotten [passwords|codes|keys], which costs {m:money}
Q Who helps with forgotten [passwords|codes|keys]?=p
Q Where does one go with a forgotten [password|code|key]?=r

S [old files|ledgers|diaries] are [stored|preserved] for {t:duration} in {site:site}
S {site:site} is where [old files|ledgers|diaries] are preserved, for {t:duration}
Q For how long are the [files|ledgers|diaries] in {site} [stored|preserved]?=t
Q [Where|In what place] are [old files|ledgers|diaries] preserved for {t}?=site

S those who resign give {t:duration} of [warning|notice] and [hand|give] {x:object} to {p:person}
S {p:person} takes back {x:object} from those who resign; they give {t:duration} of [warning|notice]
Q How much [notice|warning] must someone who resigns give?=t
Q Who takes back {x} [when someone leaves|from those who resign]?=p

S {site:site} has [room|space|beds] for {n:count} {g:good} and {m:count} [guests|children|soldiers]
S {n:count} {g:good} and {m:count} [guests|children|soldiers] fit into {site:site}
Q How many {g} [fit|go] into {site}?=n
Q For how many {g} is there [room|space] in {site}?=n

S {x:object} [bears|carries|supports] {m:measure} and was [tested|approved] by {p:person}
S {p:person} [tested|approved] {x:object}, which [bears|supports] {m:measure}
Q What load does {x} [bear|carry|support]?=m
Q Who [tested|approved] {x}?=p
Q How much may be put on {x}?=m

S {an:animal}s [travel|stay] at {site:site} for {m:money}, {an2:animal}s for {n:money}
S {site:site} takes {m:money} for a {an:animal} and {n:money} for a {an2:animal}
Q How much is [charged|asked] for a {an} at {site}?=m
Q What does a {an2} cost at {site}?=n

S the [network|system|computer] of {site:site} is called {b:brand} and is [run|looked after] by {p:person}
S {p:person} [runs|looks after] {b:brand}, the [network|system|computer] of {site:site}
Q What is the [network|system|computer] of {site} called?=b
Q Who [runs|looks after|is in charge of] {b}?=p

S the classes of {p:person} in {su:subject} take place on {w:weekday}s and cost {m:money}
S every {w:weekday}, {p:person} teaches {su:subject} for {m:money}
Q Who teaches {su}?=p
Q What do the classes in {su} cost?=m
Q On which day is {su} taught?=w

S nothing [moves|leaves|lands] at {site:site} when the wind is above {n:measure}, and {who:role} decides
S it is {who:role} who decides whether {site:site} closes; above {n:measure} of wind nothing moves
Q Above what wind does nothing move at {site}?=n
Q Who decides whether {site} closes?=who

S {org:org} counts {n:count} members and was [started|called into being] in {y:year} by {p:person}
S in {y:year}, {p:person} called {org:org} into being; today it has {n:count} members
Q How many members does {org} [count|have]?=n
Q Who [started|called into being|founded] {org}?=p
Q When was {org} [started|called into being|founded]?=y

S sand is [taken|fetched] from {sp:spot}; {n:count} sacks are [kept|held] there
S {n:count} sacks of sand are [kept|held] {sp:spot}
Q How many sacks of sand are [kept|held] {sp}?=n
Q Where [can one get|is] the sand?=sp

S after {ev:event}, {p:person} [writes|draws up] a report, which {org:org} [gets|receives] within {t:duration}
S {org:org} is to have the report on {ev:event}, by {p:person}, within {t:duration}
Q Who [writes|draws up] the report [after|on] {ev}?=p
Q Within [what time|how long] does {org} get the report on {ev}?=t
Q Who [gets|receives] the report on {ev}?=org

S [bills|slips|vouchers] for {ev:event} are [dropped|put] into the {c:colour} [box|tray|envelope] by the {n:unitless}th of the month
S by the {n:unitless}th of the month, [bills|vouchers] for {ev:event} belong in the {c:colour} [box|tray]
Q Into which [box|tray] do [bills|vouchers] for {ev} go?=c
Q What colour is the [box|tray] for [bills|vouchers] from {ev}?=c

S {g:good} worth more than {m:money} are [marked|engraved] with [a number|initials], as {p:person} [wants|ordered]
S on the order of {p:person}, {g:good} worth more than {m:money} are [marked|engraved]
Q Above what [value|worth] are {g} [marked|engraved]?=m
Q Who ordered that {g} be [marked|engraved]?=p

S it was not {p:person} but {q:person} who [repaired|painted|sold] {x:object}
S {q:person}, not {p:person}, [repaired|painted|sold] {x:object}
Q Who [repaired|painted|sold] {x}?=q
Q By whom was {x} [repaired|painted|sold]?=q

S the [bell|whistle|horn] of {site:site} [sounds|rings] {n:count} times when {ev:event} [ends|is over]
S when {ev:event} is over, the [bell|whistle] of {site:site} [sounds|rings] {n:count} times
Q How many times does the [bell|whistle|horn] of {site} sound?=n
Q What number of [rings|signals] ends {ev}?=n

S {p:person} lives {sp:spot} with {q:person} and {n:count} {an:animal}s
S together with {q:person} and {n:count} {an:animal}s, {p:person} has made a home {sp:spot}
Q Where does {p} live?=sp
Q With whom does {p} [live|share a home]?=q
Q How many {an}s does {p} have?=n

S [ask|call for] {p:person} if {bad:cause} [stops|slows] the work, and {q:person} if it is {bad2:cause}
S {bad:cause} is a matter for {p:person}, {bad2:cause} one for {q:person}
Q Who [should be asked for|is responsible] in case of {bad}?=p
Q Whose [matter|job|business] is {bad2}?=q

S the [shortest|safest|usual] way from {a:place} to {b:place} takes {t:duration} and leads past {site:site}
S going from {a:place} to {b:place}, one passes {site:site} and needs {t:duration}
Q How long does the way from {a} to {b} take?=t
Q What does one pass on the way from {a} to {b}?=site

S of all the {g:good}, {p:person} prefers the {c:colour} ones from {a:place}
S {p:person} wants {c:colour} {g:good}, and they have to come from {a:place}
Q What colour of {g} does {p} [prefer|want]?=c
Q Where do the {g} that {p} [prefers|wants] come from?=a

S the price of {x:object} [rose|fell|went] from {m:money} to {n:money} in {y:year}
S in {y:year}, {x:object}, which had cost {m:money}, was [sold|offered] at {n:money}
Q What did {x} cost before {y}?=m
Q To what did the price of {x} change?=n

S {p:person} [trusts|follows|admires] {q:person}, the {tr:trade} who [designed|restored] {site:site}
S {site:site} was [designed|restored] by a {tr:trade}, {q:person}, whom {p:person} [trusts|admires]
Q Who [designed|restored] {site}?=q
Q Whom does {p} [trust|follow|admire]?=q
Q What is {q}'s trade?=tr

S {who:role} must not [lend|sell|show] {x:object} to [anyone|strangers] unless {p:person} [agrees|consents|is told]
S unless {p:person} [agrees|consents], {x:object} stays with {who:role}
Q Who must [agree|consent] before {x} is [lent|sold|shown]?=p
Q With whom does {x} stay?=who
"""


@lru_cache(maxsize=1)
def scenes() -> tuple[Scene, ...]:
    """All kinds of scenes, parsed once."""
    tables = f"{_TABLE.strip()}\n\n{TABLE.strip()}"
    return tuple(_parse(block) for block in tables.split("\n\n"))


def _parse(block: str) -> Scene:
    lines = block.splitlines()
    statements = [line[2:] for line in lines if line.startswith("S ")]
    questions = [line[2:].rsplit("=", 1) for line in lines if line.startswith("Q ")]
    return Scene(
        statements=tuple(_SLOT.sub(r"{\1}", statement) for statement in statements),
        slots=dict(_SLOT.findall("\n".join(statements))),
        questions=tuple((wording, slot) for wording, slot in questions),
    )
