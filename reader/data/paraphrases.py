"""More wordings of the attributes, by the first of their names (reader.data.attributes)."""

TABLE = """
birthplace
S {V} is where {E} was born
S the cradle of {E} stood in {V}
S {E} comes from {V}
S {E}, a child of {V}, never forgot it
S {E} hails from {V}
Q What is {E}'s home?
Q Of which [town|place] is {E} a child?
Q Where did {E} first see the light of day?
Q [Where|In which place] did {E} grow up?
Q From where does {E} hail?
Q In what town did the life of {E} begin?

date of birth
S the birth of {E} is dated {V}
S {V} is the day on which {E} was born
S {E} blows out candles on {V}
Q When is {E}'s birthday?
Q When did {E} come into the world?
Q On which day was {E} born?
Q What day marks the birth of {E}?
Q When do we congratulate {E}?

profession
S the bread of {E} is earned as a {V}
S {E} is a {V} by trade
S {E} makes a living as a {V}
S {E} took up the work of a {V}
S as a {V}, {E} is much in demand
Q How does {E} earn a living?
Q What work does {E} do?
Q What is the occupation that {E} follows?
Q By trade, what is {E}?
Q As what did {E} train?
Q What is {E} by profession?

spouse
S {E} and {V} are husband and wife
S {E} said yes to {V}
S {V} wears the ring of {E}
S {E} lives in wedlock with {V}
Q With whom does {E} share a [house|life]?
Q Whose [husband|wife] is {E}?
Q Who is {E}'s better half?
Q Who wears the ring of {E}?
Q Whom has {E} married?

employer
S the wages of {E} are paid by {V}
S {E} is on the staff of {V}
S {E} earns money at {V}
S {V} has {E} on its payroll
Q For whom does {E} work?
Q Who pays {E}?
Q On whose payroll is {E}?
Q By whom [was|is] {E} [hired|employed]?
Q Who hired {E}?
Q Where is {E} employed?

teacher
S {E} was a pupil of {V}
S {V} trained {E}
S what {E} knows comes from {V}
S {E} sat at the feet of {V}
Q From whom did {E} learn?
Q By whom was {E} taught?
Q Who trained {E}?
Q Who was {E}'s master?
Q At whose feet did {E} sit?

pet
S the companion of {E} is a {V}
S a {V} lives in the house of {E}
S {E} goes for walks with a {V}
Q Which creature lives with {E}?
Q What animal is dear to {E}?
Q With what animal does {E} live?
Q Of which animal is {E} fond?

favourite dish
S {E} is fond of {V}
S {V} is what {E} likes to eat
S for {E} nothing tastes as good as {V}
S one can please {E} with {V}
Q What is {E} fond of eating?
Q What food does {E} like best?
Q With what meal can one please {E}?
Q What tastes best to {E}?
Q What is on the plate when {E} may choose?

favourite colour
S {V} is what {E} likes to wear
S {E} paints everything {V}
Q In which colour does {E} dress?
Q What colour pleases {E} most?
Q Which colour does {E} prefer?

mother tongue
S {E} was brought up in {V}
S at home, {E} talks in {V}
S {E} counts and dreams in {V}
Q What does {E} speak at home?
Q In which language was {E} brought up?
Q In what language does {E} dream?
Q Which language did {E} learn first?

instrument
S {E} is good at the {V}
S one hears {E} play the {V} at night
S {E} takes lessons on the {V}
Q What does {E} play?
Q On which instrument does {E} take lessons?
Q What can one hear {E} play?
Q Which instrument is {E} good at?

salary
S {E} takes home {V}
S {V} is paid to {E} every year
S the work of {E} brings in {V}
Q How much does {E} take home?
Q What is {E} paid?
Q How much is paid to {E}?
Q What do they pay {E}?

phone number
S ring {E} on {V}
S {V} connects you with {E}
S {E} picks up when you dial {V}
S dialling {V} gets you {E}
Q What do I dial for {E}?
Q How do I call {E}?
Q Under what number does {E} pick up?
Q If I want to ring {E}, what do I dial?
Q Which number gets me {E}?
Q How is {E} reached by telephone?

email address
S mail for {E} arrives at {V}
S {E} reads what is sent to {V}
S {V} is where {E} gets mail
Q How do I write to {E}?
Q Where do I send mail for {E}?
Q At what address does {E} answer mail?
Q Which address reaches {E}?

office
S go to {V} if you want {E}
S {E} works in {V}
S you meet {E} in {V}
S the door of {E} is that of {V}
Q Where do I meet {E}?
Q Where should one go to see {E}?
Q In what room does {E} work?
Q Where has {E} moved?
Q What is the place to find {E}?

badge number
S on the badge of {E} stands {V}
S the staff list has {E} as {V}
Q What stands on the badge of {E}?
Q What number does {E} wear?
Q As which number is {E} on the staff list?

nickname
S {E} answers to {V}
S for short, {E} is {V}
S those who like {E} say {V}
Q What is {E} called by friends?
Q Under what other name is {E} known?
Q To what name does {E} answer?
Q How is {E} called for short?

head
S the one who steers {E} is {V}
S {E} has {V} at its head
S {V} has the say at {E}
S {E} obeys {V}
S {V} is the boss of {E}
Q Who has the say at {E}?
Q Who is the boss of {E}?
Q Under whom is {E}?
Q Whom does {E} obey?
Q Who took over {E}?
Q In whose hands is {E}?
Q Who is at the top of {E}?
Q With whom does responsibility for {E} lie?

founder
S {V} is the one who started {E}
S it was {V} who called {E} into life
S without {V} there would be no {E}
S {E} was the idea of {V}
Q Who started {E}?
Q To whom does {E} owe its existence?
Q Who called {E} into life?
Q Without whom would there be no {E}?
Q Who stood at the beginning of {E}?

founding year
S {E} goes back to {V}
S {E} began in {V}
S the history of {E} starts in {V}
S {V} saw the beginnings of {E}
Q When did {E} [begin|start|come into being]?
Q From what year does {E} date?
Q To which year does {E} go back?
Q Which year saw the beginnings of {E}?
Q How far back does {E} go?

seat
S {E} is at home in {V}
S {V} is home to {E}
S {E} has settled in {V}
S you will have to travel to {V} to visit {E}
Q Where is {E} at home?
Q Which [town|city] is home to {E}?
Q Where has {E} settled?
Q Where does one travel to visit {E}?
Q To which town did {E} move?

number of members
S {V} have joined {E}
S {E} counts {V} heads
S at {E} there are {V} people
Q How many are in {E}?
Q How many have joined {E}?
Q How big is {E}, in people?
Q What is the number of people at {E}?
Q How many people does {E} employ?

annual budget
S {E} can dispose of {V}
S {V} goes to {E}
S {E} gets by on {V}
Q How much may {E} spend?
Q How much has {E} got to spend?
Q With what sum does {E} get by?
Q On how much does {E} run?
Q What money was {E} given?

opening time
S the doors of {E} open at {V}
S {E} lets people in from {V}
S nobody gets into {E} before {V}
Q When does {E} open its doors?
Q From what time on can one visit {E}?
Q How early does {E} open?
Q Before what time does nobody get into {E}?

closing time
S the doors of {E} shut at {V}
S after {V}, {E} is shut
S {E} sends everyone home at {V}
Q How late can one visit {E}?
Q When does {E} shut?
Q Until when is {E} open?
Q When does {E} send everyone home?

capacity
S {E} takes {V}
S {E} seats {V}
S for more than {V} there is no room in {E}
S {V} fit into {E}
Q How many fit into {E}?
Q How many does {E} [take|seat|hold]?
Q For how many is there room in {E}?
Q How many can {E} hold at most?

weight
S {E} tips the scales at {V}
S on the scales, {E} shows {V}
S {E} is {V} heavy
Q What does {E} weigh?
Q How much does {E} weigh?
Q What do the scales show for {E}?

price
S {E} sells for {V}
S {E} can be had for {V}
S {V} is asked for {E}
S one pays {V} for {E}
S {E} went for {V}
S {E} sets you back {V}
Q What does {E} cost?
Q What does one pay for {E}?
Q How much is {E}?
Q For how much can {E} be had?
Q What is asked for {E}?
Q How expensive is {E}?
Q What did {E} go for?
Q How much does {E} sell for?
Q How much money do I need for {E}?

fee
S {E} asks for {V}
S {E} is not free: it takes {V}
S whoever uses {E} pays {V}
Q What does {E} charge?
Q How much do I have to pay for {E}?
Q What does the use of {E} cost?
Q How much does {E} ask for?

colour
S {E} shines in {V}
S somebody painted {E} {V}
S {E} looks {V}
Q In what colour does {E} shine?
Q What colour was {E} painted?
Q How is {E} painted?

material
S {E} consists of {V}
S {V} was used for {E}
S they made {E} out of {V}
Q Of what does {E} consist?
Q What was used for {E}?
Q Out of what is {E} made?
Q What is {E} made of?

owner
S {E} is the property of {V}
S {V} bought {E} and has kept it
S {V} calls {E} their own
S {E} was left to {V}
Q Whose is {E}?
Q Whose property is {E}?
Q To whom was {E} left?
Q Who bought {E}?
Q Who calls {E} their own?
Q Who is in possession of {E}?

maker
S {E} is the work of {V}
S {E} came out of the workshop of {V}
S {V} drew and built {E}
Q Whose work is {E}?
Q Who drew {E}?
Q From whose workshop is {E}?
Q Who thought up {E}?

keeper
S {V} keeps an eye on {E}
S {E} is in the care of {V}
S {V} minds {E}
S {E} has been entrusted to {V}
Q Who keeps an eye on {E}?
Q In whose care is {E}?
Q To whom is {E} entrusted?
Q Who minds {E}?
Q Who has to take care of {E}?
Q Whom do I ask about {E}?

serial number
S the plate on {E} reads {V}
S {E} carries the mark {V}
Q What does the plate on {E} read?
Q Which mark does {E} carry?
Q As what is {E} registered?

storage place
S {E} is put away in {V}
S you will come across {E} in {V}
S {E} has its place in {V}
Q Where is {E} put away?
Q Where has {E} got its place?
Q Where will I come across {E}?
Q Where do they keep {E}?

lifetime
S {E} will do for {V}
S {E} holds out for {V}
S after {V}, {E} is worn out
Q How long will {E} do?
Q After what time is {E} worn out?
Q How long does {E} hold out?

service interval
S {E} goes to the workshop every {V}
S every {V} somebody looks after {E}
S {E} needs attention once in {V}
Q How often does {E} need attention?
Q At what intervals is {E} looked after?
Q How much time passes between two checks of {E}?

start date
S {E} gets going on {V}
S {E} kicks off on {V}
S {V} is when {E} starts
Q When does {E} get going?
Q When does {E} kick off?
Q On what day does {E} begin?
Q When can we expect {E}?

venue
S {E} is held in {V}
S one meets in {V} for {E}
S {V} plays host to {E}
Q Where is {E} held?
Q Where does one meet for {E}?
Q Which place plays host to {E}?
Q Where will {E} take place?

duration
S {E} goes on for {V}
S {E} is over after {V}
S {E} needs {V}
Q How long does {E} go on?
Q After what time is {E} over?
Q How much time does {E} need?
Q How long is {E}?

number of participants
S {V} came to {E}
S {V} people were at {E}
S {E} drew {V}
Q How many came to {E}?
Q How many people were at {E}?
Q How many did {E} draw?

winner
S {V} came first in {E}
S nobody beat {V} in {E}
S {E} was won by {V}
Q Who came first in {E}?
Q By whom was {E} won?
Q Who was best in {E}?
Q Who took home the prize of {E}?

cause of delay
S {E} is late because of {V}
S {V} held up {E}
S {E} had to wait on account of {V}
Q What held up {E}?
Q Why is {E} late?
Q On account of what did {E} have to wait?
Q What kept {E} back?

sponsor
S the money for {E} comes from {V}
S {V} stands behind {E}
S {V} foots the bill for {E}
Q Who foots the bill for {E}?
Q Where does the money for {E} come from?
Q Who stands behind {E}?
Q Who pays for {E}?

deadline
S {E} must be over by {V}
S after {V} it is too late for {E}
S the last day for {E} is {V}
Q By when must {E} be done?
Q When is it too late for {E}?
Q What is the last day for {E}?
Q Until when is there time for {E}?

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
Q Who says yes or no to {E}?
Q Whose consent does {E} take?
Q Who has to agree to {E}?
Q Who decides on {E}?

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
Q What unlocks {E}?
Q What do I key in at {E}?
Q How do I get into {E}?
Q With which digits does {E} open?
Q To what does {E} answer?

internal code
S on paper, {E} is {V}
S the files call {E} {V}
S {E} is filed under {V}
Q What do the files call {E}?
Q Under what is {E} filed?
Q How is {E} called on paper?

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
Q Who governs {E}?
Q Whom did the people of {E} elect?
Q Who rules over {E}?

distance
S from the town to {E} it is {V}
S {E} lies {V} out
Q How far is it to {E}?
Q How far out does {E} lie?

neighbour
S {E} lies next to {V}
S from {E} one can see {V}
S the way from {E} leads first to {V}
Q What lies next to {E}?
Q Which place is nearest to {E}?
Q What place can one see from {E}?

cargo
S {E} is loaded with {V}
S {E} is full of {V}
S in {E} there are {V}
Q With what is {E} loaded?
Q What is in {E}?
Q What does {E} carry?
Q Of what is {E} full?

destination
S {E} is on its way to {V}
S {E} heads for {V}
S the journey of {E} ends in {V}
Q Where is {E} heading?
Q Where does the journey of {E} end?
Q To which place is {E} on its way?
"""
