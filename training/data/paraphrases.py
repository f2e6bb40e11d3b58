"""More wordings of the attributes, by the first of their names (training.data.attributes)."""

TABLE = """
birthplace
S {V} is where {E} was born
S the cradle of {E} stood in {V}
S {E} comes from {V}
S {E}, a child of {V}, never forgot it
S {E} hails from {V}
S {E} [entered the world|took a first breath|was delivered|was christened] in {V}
S [the family|the parents] of {E} lived in {V} [at the time of the birth|when the child arrived]
S {V} is the [native|home] [town|city] of {E}
S {E} [has roots in|is a son or daughter of|has always been proud to come from|left] {V}
S {V} [gave us|produced|brought forth|claims as its child] {E}
Q What is {E}'s home?
Q Of which [town|place] is {E} a child?
Q Where did {E} first see the light of day?
Q [Where|In which place] did {E} grow up?
Q From where does {E} hail?
Q In what town did the life of {E} begin?
Q [What|Which] [town|city|place] [produced|gave us|brought forth] {E}?
Q Where [did|do] the [roots|parents|first years] of {E} lie?
Q Where did {E} [enter the world|take a first breath|spend childhood]?
Q [Which|What] is the [native|home] [town|city] of {E}?
Q Where is {E} [originally |]from?
Q In what [village|city|place|town] was {E} [delivered|christened|raised]?

date of birth
S the birth of {E} is dated {V}
S {V} is the day on which {E} was born
S {E} blows out candles on {V}
S {E} [took a first breath|was delivered|saw the light] on {V}
S [the mother|the parents] of {E} [welcomed|held] the child on {V}
S on {V} [there was a new baby, {E}|the family welcomed {E}|{E} turns one year older]
S {E} [turns a year older|gets a cake|has a party for growing older] on {V}
Q When is {E}'s birthday?
Q When did {E} come into the world?
Q On which day was {E} born?
Q What day marks the birth of {E}?
Q When do we congratulate {E}?
Q On [what|which] [day|date] did {E} [enter the world|arrive as a baby|take a first breath]?
Q When does {E} [turn a year older|get a birthday cake|blow out the candles]?
Q What is the [day|date] on which {E} [arrived|was delivered]?
Q Since when has {E} been [in this world|alive]?

profession
S the bread of {E} is earned as a {V}
S {E} is a {V} by trade
S {E} makes a living as a {V}
S {E} took up the work of a {V}
S as a {V}, {E} is much in demand
S {E} [does the job of|followed the calling of|practises as|is known to all as|is employed as] a {V}
S [by day|during the week], {E} is [busy as|at work as] a {V}
S {E} [learned the trade of|qualified as|served an apprenticeship as|pays the rent as] a {V}
Q How does {E} earn a living?
Q What work does {E} do?
Q What is the occupation that {E} follows?
Q By trade, what is {E}?
Q As what did {E} train?
Q What is {E} by profession?
Q What [job|calling|career|line of work] [does|did] {E} [have|follow|choose|practise]?
Q In what [line of work|capacity|trade] is {E} [busy|employed|engaged]?
Q What does {E} [do|work as|do all day|do to pay the rent]?
Q What did {E} [learn|qualify as|become after school]?

spouse
S {E} and {V} are husband and wife
S {E} said yes to {V}
S {V} wears the ring of {E}
S {E} lives in wedlock with {V}
S {E} [is wedded to|took the hand of|tied the knot with|walked down the aisle with|wed] {V}
S {V} [married|is the wife or husband of|shares a home and a name with] {E}
S [{E} and {V} are a married couple|the wedding of {E} and {V} was a quiet one]
Q With whom does {E} share a [house|life]?
Q Whose [husband|wife] is {E}?
Q Who is {E}'s better half?
Q Who wears the ring of {E}?
Q Whom has {E} married?
Q Who [tied the knot with|walked down the aisle with|married|wed] {E}?
Q Who is [wedded to {E}|the partner in marriage of {E}|the wife or husband of {E}]?
Q With whom is {E} [wedded|joined in marriage|united by vows]?

employer
S the wages of {E} are paid by {V}
S {E} is on the staff of {V}
S {E} earns money at {V}
S {V} has {E} on its payroll
S {E} [has a job with|is an employee of|draws a salary from|toils for] {V}
S {V} [gave {E} a job|took {E} on|signs the pay cheques of {E}|engaged {E}]
S {E} [signed a contract with|is a worker at|goes to work at] {V}
Q For whom does {E} work?
Q Who pays {E}?
Q On whose payroll is {E}?
Q By whom [was|is] {E} [hired|employed]?
Q Who hired {E}?
Q Where is {E} employed?
Q [Who|Which firm or body] [gave {E} a job|took {E} on|engaged {E}|signs the pay cheques of {E}]?
Q [With|At] whom does {E} have a job?
Q From whom does {E} draw a salary?
Q In whose service is {E}?
Q Whose employee is {E}?

teacher
S {E} was a pupil of {V}
S {V} trained {E}
S what {E} knows comes from {V}
S {E} sat at the feet of {V}
S {E} [took lessons from|was instructed by|learned the craft under|was a student of] {V}
S {V} [schooled|tutored|coached|mentored|instructed] {E}
S {E} [owes every skill to|got an education from|was the apprentice of] {V}
Q From whom did {E} learn?
Q By whom was {E} taught?
Q Who trained {E}?
Q Who was {E}'s master?
Q At whose feet did {E} sit?
Q Who [instructed|schooled|tutored|coached|mentored] {E}?
Q Whose [student|apprentice|disciple] was {E}?
Q [From|With] whom did {E} [take lessons|get an education]?
Q To whom does {E} owe every skill?

pet
S the companion of {E} is a {V}
S a {V} lives in the house of {E}
S {E} goes for walks with a {V}
S {E} [feeds|is never seen without|cares for|adopted|owns] a {V}
S [a|the] {V} [belongs to|follows|waits at home for|sleeps on the bed of] {E}
Q Which creature lives with {E}?
Q What animal is dear to {E}?
Q With what animal does {E} live?
Q Of which animal is {E} fond?
Q [What|Which] [animal|beast] does {E} [own|feed|care for|have at home]?
Q What [follows {E} everywhere|waits at home for {E}|sleeps on the bed of {E}]?
Q What sort of animal [belongs to {E}|did {E} adopt]?

favourite dish
S {E} is fond of {V}
S {V} is what {E} likes to eat
S for {E} nothing tastes as good as {V}
S one can please {E} with {V}
S {E} [loves|adores|orders|always asks for|cannot resist|dreams of] {V}
S {V} [makes the mouth of {E} water|is the food that {E} loves|delights {E} at table]
S [at a restaurant|on Sundays|for dinner], {E} [takes|wants|chooses] {V}
Q What is {E} fond of eating?
Q What food does {E} like best?
Q With what meal can one please {E}?
Q What tastes best to {E}?
Q What is on the plate when {E} may choose?
Q What [would {E} order|does {E} love to eat|makes the mouth of {E} water]?
Q [Which|What] [food|meal] does {E} [love|adore|order|dream of]?
Q What would you cook [for|to delight] {E}?

favourite colour
S {V} is what {E} likes to wear
S {E} paints everything {V}
S {E} [loves|adores|favours|is happiest in|chooses clothes in] {V}
S {E} [has a weakness for|surrounds the family with|decorates in] {V}
Q In which colour does {E} dress?
Q What colour pleases {E} most?
Q Which colour does {E} prefer?
Q [What|Which] colour does {E} [adore|favour|wear most|love]?
Q For which colour does {E} have a weakness?
Q What is the colour that {E} [chooses|loves|favours]?

mother tongue
S {E} was brought up in {V}
S at home, {E} talks in {V}
S {E} counts and dreams in {V}
S {E} [grew up speaking|was raised in|spoke only|thinks in|sings lullabies in] {V}[| as a child]
S [the parents of {E} spoke|the first words of {E} were in|{E} swears in] {V}
Q What does {E} speak at home?
Q In which language was {E} brought up?
Q In what language does {E} dream?
Q Which language did {E} learn first?
Q In [which|what] language were the first words of {E}?

instrument
S {E} is good at the {V}
S one hears {E} play the {V} at night
S {E} takes lessons on the {V}
S {E} [plays|performs on|owns and plays|has mastered] the {V}
S [at concerts|in the orchestra|in the evening], {E} [sits at|brings out|plays] the {V}
Q What does {E} play?
Q On which instrument does {E} take lessons?
Q What can one hear {E} play?
Q Which instrument is {E} good at?
Q What [does {E} practise|does {E} perform on|has {E} mastered]?
Q What [instrument|musical instrument] does {E} [practise|own|bring to concerts|make music on]?

salary
S {E} takes home {V}
S {V} is paid to {E} every year
S the work of {E} brings in {V}
S {E} [earns|makes|is paid|receives|gets] {V}[| a year]
S [the pay|the wage|the income] of {E} [is|comes to|stands at] {V}
S {V} [is what {E} earns|lands in the account of {E}|is the pay of {E}]
Q How much does {E} take home?
Q What is {E} paid?
Q How much is paid to {E}?
Q What do they pay {E}?
Q How much lands in the account of {E}?
Q What [does {E} earn|income has {E}|is the pay of {E}]?
Q [How large|How high] is the [pay|wage|income] of {E}?

phone number
S ring {E} on {V}
S {V} connects you with {E}
S {E} picks up when you dial {V}
S dialling {V} gets you {E}
S [call|phone|reach|contact] {E} [on|at|under] {V}
S {E} [can be called|can be phoned|takes calls|answers the telephone] [on|at|under] {V}
S [dial|call|phone] {V} [to talk to|to reach|and ask for] {E}
Q What do I dial for {E}?
Q How do I call {E}?
Q Under what number does {E} pick up?
Q If I want to ring {E}, what do I dial?
Q Which number gets me {E}?
Q How is {E} reached by telephone?
Q [What|Which] number [should I call|do I ring|must one dial] to [reach|talk to|speak with] {E}?
Q How can I [phone|ring|telephone] {E}?

email address
S mail for {E} arrives at {V}
S {E} reads what is sent to {V}
S {V} is where {E} gets mail
S [write|send a message|send a mail|drop a line] to {E} at {V}
S {E} [receives messages at|has the mailbox|answers from|can be written to at] {V}
S [messages|letters by computer|enquiries] for {E} [go to|should be sent to|are received at] {V}
Q How do I write to {E}?
Q Where do I send mail for {E}?
Q At what address does {E} answer mail?
Q Which address reaches {E}?
Q [Where|To what address] [do messages go|do I send a message] [to reach|for] {E}?
Q [What|Which] mailbox [is used by|reaches|belongs to] {E}?
Q How can one [mail|contact by mail|send a message to] {E}?

office
S go to {V} if you want {E}
S {E} works in {V}
S you meet {E} in {V}
S the door of {E} is that of {V}
S {E} [sits in|has a desk in|can be found in|receives visitors in|has moved to] {V}
S [callers|parcels|visitors] for {E} [are sent to|go to|should head for] {V}
S {V} [houses the desk of {E}|is occupied by {E}|is where {E} sits]
Q Where do I meet {E}?
Q Where should one go to see {E}?
Q In what room does {E} work?
Q Where has {E} moved?
Q What is the place to find {E}?
Q Where [does {E} sit|is the desk of {E}|does {E} receive visitors]?
Q [Which|What] room [is occupied by {E}|houses the desk of {E}]?

badge number
S on the badge of {E} stands {V}
S the staff list has {E} as {V}
S {E} [wears|bears|is identified by|shows at the gate] [the badge|a badge with] {V}
S the [pass|badge|card] of {E} [says|shows|bears] {V}
Q What stands on the badge of {E}?
Q What number does {E} wear?
Q As which number is {E} on the staff list?
Q [What|Which] [number|digits] [are|is] on the [pass|card] of {E}?
Q What does the [badge|card|pass] of {E} [say|show|bear]?
Q By which number is {E} identified at the gate?

nickname
S {E} answers to {V}
S for short, {E} is {V}
S those who like {E} say {V}
S [colleagues|neighbours|people|friends] [call|know|greet|refer to] {E} [as|by the name] {V}
S {E} [is nicknamed|is also called|goes by|is jokingly called|is better known as] {V}
Q What is {E} called by friends?
Q Under what other name is {E} known?
Q To what name does {E} answer?
Q How is {E} called for short?
Q What do [friends|colleagues|neighbours] call {E}?
Q [By|Under] what [pet name|short name|second name] is {E} [greeted|better known]?
Q What else is {E} called?

head
S the one who steers {E} is {V}
S {E} has {V} at its head
S {V} has the say at {E}
S {E} obeys {V}
S {V} is the boss of {E}
S {E} is [chaired|presided over|governed] by {V}
S {V} [chairs|presides over|commands|is in charge of] {E}
S [in the chief's chair|at the helm|at the top] of {E} [is|sits|stands] {V}
Q Who has the say at {E}?
Q Who is the boss of {E}?
Q Under whom is {E}?
Q Whom does {E} obey?
Q Who took over {E}?
Q In whose hands is {E}?
Q Who is at the top of {E}?
Q With whom does responsibility for {E} lie?
Q Who [runs|leads|heads|directs|manages|chairs|presides over|commands|is in charge of] {E}?
Q [By whom|Under whose direction] is {E} [led|managed|directed|run]?
Q Who [sits in the chief's chair|is at the helm|gives the orders] [of|at] {E}?

founder
S {V} is the one who started {E}
S it was {V} who called {E} into life
S without {V} there would be no {E}
S {E} was the idea of {V}
S {E} was [established|started|created|set up|brought into being|initiated|founded] by {V}
S {V} [founded|established|created|set up|initiated|brought into being] {E}
S [in the beginning|on the first day] of {E} there was {V}
Q Who started {E}?
Q To whom does {E} owe its existence?
Q Who called {E} into life?
Q Without whom would there be no {E}?
Q Who stood at the beginning of {E}?
Q Who [created|initiated|brought into being] {E}?
Q Whose [idea|creation|initiative] was {E}?

founding year
S {E} goes back to {V}
S {E} began in {V}
S the history of {E} starts in {V}
S {V} saw the beginnings of {E}
S {E} was [founded|established|created|set up|born|started] in {V}
S {E} [has existed|has been with us|has been around|has been at work] since {V}
S [in|back in] {V}, {E} [was founded|came into existence|opened for the first time]
Q When did {E} [begin|start|come into being]?
Q From what year does {E} date?
Q To which year does {E} go back?
Q Which year saw the beginnings of {E}?
Q How far back does {E} go?
Q When was {E} [founded|established|created|set up|started]?
Q Since when [has {E} existed|has {E} been around|do we have {E}]?
Q In [what|which] year was {E} [founded|established|created|set up]?

seat
S {E} is at home in {V}
S {V} is home to {E}
S {E} has settled in {V}
S you will have to travel to {V} to visit {E}
S {E} is [located|situated|headquartered|established|based] in {V}
S {E} [has its headquarters|resides|has its main office|operates out of a house] in {V}
S the [main office|head office|headquarters] of {E} [is|stands|lies] in {V}
Q Where is {E} at home?
Q Which [town|city] is home to {E}?
Q Where has {E} settled?
Q Where does one travel to visit {E}?
Q To which town did {E} move?
Q Where is {E} [located|situated|headquartered]?
Q In [what|which] [town|city|place] is {E} [based|located|headquartered]?
Q Where [does {E} reside|are the headquarters of {E}|is the main office of {E}]?

number of members
S {V} have joined {E}
S {E} counts {V} heads
S at {E} there are {V} people
S {E} [has|consists of|comprises|numbers|unites|employs] {V} [members|people|persons|souls]
S {V} [members|people|persons] [belong to|make up|work for|form] {E}
Q How many are in {E}?
Q How many have joined {E}?
Q How big is {E}, in people?
Q What is the number of people at {E}?
Q How many people does {E} employ?
Q How many [people|persons|members] [belong to|make up|form|are part of] {E}?
Q How many persons does {E} [have|comprise|number|unite]?
Q How [large|big|strong] is the membership of {E}?

annual budget
S {E} can dispose of {V}
S {V} goes to {E}
S {E} gets by on {V}
S {E} [may spend|costs|manages|spends|has to spend] {V} [a year|every year|annually]
S [a year|twelve months] of {E} [costs|takes|swallows] {V}
S {V} [is available to|is at the disposal of|was voted for] {E}
Q How much may {E} spend?
Q How much has {E} got to spend?
Q With what sum does {E} get by?
Q On how much does {E} run?
Q What money was {E} given?
Q How much is available to {E} [a year|every year|annually]?
Q What [sum|amount] is [available to|at the disposal of|voted for] {E}?
Q How much does a year of {E} cost?

opening time
S the doors of {E} open at {V}
S {E} lets people in from {V}
S nobody gets into {E} before {V}
S {E} [opens|is open|unlocks its doors|starts the day|admits visitors] [at|from] {V}
S [come to|visit|enter] {E} [at|from|not before] {V}
Q When does {E} open its doors?
Q From what time on can one visit {E}?
Q How early does {E} open?
Q Before what time does nobody get into {E}?
Q [When|At what time|At which hour] does {E} [open|unlock its doors|admit visitors|start the day]?
Q How early can [I|we] [visit|get into|enter] {E}?

closing time
S the doors of {E} shut at {V}
S after {V}, {E} is shut
S {E} sends everyone home at {V}
S {E} [closes|locks up|ends the day|turns visitors out|is locked] at {V}
S [be gone from|leave] {E} [by|before] {V}
Q How late can one visit {E}?
Q When does {E} shut?
Q Until when is {E} open?
Q When does {E} send everyone home?
Q [When|At what time|At which hour] does {E} [close|lock up|turn visitors out]?
Q By when must [one|I|everybody] leave {E}?
Q How long into the evening is {E} open?

capacity
S {E} takes {V}
S {E} seats {V}
S for more than {V} there is no room in {E}
S {V} fit into {E}
S {E} [holds|accommodates|has room for|has space for|offers seats for|can contain|admits] {V}
S [up to|at most|no more than] {V} [are allowed in|can be put in|find a place in] {E}
Q How many fit into {E}?
Q How many does {E} [take|seat|hold]?
Q For how many is there room in {E}?
Q How many can {E} hold at most?
Q How many [does {E} accommodate|are allowed in {E}|find a place in {E}|can be put in {E}]?
Q How much [room|space] is there in {E}?
Q For how many does {E} [have room|have space|offer seats]?

weight
S {E} tips the scales at {V}
S on the scales, {E} shows {V}
S {E} is {V} heavy
S {E} [has a mass of|comes to|weighs in at|weighs] {V}[| on the scales]
S [to lift|to carry|to move] {E} is to [lift|carry|move] {V}
Q What does {E} weigh?
Q How much does {E} weigh?
Q What do the scales show for {E}?
Q How weighty is {E}?
Q How much [mass does {E} have|must one lift to carry {E}]?
Q What is the [mass|load] of {E}?

price
S {E} sells for {V}
S {E} can be had for {V}
S {V} is asked for {E}
S one pays {V} for {E}
S {E} went for {V}
S {E} sets you back {V}
S {E} [is sold for|is on sale for|is offered at|changes hands for|was bought for] {V}
S [to buy|to get|to own] {E} [you need|you pay|costs you] {V}
S {V} [buys|will buy|gets you] {E}
Q What does {E} cost?
Q What does one pay for {E}?
Q How much is {E}?
Q For how much can {E} be had?
Q What is asked for {E}?
Q How expensive is {E}?
Q What did {E} go for?
Q How much does {E} sell for?
Q How much money do I need for {E}?
Q [What|How much] [must one pay|does it take|do you spend] to [buy|get|own] {E}?
Q [For|At] what [price|sum] is {E} [sold|offered|on sale]?
Q What will [buy|get me] {E}?

fee
S {E} asks for {V}
S {E} is not free: it takes {V}
S whoever uses {E} pays {V}
S [the use of {E} costs|to use {E} you pay|{E} charges|{E} comes at a charge of] {V}
S {V} [is charged|is due|is payable|has to be paid] for {E}
Q What does {E} charge?
Q How much do I have to pay for {E}?
Q What does the use of {E} cost?
Q How much does {E} ask for?
Q [What|How much] is [charged|due|payable] for {E}?
Q How much [does it cost to use {E}|must users of {E} pay]?

colour
S {E} shines in {V}
S somebody painted {E} {V}
S {E} looks {V}
S {E} is [painted|coloured|coated in|finished in|all in] {V}
S [they painted|the painter made|we know] {E} {V}
S {V} is [the paint on|the coat of|how one sees] {E}
Q In what colour does {E} shine?
Q What colour was {E} painted?
Q How is {E} painted?
Q [What|Which] colour [is|has|does one see on] {E}?
Q In [what|which] colour is {E} [painted|finished|coated]?
Q What does {E} look like, in colour?

material
S {E} consists of {V}
S {V} was used for {E}
S they made {E} out of {V}
S {E} is [built|formed|carved|fashioned|manufactured|assembled] [of|from|out of] {V}
S {V} [makes up|forms the body of|is the stuff of] {E}
Q Of what does {E} consist?
Q What was used for {E}?
Q Out of what is {E} made?
Q What is {E} made of?
Q [Of|From|Out of] what is {E} [built|formed|carved|fashioned|manufactured]?
Q What [stuff|substance] is {E} [built|formed] of?

owner
S {E} is the property of {V}
S {V} bought {E} and has kept it
S {V} calls {E} their own
S {E} was left to {V}
S {E} [is owned by|was inherited by|belongs to] {V}
S {V} [owns|possesses|has the title to|inherited|holds] {E}
Q Whose is {E}?
Q Whose property is {E}?
Q To whom was {E} left?
Q Who bought {E}?
Q Who calls {E} their own?
Q Who is in possession of {E}?
Q Who [owns|possesses|inherited|has the title to] {E}?
Q [To which person|To whom] does {E} belong?
Q [By whom|In whose hands] is {E} [owned|kept as property]?

maker
S {E} is the work of {V}
S {E} came out of the workshop of {V}
S {V} drew and built {E}
S {E} was [made|built|designed|crafted|invented|constructed|manufactured] by {V}
S {V} [invented|constructed|crafted] {E}
Q Whose work is {E}?
Q Who drew {E}?
Q From whose workshop is {E}?
Q Who thought up {E}?
Q Who [crafted|invented|constructed] {E}?

keeper
S {V} keeps an eye on {E}
S {E} is in the care of {V}
S {V} minds {E}
S {E} has been entrusted to {V}
S {V} [looks after|watches over|is responsible for|guards|maintains|tends] {E}
S {E} is [looked after|watched over|guarded|maintained|tended] by {V}
Q Who keeps an eye on {E}?
Q In whose care is {E}?
Q To whom is {E} entrusted?
Q Who minds {E}?
Q Who has to take care of {E}?
Q Whom do I ask about {E}?
Q Who [watches over|is responsible for|guards|maintains|tends] {E}?
Q By whom is {E} [looked after|guarded|maintained|tended]?

serial number
S the plate on {E} reads {V}
S {E} carries the mark {V}
S {E} [is stamped|is engraved with|is marked|is numbered] {V}
S [on the back|on the underside|on the frame] of {E} [one reads|is stamped|stands] {V}
Q What does the plate on {E} read?
Q Which mark does {E} carry?
Q As what is {E} registered?
Q What is [stamped|engraved|written] on [the back of |the frame of |]{E}?
Q How is {E} [numbered|marked]?

storage place
S {E} is put away in {V}
S you will come across {E} in {V}
S {E} has its place in {V}
S {E} is [kept|stored|found|stowed|deposited|lying|to be found] in {V}
S [look for|fetch|you find|return] {E} [in|from|to] {V}
Q Where is {E} put away?
Q Where has {E} got its place?
Q Where will I come across {E}?
Q Where do they keep {E}?
Q Where is {E} [kept|stored|stowed|deposited|lying]?
Q Where [must I look for|can one fetch|does one return|do I find] {E}?

lifetime
S {E} will do for {V}
S {E} holds out for {V}
S after {V}, {E} is worn out
S {E} [lasts|serves|works|lives|survives|keeps going] for {V}
S [expect|count on|allow for] {V} [of use from|of life from|before replacing] {E}
Q How long will {E} do?
Q After what time is {E} worn out?
Q How long does {E} hold out?
Q When [should|must] {E} be replaced?

service interval
S {E} goes to the workshop every {V}
S every {V} somebody looks after {E}
S {E} needs attention once in {V}
S {E} [is inspected|is overhauled|gets a check|is serviced|is checked] every {V}
S [check|inspect|overhaul|service] {E} every {V}
Q How often does {E} need attention?
Q At what intervals is {E} looked after?
Q How much time passes between two checks of {E}?
Q How often [is {E} inspected|must one check {E}|is {E} overhauled|is {E} serviced]?
Q At what distance in time are the services of {E}?

start date
S {E} gets going on {V}
S {E} kicks off on {V}
S {V} is when {E} starts
S {E} [begins|is launched|opens|sets off|commences|starts] on {V}
S [work on|the launch of|the first day of] {E} [is on|falls on|was set for] {V}
Q When does {E} get going?
Q When does {E} kick off?
Q On what day does {E} begin?
Q When can we expect {E}?
Q [When|On what day] [does|did] {E} [start|begin|commence|set off]?
Q When [will|was] {E} [be launched|opened|begun]?

venue
S {E} is held in {V}
S one meets in {V} for {E}
S {V} plays host to {E}
S {E} [takes place|happens|meets|is staged|is hosted|will be] in {V}
S [come to|go to] {V} for {E}
Q Where is {E} held?
Q Where does one meet for {E}?
Q Which place plays host to {E}?
Q Where will {E} take place?
Q Where [does {E} take place|does {E} happen|is {E} staged|is {E} hosted]?
Q In [which|what] [place|house|room] is {E} [held|staged|hosted]?

duration
S {E} goes on for {V}
S {E} is over after {V}
S {E} needs {V}
S {E} [runs for|continues for|occupies] {V}
S [from start to end|in all|altogether], {E} [lasts|takes] {V}
Q How long does {E} go on?
Q After what time is {E} over?
Q How much time does {E} need?
Q How long is {E}?
Q How much time does {E} [last|take|run|continue|occupy]?
Q For how long will {E} [last|run|continue]?

number of participants
S {V} came to {E}
S {V} people were at {E}
S {E} drew {V}
S {V} [participated in|registered for|showed up at|took part in|attended|joined] {E}
S {E} [was attended by|counted|attracted|brought together] {V}
Q How many came to {E}?
Q How many people were at {E}?
Q How many did {E} draw?
Q How many [joined|participated in|showed up at|took part in|attended] {E}?
Q How many [were counted at|did|people did] {E} [attract|bring together|count]?

winner
S {V} came first in {E}
S nobody beat {V} in {E}
S {E} was won by {V}
S {V} [won|triumphed in|took first place in|carried off the prize of|was victorious in] {E}
S [first place|the prize|victory] in {E} went to {V}
Q Who came first in {E}?
Q By whom was {E} won?
Q Who was best in {E}?
Q Who took home the prize of {E}?
Q Who [triumphed in|took first place in|was victorious in] {E}?
Q To whom did [the prize|victory|first place] in {E} go?

cause of delay
S {E} is late because of {V}
S {V} held up {E}
S {E} had to wait on account of {V}
S {E} was [put off|slowed down|postponed|held back] [by|because of|owing to] {V}
S [due to|owing to] {V}, {E} [is behind schedule|started late|came to a halt]
Q What held up {E}?
Q Why is {E} late?
Q On account of what did {E} have to wait?
Q What kept {E} back?
Q [What|Which problem] [delayed|slowed down|put off|stopped] {E}?
Q Why [was {E} delayed|was {E} postponed|did {E} start late|is {E} behind schedule]?

sponsor
S the money for {E} comes from {V}
S {V} stands behind {E}
S {V} foots the bill for {E}
S {E} is [financed|funded|paid for|sponsored|supported] by {V}
S {V} [finances|funds|sponsors|supports|pays the bills of] {E}
Q Who foots the bill for {E}?
Q Where does the money for {E} come from?
Q Who stands behind {E}?
Q Who pays for {E}?
Q Who [finances|funds|sponsors|supports|pays the bills of] {E}?
Q By whom is {E} [funded|sponsored|supported|financed]?

deadline
S {E} must be over by {V}
S after {V} it is too late for {E}
S the last day for {E} is {V}
S {E} [must be completed|must be handed in|ends|is due] [by|on|before] {V}
S [finish|complete|submit|deliver] {E} by {V}
Q By when must {E} be done?
Q When is it too late for {E}?
Q What is the last day for {E}?
Q Until when is there time for {E}?
Q By [when|which day|what date] must {E} be [finished|completed|delivered]?

notice period
S {E} can be given up within {V}
S one has {V} to think about {E}
Q Within what time can {E} be given up?
Q How much time does one have with {E}?

processing time
S {E} is through in {V}
S one waits {V} for {E}
S {E} is ready after {V}
Q How long does one wait for {E}?
Q After what time is {E} ready?
Q How fast is {E}?

approver
S {E} takes the consent of {V}
S {V} says yes or no to {E}
S nothing happens with {E} unless {V} agrees
S {E} [is approved by|is signed off by|needs a signature from|is authorised by] {V}
S {V} [approves|signs off|authorises|allows|has to sign] {E}
Q Who says yes or no to {E}?
Q Whose consent does {E} take?
Q Who has to agree to {E}?
Q Who decides on {E}?
Q Who [signs off|authorises|allows|has to sign] {E}?
Q By whom is {E} [approved|signed off|authorised]?

form
S for {E}, fill in {V}
S {V} is the paper to hand in for {E}
Q What has to be filled in for {E}?
Q Which paper is handed in for {E}?
Q What form goes with {E}?

access code
S {V} unlocks {E}
S {E} lets you in if you enter {V}
S key in {V} at {E}
S {E} answers only to {V}
S {E} [opens|unlocks|starts|lets you in] [with|after you type] {V}
S [type|enter|use|press] {V} [to open|to unlock|to get into] {E}
Q What unlocks {E}?
Q What do I key in at {E}?
Q How do I get into {E}?
Q With which digits does {E} open?
Q To what does {E} answer?
Q What [must I type to open|should I enter to unlock|gets me into|opens] {E}?
Q With what input does {E} [open|unlock]?

internal code
S on paper, {E} is {V}
S the files call {E} {V}
S {E} is filed under {V}
S {E} [is known internally as|is abbreviated|is coded|is labelled|runs under] {V}
S [in the records|internally|in the system], {E} [is|appears as|is called] {V}
Q What do the files call {E}?
Q Under what is {E} filed?
Q How is {E} called on paper?
Q How is {E} [labelled|abbreviated|known internally|coded]?
Q What is {E} called [internally|in the system|in the records]?

web page
S more about {E} stands at {V}
S {E} is on the web at {V}
Q Where on the web is {E}?
Q Where can I read about {E} online?
Q At which address is there more about {E}?

discount
S with {E} you save {V}
S {E} makes things cheaper by {V}
Q How much do I save with {E}?
Q By how much does {E} make things cheaper?

version
S {E} now runs {V}
S {E} was brought up to {V}
Q What does {E} run now?
Q To what was {E} brought up?
Q Which number has the newest {E}?

mayor
S {E} is governed by {V}
S the people of {E} elected {V}
S {V} rules over {E}
S {E} is [administered|ruled] by {V}
S {V} [governs|administers|was elected in] {E}
Q Who governs {E}?
Q Whom did the people of {E} elect?
Q Who rules over {E}?
Q Who [leads|was elected in|administers] {E}?
Q By whom is {E} [ruled|led|administered]?

distance
S from the town to {E} it is {V}
S {E} lies {V} out
Q How far is it to {E}?
Q How far out does {E} lie?

neighbour
S {E} lies next to {V}
S from {E} one can see {V}
S the way from {E} leads first to {V}
S {E} [adjoins|stands beside|is close to|is a neighbour of] {V}
S [right beside|close to|across from] {E} [is|lies|stands] {V}
Q What lies next to {E}?
Q Which place is nearest to {E}?
Q What place can one see from {E}?
Q What [borders on|adjoins|stands beside|is close to] {E}?
Q [Beside|Close to] what does {E} stand?

cargo
S {E} is loaded with {V}
S {E} is full of {V}
S in {E} there are {V}
S {E} [carries|transports|holds|brings|delivers|was packed with] {V}
S {V} [travel in|are carried by|fill|are packed in] {E}
Q With what is {E} loaded?
Q What is in {E}?
Q What does {E} carry?
Q Of what is {E} full?
Q What [does {E} transport|does {E} hold|fills {E}|is packed in {E}|travels in {E}]?
Q With what was {E} packed?

destination
S {E} is on its way to {V}
S {E} heads for {V}
S the journey of {E} ends in {V}
S {E} [travels to|goes to|sails for|will arrive in|is sent to] {V}
S [the goal|the last stop|the trip] of {E} is [in |to |]{V}
Q Where is {E} heading?
Q Where does the journey of {E} end?
Q To which place is {E} on its way?
Q Where [is {E} bound|does {E} travel|does {E} go|will {E} arrive|is {E} sent]?
Q [What|Which place] is the [goal|last stop] of {E}?
"""
