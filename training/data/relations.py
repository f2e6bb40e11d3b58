"""Everyday relations, each said and asked in many ways, one or two sentences at a time.

The syntax is that of training.data.scenes; a slot needs its kind only where it first stands.
A slot of kind `verb` brings its forms: {v}, {v_ed}, {v_ing}.
"""

# ruff: noqa: E501  (one wording a line, however long)

TABLE = """
S {x:damaged} [goes|is passed|is sent] [directly|at once] to {p:person}[|, who will mend it|, who has new ones]
S {x} must [be handed|be given|be taken|be brought|be turned over] to {p}[| without delay|, and to nobody else]
S [bring|give|hand|take] {x} to {p}[| at once|; do not throw it away]
S [whoever|anyone who|somebody who] [finds|sees|discovers] {x} [hands|gives|takes|brings] it to {p}
S {p} [wants|takes in|collects|receives|is glad to get] {x}
S {x} [belongs|ends up|is best left] with {p}
S [if|when] you [come across|notice] {x}, [let {p} have it|see {p} about it|pass it on to {p}]
S do not keep {x}. [Give it|It should go|It must be handed] to {p} instead
S [now and then there is|sooner or later one finds] {x}. {p} [will deal with it|takes care of such things|should get it]
Q [Who|Which person] [should|must|has to|is to] [get|receive|have] {x}?=p
Q To whom [should|must|does one] [one hand|one give|bring] {x}?=p
Q Who [gets|receives|takes|collects|deals with] {x}?=p
Q Where [should|does|must] {x} [go|be taken]: to whom?=p
Q [Whom|Who] do I [see|turn to|go to] with {x}?=p
Q I have found {x}. Who should have it?=p
Q Into whose hands does {x} belong?=p
Q Whom must one give {x}?=p
Q What [does one|should I] do with {x}, to whom [does it go|is it handed]?=p

S {g:good} are [kept|stored|put away|locked] in {site:site}[|, and nowhere else|, where it is dry]. {p:person} [has|holds|carries|owns] the [only key|key]
S {site} is [locked|closed]. The [only|single] key is [with|in the pocket of|in the hands of] {p}
S the {r:rolename}, {p}, is the [only|single|one] person [with|to have|who has] a key to {site}
S {g} are in {site}. The {r}, {p}, [alone has|is the one who has|keeps] a key
S there is one key to {site}, and {p}[|, the {r},] [has|keeps|guards] it
S [nobody|no one] but {p}[|, the {r},] can [open|unlock|get into] {site}
S to get into {site}[|, where the {g} are], one has to [find|ask|fetch] {p}, who [has|keeps] the key
S {p}[|, the {r},] [opens|unlocks] {site} [when asked|in the morning]; there is no second key
Q [Who|Which person|What person] [has|keeps|carries|owns] the key to {site}?=p
Q Who can [open|unlock|let me into] {site}?=p
Q With whom is the key to {site}?=p
Q [Whom|Who] [must|should] [I|one] ask for the key to {site}?=p
Q In whose hands is the key to {site}?=p
Q By whom is the key of {site} [held|kept]?=p
Q Who is able to get into {site}?=p

S [people|members|staff|workers|those] who [wish|want|hope|plan] to {v:verb} a {n:occasion} [tell|inform|write to|call] {who:role} [no later than|at least|not less than] {t:duration} before it [starts|takes place|is due]. A {n} [takes|lasts|goes on for] {d:duration}
S a {n} [lasts|takes|goes on for] {d}. [Anyone|Whoever|A person] who [wants|has] to {v} it [says so|gives notice|speaks up] {t} [beforehand|ahead|in advance] to {who}
S {v_ing} a {n} of {d} is allowed if {who} [knows|hears|learns] of it {t} [beforehand|ahead of time|earlier]
S a {n} may be {v_ed}, but {who} must [know|hear|be told] at least {t} before it [begins|starts]; it [lasts|takes] {d}
S [to|in order to] {v} a {n}, which [lasts|takes] {d}, [let {who} know|tell {who}|ask {who}] {t} ahead
S {who} [accepts|allows] a {v_ed} {n} only with a warning of {t}; the {n} [lasts|takes] {d}
S {d} is how long a {n} [lasts|takes], and {t} is how long before it [starts|begins] one may still {v} it by telling {who}
Q How [far|long] ahead of its [start|beginning] must a {v_ed} {n} be [reported|made known]?=t
Q How [long before|far in advance|early|much earlier] must [one|I|you] [announce|report|say] that a {n} is to be {v_ed}?=t
Q How much [notice|warning] [is needed|do I need|does it take] to {v} a {n}?=t
Q [Until|Up to] how long before the start can a {n} be {v_ed}?=t
Q What [notice|warning|time] [does|must one give when] {v_ing} a {n} [need|call for]?=t
Q How long does a {n} [last|take|go on]?=d
Q [What is the length of|How long is] a {n}?=d
Q Who [has to|must|should] [know|hear|be told] [if|when] a {n} is {v_ed}?=who
Q To whom does one [announce|report] a {v_ed} {n}?=who

S [what|whatever|anything that] [guests|visitors|customers|travellers] [forget|lose|leave lying about] is [kept|stored|put aside] at {site:site} for {t:duration}[| and then sold| and given away after that]
S [lost|forgotten|mislaid] [things|belongings|objects] [stay|wait|are kept] at {site} for {t}
S for {t}, {site} [keeps|stores|looks after] [lost|forgotten] [things|belongings|property] of [guests|visitors]
S [things|belongings] that were [lost|forgotten] can be [collected|fetched|claimed] from {site} for {t}
S {site} is where [lost|forgotten] [property|belongings] is [taken|brought]; it is [given away|sold|burnt] after {t}
Q [For how long|How long] [are|does one keep] [lost|forgotten|mislaid] [things|belongings|articles]?=t
Q [For how long|How long] is [property|stuff] that [guests|visitors|customers] [forget|lose] [kept|stored]?=t
Q How long [can|may] I [fetch|collect|claim] [lost|forgotten] [things|belongings]?=t
Q How much time does one have to [claim|fetch] what one [lost|forgot]?=t
Q Where [are|do I find] [lost|forgotten] [things|belongings]?=site
Q At what place is [lost|forgotten] property [kept|held|stored]?=site

S {c1:incident} [of any kind|] [are|must be|have to be] [reported|announced|called in] to {a:digits}, {c2:incident} to {b:digits}
S in case of {c1}, [dial|ring|call] {a}; in case of {c2}, {b}
S the number for {c1} is {a}, the one for {c2} is {b}
S {c1}? [Ring|Call|Dial] {a}. {c2}? [Ring|Call|Dial] {b}
S extension {a} [takes|handles|answers] reports of {c1}, and extension {b} reports of {c2}
S [report|announce] {c1} to extension {a} and {c2} to extension {b}, [at any hour|day and night|even on Sundays]
S {c1} must be [called in|phoned in] on extension {a}. For {c2} the extension is {b}
Q [Which|What] [number|extension|line] [handles|is for] [reports of|news of] {c1}?=a
Q [Which|What] [number|extension] [do I|does one|should I] [call|dial|ring] [because of|about|in case of] {c2}?=b
Q [On|To|Under] which [number|extension|line] are {c1} [reported|announced|phoned in]?=a
Q Where does one [call|ring] about {c2}?=b
Q {c1}: which [extension|number]?=a

S {g:purchase} [is|are] [paid back|covered|reimbursed|met] up to {m:money} [a day|a month|each], {g2:purchase} up to {n:money}
S the [house|firm|office|treasurer] pays [at most|no more than|up to] {m} for {g} and {n} for {g2}
S [up to|at most|no more than] {m} [is|can be] [refunded|claimed|asked back] for {g}; for {g2} it is {n}
S [whoever|anyone who] [buys|pays for] {g} gets back up to {m}, and up to {n} for {g2}
S {m} is the [limit|ceiling|most one gets] for {g}, {n} for {g2}
Q [Up to what|What is the highest|What is the largest] [amount|sum] [is|that is] [refunded|paid back|covered|allowed] for {g}?=m
Q How much [may|can] [one|I] [spend|claim|get back] [for|on] {g2}[| at most]?=n
Q What is the [limit|ceiling|maximum] for {g}?=m
Q Up to [how much|what sum] [is|are] {g2} [covered|reimbursed|paid]?=n
Q How much [do I|does one] get back for {g}?=m

S the [morning|evening|late|last|first] [train|bus|tram|coach|plane|boat] to {a:place} [leaves|departs|sets off|starts|goes] at {t:time}, the one to {b:place} at {u:time}
S at {t} the [train|bus|tram|coach] for {a} [leaves|departs|moves off], at {u} the one for {b}
S [passengers|travellers] for {a} must be [there|aboard|ready] by {t}, when the [bus|train|coach] [leaves|goes]; for {b} it is {u}
S it is {t} when the [coach|bus] to {a} [leaves|sets out], and {u} when the [coach|bus] to {b} does
Q [When|At what time|At what hour] does the [train|bus|coach|boat] to {a} [leave|depart|go|set off|start]?=t
Q What time is the departure for {b}?=u
Q When [can one|do people] [leave|set off] for {b}?=u
Q When is the [bus|train] for {a}?=t

S the {x:thing} of {o:object} is [changed|replaced|renewed|exchanged] after {n:count} [trips|lifts|uses], that of {o2:object} after {m:count}
S {n} [trips|uses|lifts] are [allowed|permitted] for the {x} of {o}, {m} for that of {o2}
S one [changes|renews] the {x} of {o} every {n} [trips|uses] and the {x} of {o2} every {m}
Q After how many [trips|uses|lifts] is the {x} of {o} [changed|replaced|renewed]?=n
Q How [many trips|often] until the {x} of {o2} is [changed|renewed]?=m
Q When is the {x} of {o} due for a change, after how many [trips|uses]?=n

S {org:org} is [steered|guided|governed] by {p:person}, [while|whereas] {q:person} [looks after|sees to|handles] the [daily work|everyday business|paperwork]
S the [daily work|everyday business|paperwork] of {org} is [in the hands of|done by|left to] {q}; {p} [steers|guides|governs] it
S {p} is the [chair|president|head] of {org}. {q} [does|handles] the [daily work|everyday business]
Q Who [steers|guides|governs|chairs|presides over] {org}?=p
Q Who [handles|sees to|does|is in charge of] the [daily work|everyday business|paperwork] [of|at] {org}?=q

S the {r:rolename} of {site:site} is {p:person}, and the {r2:rolename} is {q:person}
S {p} is {r} at {site}; {q} is {r2} there
S {site} has a {r}, {p}, and a {r2}, {q}
S at {site}, {p} works as {r}. [Beside|With|Under] {p}, {q} [serves|works] as {r2}
Q Who is the {r} [of|at|in] {site}?=p
Q [Which person|Who] works as {r2} at {site}?=q
Q What is the name of the {r} [of|at] {site}?=p
Q What does {q} do at {site}?=r2

S in {site:site} there are {n:count} {g:good} for [adults|men|guests] and {m:count} for [children|women|staff], [checked|counted] by {p:person}
S {p} [counted|checked] {n} {g} in {site}
S {site} [has|holds|keeps] {n} {g}. {p} [checks|counts] them [each year|now and then]
Q How many {g} [are there|does one find] in {site}[| for adults]?=n
Q Who [counts|counted|checks|checked] the {g} in {site}?=p

S [a stay|one night|a bed] in {site:site} [costs|is] {m:money} for members and {n:money} for [guests|strangers|others]
S members pay {m} for [a stay|a night] in {site}, [guests|others] {n}
S {site} [asks|charges|takes] {m} of members; of [guests|others] it [asks|charges] {n}
Q [What|How much] do members pay [for a night|for a stay|to stay] in {site}?=m
Q How much is [a night|a stay] in {site} for [guests|others|those who are no members]?=n

S {k:subject} [courses|lessons|papers] have to be [renewed|repeated|refreshed] after {t:duration}, those in {k2:subject} after {u:duration}
S after {t} one has to [repeat|refresh] the course in {k}, after {u} the one in {k2}
S a course in {k} [holds|is good|counts] for {t}. One in {k2} [holds|is good|counts] for {u}
Q After [how long|what time] must a course in {k} be [renewed|repeated|refreshed]?=t
Q How long does a course in {k2} [hold|count|stay good]?=u

S {x:object} is filled [to the rim|halfway] with {b:make}, a [thin|sticky|dark|pale] {k:stuff}
S [only|nothing but] {b}, a {k} [of the best sort|with no smell], [is used on|is good enough for] {x}
S with {b}, a [pale|sticky|cheap] {k}, {x} is [treated|smeared|fed][| twice a year]
S [on|over|around] {x} [comes|one puts] {b}, a {k} [from abroad|with little smell|that dries fast]
S {x} [needs|asks for|is given] {b}[| now and then]. It is a [strong|mild] {k}
Q Which {k} is [used on|put on|meant for] {x}?=b
Q What {k} does {x} [need|get|take]?=b
Q With which {k} is {x} [filled|treated]?=b
Q What is the name of the {k} for {x}?=b
Q What is {b}?=k

S [write|put|mention] {c:code} [in the letter|on the order], and {p:person} will hand you {x:object}
S if you [write|put|enter] {c} on the order, you will [be given|be lent|receive] {x} by {p}
S {x} [comes|arrives] if one [writes|gives] {c} on the order; otherwise {p} sends something else
S [orders|letters] that bear {c} are answered by {p} with {x}
S [asking|whoever asks] {p} for {x} [takes|needs] the word {c}
Q What does one [write|put|mention] [to get|to be given|in order to get] {x}?=c
Q With which [code|word|mark] is {x} ordered?=c
Q What must [the order|the letter] [say|bear] if {x} is wanted?=c
Q Which [code|word] [brings|gets] one {x}?=c
Q Who hands out {x} [to those|if people] who write {c}?=p

S [before it is sold|on the last day|at the end], every {x:thing} receives a {c:colour} [stamp|ribbon|dot] at the hands of {p:person}
S {p} [ties|glues|fixes] a {c} [ribbon|dot|stamp] to every {x}[| before it is sold]
S no {x} is sold before it has had its {c} [stamp|dot] from {p}
S a {x} [without|that lacks] the {c} [stamp|dot] of {p} is [thrown out|not for sale]
Q Who [ties|fixes|glues] the {c} [stamp|dot|ribbon] to every {x}?=p
Q From whom does every {x} [get|receive] its {c} [stamp|dot]?=p
Q Whose {c} [stamp|dot|ribbon] does every {x} bear?=p
Q What colour is the [stamp|dot|ribbon] that {p} gives every {x}?=c

S {a:damaged} and {b:damaged} were [found|seen] by {p:person} in {site:site}, {n:duration} and {m:duration} after {ev:event}
S {n} after {ev}, {p} [found|saw] {a} in {site}; {m} after it, {b} was there, too
Q Who [found|saw] {a} in {site}?=p
Q How long after {ev} was {b} [found|seen]?=m
Q How long after {ev} did {p} [find|see] {a}?=n
Q What was [found|seen] in {site} {n} after {ev}?=a

S [left|the left-hand] [key|door|tap] of {x:object}: {a:phrase}. [Right|The right-hand] [key|door|tap]: {b:phrase}
S the [left|left-hand] side of {x} [bears|shows] {a}, the [right|right-hand] one {b}
S on {x} one [sees|finds] {a} to the left and {b} to the right
Q What is [on the left|to the left|on the left side] of {x}?=a
Q What does one [see|find] on the right of {x}?=b
Q On {x}, what is on the other side from {b}?=a

S {x:object} is [pressed|pulled|wound] [firmly|evenly] with {m:measure}[| and then left alone], {y:object} with {n:measure}
S [press|pull|wind] {x} [firmly|evenly|slowly] with {m}, but {y} with {n}[| only]
S one [needs|uses] {m} to [press|pull|wind] {x}, and {n} in the case of {y}
S {m} is what {x} is [pressed|pulled|wound] with[|, all around]; {y} takes {n}
Q With [what|which] [force|measure] is {x} [pressed|pulled|wound]?=m
Q With [what|which] [force|measure] is {y} [pressed|pulled|wound]?=n
Q How hard is {x} [pressed|pulled|wound]?=m
"""
