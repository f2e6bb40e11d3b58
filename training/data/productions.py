"""Productions of the composed wordings: a name, then what it may become, one line each.

<name> is another production, [a|b] a choice, _ a blank; a line further in goes on with the one
before. {E} is the subject, {A} the attribute's noun, {V} the value, {W} a wrong value, {s} {ed}
{pp} {base} forms of any verb. What is held out (training.data.split) is kept out by
training.data.composed, not here.
"""

TABLE = """
noun
the <quality>{A} <near> {E}
the <quality>{A} <near> {E}
the <quality>{A} <tie> <near> {E}
the <quality>{A} <tie> <near> {E}
the <quality>{A} <tie> <near> {E}
the {A} [which|] {E} <owns>
the {A} [which|that] <serves> {E}
the {A} [which|that] [is|was|has been] <tie> <near> {E}
the {A}, <concerning> {E},
the {A}, <concerning> {E},
the {A} (<concerning> {E})
{E}'s <quality>{A}
{E}'s {A}
{E}'s {A}
that {A} of {E}
what {E} <owns> as [its |the |]{A}
what is <tie> <near> {E} as [its |the |]{A}
the {A} <concerning> {E}
the thing called {A} <near> {E}
{E} and its {A}, the latter

quality
[actual|exact|correct|true|real|proper|own|very|famous|well-known|much-discussed|said|certain]_
[]
[]
[]
[]
[]
[]

near
[of|of|of|for|for|for|with|at|under|from|about|to|to|by|by|behind|around|beside|on|in|against|
  near|upon|within|among the papers of|in the hands of|on the side of|next to]

tie
[linked|pinned|allotted|ascribed|bound|fixed|issued|meant|shown|registered|filed|reported|
  published|borne|owned|claimed|carried|set|earned|put down|reserved|handed|granted|lent|traced|
  due|relevant|peculiar|known|valid|laid down|marked|booked|declared|stored|announced|wanted|fit|
  joined|fastened|delivered|awarded|credited|mapped|proper|specific|{pp}|{pp}|{pp}|{pp}]

owns
[uses|owns|bears|carries|shows|needs|got|received|obtained|was given|was promised|goes by|
  relies on|works with|keeps|calls its own|has had for years|came to have|displays|possesses|
  enjoys|claims|took over|{s}|{ed}|can boast of|stands by]

serves
[serves|suits|marks|fits|goes with|comes with|accompanies|concerns|describes|follows|
  distinguishes|matches|covers|{s}|{ed}|falls to|comes under|applies to|pertains to|relates to]

concerning
[in respect of|with respect to|in relation to|when it comes to|talking about|once we turn to|
  with|in the matter of|on the part of|in view of|at least for|looking at|if one means|
  thinking of|so long as we speak of|to stay with|seen from|in regard to|touching|meaning|
  that is to say for|at|as regards|under the heading of]

be
is
was
[will|must|should|may|might|can|shall] be
has [long |since |always |meanwhile |]been
[seems|appears|turns out|proves|is said|is known|is supposed|is believed|was found|was seen|
  is thought|was reported|is meant|came|ought|continues|is going] to be
[is|was|has been] <noted> [as|to be|at|down as|in the form of|with the entry]
[stays|ran to|runs|comes out as|works out as|comes down to|boils down to|goes like this:|
  looks like this:|corresponds to|is no other than|is equal to|is identical with|consists in|
  is represented by|is expressed by|is rendered as|has become|was fixed on|settled at|ended up as|
  took the form of|was replaced by|went over to|figures as|now says|matches]
is, <aside>,
[<adverb>] is
is <adverb>

adverb
[currently|indeed|certainly|definitely|obviously|officially|probably|again|once more|already|
  nowadays|in truth|plainly|today|by now|ever since|surely|without question|evidently|as usual|
  henceforth|in effect]

aside
[I believe|we hear|to be frank|as you may guess|according to the <paper>|if memory serves|
  for once|as it happens|to tell the truth|by all accounts|in the opinion of the <person>|
  after all|in any case|no doubt|so the <person> insists|as far back as anyone recalls|
  for better or worse|on reflection|strictly speaking|in a word|so to speak|as luck would have it|
  on paper|at the time of writing|apparently]

noted
[recorded|entered|noted|listed|taken|fixed|described|cited|quoted|reported|declared|announced|
  stated|specified|defined|documented|published|shown|printed|registered|booked|filed|marked|
  displayed|identified|read|seen|copied|confirmed|established|named|understood|reckoned|laid down|
  written|spelled out|approved|accepted|revealed|mentioned|{pp}|{pp}]

paper
[paper|book|folder|chart|agreement|contract|protocol|journal|dossier|survey|summary|timetable|
  inventory|sheet|board|poster|plan|handout|index|database|catalogue|diary|circular|bulletin|card|
  map|label|form|certificate|archive|screen]

person
[guard|secretary|librarian|caretaker|driver|editor|engineer|nurse|witness|neighbour|captain|
  cook|treasurer|teacher|inspector|visitor|mechanic|chairman|assistant|watchman|archivist|
  accountant|guide|gardener|officer]

told
[says|said|states|shows|showed|tells us|told us|mentions|confirms|confirmed|insists|claims|
  repeats|explains|recalls|reveals|reports|adds|admits|maintains|announces|notes|has it|
  makes clear|leaves no doubt]

writes
[wrote|put|entered|noted|typed|printed|recorded|set down|marked|quotes|cites|names|mentions|
  lists|enters|has|uses|prints|offers|accepts|wants|recommended|suggested|reads|keeps|prefers|{s}|
  {ed}]

acts
[served|acts|works|counts|functions|figures|features|ranks|passes|appears|occurs|comes up|
  is seen|is read|is cited|is quoted|went|does duty|is <noted>|was <noted>|has been <noted>|
  will be <noted>|can be <noted>|should be <noted>|came in|is in use|was brought in|is treated|
  is recognised|holds good]

makes
[makes up|forms|gives|constitutes|represents|denotes|means|marks|names|answers for|expresses|
  has become|became|remains|turned into|will be|would be|should be|must be|has been|
  has always been|is still|is again|is indeed|is, <aside>,|is <adverb>|was <adverb>|may be called|
  describes|fills the place of|provides|supplies|spells out|can only be|is what we call|
  is what stands under|is how they refer to|is the name or value of|is the entry for|
  is the answer when you ask for|is what you need for|ended up as|proved to be|turned out to be|
  is considered|seems to be|is said to be]

statement
<noun> <be> {V}
<noun> <be> {V}
<noun> <be> {V}<trail>
<noun><inset> <be> {V}
<noun>, <aside>, <be> {V}
<noun> <be> {V}, <aside>
{V} <acts> as <noun>
{V} <acts> as <noun>
{V} <makes> <noun>
{V} <makes> <noun>
{V}<inset> <makes> <noun>
{V}<inset> <acts> as <noun>
{V}, <aside>, <makes> <noun>
it [was|must be|has to be|can only be|will be|is not by chance|is surely] {V} [that|
  which] [<acts> as|<makes>] <noun>
what [<acts> as|<makes>] <noun> [is|was|must be|has to be] {V}
<give> {V} as [its |the |]{A} <place> {E}
{E} [<owns>|<owns>|<keeps>] {V} [as|for|by way of|in place of] [its|a|the] {A}
{E} [<owns>|<keeps>] [a|the|its] {A}, [namely|that is|to wit|viz.|which is|called|and this is|
  being|i.e.|in this case|and you guessed it:|none other than] {V}
{E}<inset> <keeps> [the|its|a] {A} {V}
{E}, with [its|the] {A} {V}, <event>
{E}, with {V} [for|as|by way of] [its |the |]{A}, <event>
{E} (<noted>: {V} as [its |]{A}) <event>
{E} [-|,|(] [its|the] {A}: {V} [-|,|)] <event>
{E} <event>; [its|the] {A} <be> {V}
{E} <event>. [Its|The|That] {A} <be> {V}
{E} <event>. [Its|The] <quality>{A} <be> {V}
{E} <event>. {V} <acts> as [its|the] {A}
{E} <event>. {V} <makes> [its|the] {A}
{E} <event>, and [its|the] {A} <be> {V}
{E} <event>, [whose|the] {A} <be> {V}
[Since|Although|While|When|Because|As|Though|Before|After] {E} <event>, [its|the] {A} <be> {V}
[the|a|every|each|our|one|that|this] <paper> [<writes>|<writes>|<told>:] {V} [as|for|under|
  against|in place of|by way of] <noun>
the <person> [<writes>|<writes>] {V} [as|for|under|against|by way of] <noun>
the <person> <told> [that |]<noun> <be> {V}
the <person> [asked|wondered] about {E} and [was shown|got|heard of|received] [the|its] {A} {V}
[we|they|people|you|some|most people|both sides] <write> {V} [as|for|under|when it comes to|
  in place of] <noun>
[asked|questioned|pressed] [for|on|about] <noun>, the <person> [answered|replied|mentioned|
  pointed to|murmured|said] {V}
[to|for|with|at|under|from|in|by|on] {E} [goes|falls|comes|there is|was handed|we enter|
  they put|was applied|we find|applies|counts] [the|its|as] {A} {V}
[in|under|for] the [column|line|box|heading|column headed|space for the] {A}, {E} [shows|has|
  carries|gives|offers|displays] {V}
[on|in|from] the <paper>, {E} [appears|is shown|is printed|comes|figures|is put down] [with|
  under|beside|next to] {V} [as|for|under] [the |its |]{A}
[no|not a single|never another|no further|no second|hardly another] {A} [than|except|besides|
  save|apart from] {V} [was|is|has been|will be] [known|wanted|seen|possible|accepted|found|
  {pp}] <place> {E}
{E} [never|does not|did not|will not|would not|cannot] [accept|need|use|want|take|know|tolerate|
  {base}] [a|any|another|any further] {A} [except|besides|save|apart from|unless it is] {V}
[nobody|no one|hardly anyone|never did anyone|none of us] [calls|called|took|saw|{ed}|
  named] [anything but|anything save|another thing than|anything besides] {V} <noun>
[if|unless|until] [nothing changes|I am mistaken|somebody objects|the <paper> is wrong|
  you know better], <noun> <be> {V}
[guess|note|mark|write|read|learn|see|hear|record|consider|accept|memorise] [it|this|well|
  once more]: <noun> <be> {V}
[so much for|enough of|that leaves|there remains|now to|next comes|then comes|on to|
  finally] <noun>, [which <be>|i.e.|that is,|namely] {V}
[here|there|then|thus|hence|therefore|yet|still|again|too] <noun> <be> {V}
{V}[:| -| /| =|,] <noun>
<noun> [=|:|->|/|-|...|(] {V}
{A} [at|with|under|from|by|to|/|->|=>|::|@] {E}[:| =| -|,| is|] {V}
{E} [::|>|->|/|=|*|~] {A} [=|:|->|/|-|~] {V}
{V} [<-|/|:|=|-|,|~] {E} [/|:|-|,|~] {A}
{E}[,| -|:] {V}[,| -|:] [this is|that was|we mean|so much for|meaning|i.e.] the {A}
<contrast>
<contrast>
<contrast>
<contrast>

keeps
[keeps|shows|displays|lives with|came with|went for|settled for|works with|was left with|
  made do with|stays with|opted for|sticks to|appears with|figures with|presents|offers|boasts|
  wears|calls for|demands|requires|adopted|acquired|won|earned|features|contains|includes|reports|
  declares|gave|found|decided on|agreed to|insists on|returns to|counts on]

give
[give|put|enter|note|write|use|take|keep|set|type|choose|have|let us take|they put|we enter|
  people quote|one takes|you will see|please read|be sure to use|we recommend|always quote]

place
[at|for|with|under|beside|against|on behalf of|in|next to|when dealing with|whenever you meet|
  in the case marked|speaking to|facing|in front of|wherever you see|concerning|around|near]

write
[write|put|enter|note|quote|cite|use|take|accept|record|print|read|see|find|type|choose|
  recommend|want|prefer|count|wrote|took|chose|found|recognise|{base}|{ed}]

event
[was seen|was mentioned|is well looked after|stands out|has its admirers|keeps everyone busy|
  returns to the agenda|caused some talk|was on everybody's lips|lies ahead of us|is nothing new|
  has seen better days|remains popular|made the news|attracts visitors|needs no praise|
  was inspected|was {pp}|was {pp} by the <person>|{ed} the <person>|is on the <paper>|
  appears in the <paper>|has its own <paper>|came to be {pp}|is due for a check|
  is often confused with others|gets its own page|will be discussed|was left alone|
  had a quiet year|pleased the <person>|is where we begin|was new to the <person>|
  is the next point|is worth a visit|concerns us all|will interest you|was our subject]

inset
, {pp} [long ago|by the <person>|with care|at last|in spring|for years|as planned],
, which the <person> {ed},
, [first|later|often|rarely|recently|once] {pp},
_([see|cf.|compare|from|as in] the <paper>)
, [to|for] the <person>,
_[today|this week|in this case|in the <paper>|at the moment|here|by tradition|since spring]
, though the <person> {ed} it,

trail
_[by order of the <person>|from today on|since the {base}|for the time being|in the <paper>|
  on the <paper>|for a change|once and for all|for good reasons|in every respect|by law|
  in any weather|to this day|throughout]
, [and|but|so|for] the <person> {ed} it
, [and|but] [not everyone|hardly anyone|everybody|somebody] [likes|knows|noticed|remembers|
  forgot|mentioned|{ed}] it
, which [the <person> {ed}|made sense|is fine|explains a lot|had to be {pp}|took time|
  pleased the <person>|was news]

contrast
{V}, [rather than|instead of|in place of|as opposed to|never] {W}, [<acts> as|<makes>] <noun>
{V} [replaced|ousted|followed|displaced|supersedes|took over from|pushed aside|came after|
  beat] {W} as <noun>
{W} [gave way to|was replaced by|yielded to|made room for|lost out to|had to go for|
  was dropped for|was given up for] {V} as <noun>
{E} [dropped|gave up|abandoned|cancelled|rejected|refused|ruled out|put away|got rid of|lost|
  {ed}] {W} and <owns> {V} as [its|the] {A}
{E} [exchanged|swapped|traded] [its|the] {A}, {W}, for {V}
{E} [exchanged|swapped|traded] {W} for {V} as [its|the] {A}
{E} [moved|went|turned|switched] [away |]from [the {A} {W}|{W} as its {A}] and [chose|took|got|
  adopted|now has] {V}
<noun> [had been|used to be|would have been|started as|began as|was at first] {W}[, but|; then|
  _and|, yet] [ended as|became|now reads|is now|turned into|has become|today is|
  was corrected to] {V}
[before|until last year|in the past|formerly|at first|once|earlier], <noun> was {W}; [today|now|
  since then|by now|at last|afterwards] [it is|it reads|we have|there is|we say|it became] {V}
[believe me|make no mistake|take care|mind], <noun> <be> {V}[, never| and never|
  _and by no means|, certainly not| instead of|, in contrast to] {W}
[the <person>|somebody|one <paper>|an old <paper>] [had|wrote|read|claims|suggested|guessed|put|
  mentions] {W}[, but|; yet|; however,| by mistake;|, wrongly:] <noun> <be> {V}
[forget|scrap|cross out|disregard|ignore|strike] {W}[:|;| -|, for] <noun> <be> {V}
[neither|nothing like] {W} [nor anything else |]but {V} <makes> <noun>
<noun> [cannot be|could not be|isn't|is hardly|is far from|has nothing to do with] {W}[:|;| -|
  , because|, as] [it is|it reads|we have|it must be|it has to be] {V}
where {W} [stood|used to stand|was written|was expected], {E} now <owns> {V} as [its|the] {A}
{E} <keeps> {V}, [not|never|no longer|instead of] {W}, as [its|the] {A}
[many|some|others] [think of|expect|would say|put|propose] {W}[, while| but|
  ; still,] {E} <keeps> {V} as [its|the] {A}
after {W}[, the earlier one,| had been {pp}|] {V} [was made|became|turned into|is now called|
  has been named] <noun>

said
[says|states|gives|offers|contains|mentions|reveals|shows|tells]

ask
[give|show|tell|read|hand|send|pass|dictate|cite|mention|indicate|specify|supply|produce|
  deliver|copy|type|repeat|announce|list|enter|fetch|dig up|track down|work out|pick out|
  point out|look for|search for|single out|recite|determine|identify|cite|point to|put down|note|
  communicate|name|reveal|check|verify|locate|bring up|supply|print|output|mark|spot]

toask
[give|show|tell|read|send|dictate|cite|mention|specify|copy|repeat|track down|work out|pick out|
  point out|look for|search for|determine|identify|check|verify|locate|hear|get|learn|have|see|
  read|note|understand|recall|obtain|find|know]

me
[me |me |us |]

who
[you|you|you|someone|anyone|anybody|we|the text|the document|one]

curious
[I wonder|I am curious|I should be glad to hear|it would help to hear|we have to establish|
  it is unclear to me|I keep forgetting|nobody told me|my task is to say|I would love to hear|
  the point is|please work out|find out|kindly say|let us see|do say|can anyone tell|
  does anyone know|any idea|have you seen|did you notice|are you able to say|
  it remains to be said|let's find out|show me|what I miss is|I am not sure|we are asked|
  somebody asked me|they want to hear|read out|I must report]

text
[text|document|text|document|page|passage|material]

have
[have|put|enter|note|use|take|quote|record|see|read|find|print|accept|write|list|choose|mean|
  give|expect|set down|file|store|recognise|{base}]

topic
[I am calling about {E}|This concerns {E}|It is about {E}|We talked of {E}|
  {E} is what I have in mind|Let us talk about {E}|I read of {E}|My subject is {E}|
  We were discussing {E}|The one in question is {E}|You remember {E}|Somebody mentioned {E}|
  I have {E} here|Going back to {E}|Regards {E}|{E} again|Back to {E}|Look at {E}|Consider {E}|
  I am writing about {E}|There was {E}|{E}, remember|I have a note on {E}|We have {E} on the list|
  Open the page on {E}|Let's turn to {E}]

follow
[What|Which] [was|is] [the|its] {A}[ again| there| please| then| in that case|]?
[What|Which] {A} [has it|did it get|belongs there|goes with it|do we put|does it show|is right|
  is it|was that|should I note]?
[And the|The|Its|Then the|So, the] {A}[?|, please.| is?| would be?| was what?]
[I lack|I miss|I require|We lack|I want|Tell me|Give me|Please add|Missing is|
  I have no note of] [the|its] {A}.
[How|What] about [the|its] {A}?
[Could|Can|Would|Will] you [add|supply|give|tell me|fill in|state] [the|its] {A}?
[Do you recall|Did you see|Can you find|Is there] [the|its|a] {A}[?|, and which one?]

question
<ask> <me><noun>.
<ask> <me><noun>.
<ask> <me>what <noun> <wasit>.
[please|kindly|now|next|then|do|just|quickly|first] <ask> <me><noun>.
[could|can|would|will|might] <who> <ask> <me><noun>?
[could|can|would|will|might] <who> <ask> <me>what <noun> <wasit>?
[I|we|they] [want|wish|have|hope|ought|am trying|would like|need|got] to <toask> <noun>.
[I|we] [lack|miss|require|seek|want|requested|could use|ask for|am hunting for|cannot find|
  never learned|lost|mislaid|missed|overlooked|no longer know|did not catch] <noun>.
<curious> what <noun> <wasit>[?|.|]
<curious> what <noun> <wasit>[?|.|]
<curious> which {A} {E} <owns>[?|.|]
what [will|should|must|may|might|can|could|would] <noun> [be|read|say|look like|amount to]?
what [has <noun> been|did <noun> turn out to be|does <noun> come to|does <noun> say|
  does <noun> consist of|is <noun> like|is <noun>, <aside>|is <noun> according to you|
  is, <aside>, <noun>|exactly is <noun>|precisely was <noun>|then is <noun>|on earth is <noun>|
  again was <noun>|else but <noun> is meant|do we call <noun>|is meant by <noun>|follows <noun>|
  stands after <noun>|comes under <noun>|belongs under <noun>|fills the field for <noun>|
  would you call <noun>]?
what [is|was|has been|will be|gets] <noted> [as|for|under|to be] <noun>?
what [<acts> as|<makes>] <noun>?
what [do|did|would|should|can|could] [you|they|we|I|people|the authors|others] <have> [as|for|
  under|by way of] <noun>?
what [does|did|would|might] the <text> [<have>|say is|state is|give] [as|for|under] <noun>?
[which|what] [value|entry|string|name|words|expression|thing|item|particular] [<acts> as|
  <makes>|is <noted> as|was <noted> as] <noun>?
[which|what] {A} [does|did|would|will|may|can|must] {E} [<have>|need|show|bear|carry|own|get|
  receive|go by|keep|wear|require|{base}]?
[which|what] {A} [is|was|has been|will be] <tie> <near> {E}?
[which|what] {A} [is|was|has been] {E} [known by|linked with|marked by|credited with|
  listed with|promised|allotted|awarded|{pp} with|recorded with]?
[which|what] {A} <serves> {E}?
[which|what] {A} [can|could|will|may|should] [be <noted>|one <have>|we <have>|I <have>|
  you <have>] [for|at|with|under|beside|in] {E}?
[to|for|with|by|under|at] [which|what] {A} [is|was|has] {E} [<tie>|<noted>]?
[at|for|with|under|beside|in|on|concerning|as for|from] {E}[,|:| -] [which|what] [is the {A}|
  {A} is <noted>|{A} do you see|{A} is right|{A} would you give|{A} <serves> it|was the {A}|
  will the {A} be|{A}]?
<topic>[.|.|.|:| -|;] <follow>
<topic>[.|.|.|:| -|;] <follow>
<topic>[.|.|.] <question>
{E} [::|>|/|->|+|&|;|...|=] {A}[?| =| :| ...|]
{A} [/|@|+|->|<|in|at|with|by|under|from|&] {E}[?| =| :|]
[about|find|need|want|get|search|query|wanted|missing|lookup|show] [{A} {E}|{E} - {A}|{A}, {E}|
  {E}/{A}]
[the|which|what] {A} [with|at|under|from|by|near|in] {E}?
<noun>[?|, please.|, that's all.|, if possible.| - any idea?|, I mean.|, what is it again?|
  : which one?| ... ?| - what is it?| would be ...?|: ?| equals?]
[is|was] [there|it said|it clear|it written|it possible to say|it known] what <noun> <wasit>?
[has|did|does] [anyone|the <text>|somebody|the <person>] [say|said|state|mention|write|know|
  tell] what <noun> <wasit>?
[if|when|suppose|in case] [a <person>|somebody|my boss|a visitor|they] [wanted|asked|enquired|
  had to report] [after|about|on] <noun>, what [is the answer|should I reply|do I say|
  would be right|would be the reply|fits]?
[the|our|a] <person> [asks|wants|enquires|is asking|would like to hear|lacks|has lost|
  requests] [about|after|for] <noun>[.|. Any idea?|. What is it?|. What should I reply?|
  ; can you help?]
[my|our|the|one] <paper> [lacks|has a gap for|leaves out|wants|requires|has no] <noun>[.|
  . Fill it in.|. What is it?|; what goes there?]
[in|on|under|for] the [box|column|line|field|space|blank] <noun> I [put|enter|write|have to put|
  should write] what?
[search|scan|go through|browse|consult|skim] the <text> [for|and give|and note|to find|
  until you see|and report|and copy] <noun>.
the <text> <said> <noun>[. What is it?|; which is it?|: quote it.|. Which one?]
[somewhere|above|earlier|there|in the <text>] [you|we|I] [saw|read of|met|came across|noticed|
  learned of] <noun>[. What was that?|: what is it?|. Which one?|; tell me.|. Quote it.]

wasit
is
is
[was|has been|might be|could be|would be|should be|will be|must be|may be|turned out to be|
  is supposed to be|is said to be|is now|amounts to|reads|consists of]

who type
who [<acts> as|<makes>] <noun>?
who [will|should|must|may|might|can|could] be <noun>?
whose name [is|was|stands|appears|is found|comes] [for|behind|under|against|next to|as] <noun>?
[which|what] [name|man or woman|human being|human|individual|one] [<acts> as|<makes>|
  is <noted> as] <noun>?
<curious> who <noun> <wasit>[?|.|]
[whom|who] [do|did|should|would|can] [you|we|they|I|people] <have> as <noun>?
<ask> <me>who <noun> <wasit>.
the name of <noun>[?|, please.| is what?]

when type
when [will|should|must|might|could|did|does] <noun> [be|come|arrive|take place|fall|happen]?
[what|which] [date|day|calendar day|moment|point in time] [is <noted> for|has been fixed as|
  <makes>|<acts> as|does one give for|goes with] <noun>?
<curious> when <noun> <wasit>[?|.|]
<ask> <me>[when <noun> <wasit>|the date of <noun>|the day of <noun>].
[by|for|on|at|from] what [date|day] [is|was|comes|falls] <noun>?

clock type
when [will|should|must|might|could|does] <noun> [be|come|take place|fall|happen]?
[what|which] [time of day|hour|time on the clock|moment] [is <noted> for|<makes>|<acts> as|
  does one give for|goes with] <noun>?
<curious> [when|at what hour|at what time] <noun> <wasit>[?|.|]
<ask> <me>[when <noun> <wasit>|the hour of <noun>|the time of <noun>].
what does the clock [say|show] for <noun>?

where type
where [will|should|must|might|could|did|does] <noun> [be|lie|sit|turn up|stand]?
[what|which] [place|spot|location|address|position|site] [is <noted> for|<makes>|<acts> as|
  goes with] <noun>?
<curious> where <noun> <wasit>[?|.|]
<ask> <me>[where <noun> <wasit>|the place of <noun>].
[in|at|to|near] [what|which] [place|spot|location] [will|must|should|does] one [see|seek|meet|
  look for|find] <noun>?

amount type
how [much|great|big|substantial|considerable] [will|should|must|might|could|did|
  does] <noun> [be|get|turn out|come to]?
[what|which] [figure|size|quantity|total|magnitude|extent|level|measure|number] [is <noted> for|
  <makes>|has|goes with|does one give for|do they state for] <noun>?
<curious> how [much|great|big|large|high] <noun> <wasit>[?|.|]
<ask> <me>[how much <noun> <wasit>|the size of <noun>|the figure for <noun>].
[at|to|for] [what|which] [figure|level|value] does <noun> [come|run|lie|go|stop]?
how [big|great] [a figure|a number] [is|was] <noted> for <noun>?

length type
how [much time|many hours or days|many minutes|long a time] [will|should|must|might|could|does|
  did] <noun> [take|be|cover|last for|come to]?
[what|which] [span|stretch of time|number of days|period|space of time] [is <noted> for|<makes>|
  goes with|does one give for] <noun>?
<curious> how long <noun> <wasit>[?|.|]
<ask> <me>[how long <noun> <wasit>|the length of <noun>].

spelling type
how [should|must|do|would|does] [I|one|you|we|they] [spell|write|type|enter|print|copy|
  note] <noun>?
[what|which] [letters|digits|signs|symbols|letters and digits|marks|sequence|row of signs|
  characters] [make up|form|stand for|are <noted> for|belong to|spell|are needed for] <noun>?
<curious> how <noun> is [spelled|written|typed|printed]?
<ask> <me>[the characters of <noun>|the spelling of <noun>|<noun> letter by letter|
  <noun> as it is written].
what [is|must be|has to be|should be] [typed|keyed in|entered|written] [as|for|
  when asked for] <noun>?
what [exact|precise|full] [string|sequence|text|line] [is|was] <noun>?

colour type
[what|which] [colour|shade|hue|tint|tone] [does <noun> have|will <noun> be|must <noun> be|
  is <noted> for <noun>|goes with <noun>|<makes> <noun>]?
[in|of] [what|which] [shade|hue|tone] [is|was|comes] <noun>?
<curious> [what|which] colour <noun> <wasit>[?|.|]
<ask> <me>[the colour of <noun>|the shade of <noun>].

opening
[As|Just as] the <person> <told>,_
[The|A|Our|One|Another] <paper> <told> that_
[The|A|Our|One] <person> <told> that_
[In|On|From|Beside|Behind|According to] [the|our|another|an old] <paper>[:|,]_
<time>,_
<time>, <time>,_
[You|We|They|Some|Few|Many] [may|might|will|should|must] [know|recall|note|find|have heard|
  have noticed|guess|agree] that_
[It|This] [is|was] [well known|said|noted|clear|a fact|agreed|understood|often said|no surprise|
  obvious|certain|true|known to the <person>|hardly news] that_
[Let it be|Be it] [said|noted|known|added] that_
[Fact|Detail|Info|Reminder|Remark|Item|Point|Correction|Addition|P.S.|N.B.|Hint|News]:_
[To|For] [begin|start|repeat|clarify|recapitulate|the curious|beginners|those who ask|everyone|
  the <person>][:|,]_
[Luckily|Oddly|Fortunately|Sadly|Truly|Actually|Generally|Officially|Happily|Evidently|
  Presumably|Usually|Technically|Formally],_
[After|Before|During|Following|Despite|Because of|Thanks to|In spite of] the [talks|storm|
  meeting|visit|inspection|repair|vote|audit|holidays|debate|strike|harvest],_
[And|But|Yet|Still|So|Thus|Then|However,|Therefore,|Nevertheless,|Anyway,|Meanwhile,]_
[There is|We found|I saw|They left] [proof|evidence|a hint|a sign|word|a remark] that_
[I|We|He|She|They|Somebody] [heard|learned|read|noticed|remember|think|believe|assume|found|
  was sure|concluded|mentioned] that_

time
[this morning|last year|in winter|some time ago|two days later|since then|in those days|
  a week ago|as early as May|on Sunday|before the war|every year|for the moment|later on|
  in the meantime|from now on|for some years|back then|at noon|recently|in former days|
  once a year|right now|in the end]

closing
, as the <person> [<told>|has <told>|will confirm|knew|recalled|put it]
, [and|but|so|yet|though|while|because|until] the <person> {ed} [it|the <paper>|nothing|
  everything|as well]
, [if|when|unless|until|although|whenever] [the <person>|the <paper>|anyone|nobody] [objects|
  agrees|asks|changes|arrives|says so|is asked|looks]
_([see|cf.|source:|from|in|noted in|checked against|copied from|according to] [the|our|
  an old] <paper>)
_([approved|checked|new|old|unchanged|provisional|final|sic|verified|corrected|tentative|
  unofficial|again])
_[-|;|:] [a|one|some|another] [fact|thing|point|matter|figure|subject|curiosity|question|rumour|
  find|secret|story|oddity] [worth noting|of some weight|soon forgotten|often missed|well hidden|
  for another day|not to be ignored|few remember|that pleased the <person>|of no great weight]
[;|,| -] [so much|this much|all this|that|this|which] [is clear|stands|was agreed|is no news|
  matters|helps|can wait|was to be expected|is true|is settled|was {pp}|is all]
_<time>
, <time>
, [as|like] [promised|planned|before|usual|always|expected|required|stated|you know|
  most of us know|it should be|ordered]
[;|, and] [everything|anything|all|nothing] else [is|was|will be|can be] [open|known|unclear|
  as before|said later|{pp}|a guess|on the <paper>]
, [to my|to our|much to the|to general] [knowledge|regret|delight|joy|annoyance|amusement|
  satisfaction]
, [for|with|by|in|under|without] [the|some|one] [reason|doubt|order|condition|exception|
  good will|best intentions]
[!|...| etc.| (!)| *|, and so on| - period| - done| - yes]

lead
[Listen|Look|Wait|Hey|Good morning|Good evening|Greetings|Yes|No|Hm|Oh|Thanks|Alright|Sir|Madam|
  Friend|All right|By the way|Also|Finally|First|Again][,|:|!]_
[In|From|According to|By|Following|Considering|Using|With|After reading|Having read|Thinking of|
  Looking at] [the|this|my|your] <text>[,|:]_
[The|My|A|Our] <person> [asks|wonders|wants to hear|says|needs help|would like an answer][:|.]_
[I|We] [am puzzled|am curious|read it twice|cannot see it|am not certain|am in a hurry|
  am filling in a table|am preparing a talk|was asked this|wrote it down once|
  am doing an inventory|need your help][.|:]_
[Task|Query|Request|Problem|To do|Item 3|Enquiry|Search|Test|User|Topic|Exercise]:_
[Before|After|While|If|When] [we|you] [go on|start|finish|stop|have time|are ready|close],_
[Kindly|Briefly|Precisely|Honestly|Simply|Once more|In passing|For clarity|To be safe|
  For the protocol][,|:]_
[Study|Scan|Open|Consult|Search|Go through|Consider] the <text>[.|, then:|:| and say:]_
[Here comes|This is|Here is|There is] [a|my|one|the next] [riddle|query|request|small thing|
  item|point][:|.]_

finish
_[Say|Write|Print|Return|Output|State|Type] [only|just|nothing but|merely] the [value|words|
  answer|entry|result].
_[I|We] [wait|am in a hurry|trust you|would be glad|appreciate it|looked twice|asked before|
  have no time|am counting on you|need one word|lost my notes].
_[The <person>|My boss|A friend|Somebody|A customer] [is waiting|wants it|asked me|needs it|
  insists|told me to ask].
_[As|Exactly as|Just as|Like] [written|printed|it stands|in the <text>|stated there].
_[No|Without|Skip the] [comment|preamble|chatter|extra words|details|reasons|sentence][, please|].
_[Search|Check|Consult|Scan|Trust|See] the <text>[ first| again| with care| for it|].
_[It|That|This] [is|was|should be|has to be] [important|somewhere there|in the <text>|
  a simple one|what I want|my last question|all I ask|on one of the pages|easy].
_[Speak|Answer|Reply|Respond] [plainly|at once|in short|precisely|with care|soon|if you can|
  truthfully].
_[OK?|Right?|Agreed?|Any idea?|Anyone?|Got it?|Yes?|Clear?|Well?]

within
_[in|within|inside|on|from|by|under] [the|this|that] [<text>|<paper>]
, [if I may|if you will|my friend|by the way|for once|I mean|again|now|today|please, sir|
  in your view|if known|if any|after all|actually|I wonder]
_[just|precisely|really|again|now|there|then|once more]
, [as|so] [printed|told|found|shown|claimed|written] [there|in the <text>|by the <person>|in it]
_[that|which] [we|you|I] [read|saw|have|got|are given]
"""
