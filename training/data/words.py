"""Word pools. The invented documents draw from pools of their own (training/handbook.py, manual.py)."""

# ruff: noqa: E501  (one wording a line, however long)


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(",") if part.strip())


FIRST_NAMES = _split(
    """Ada Adele Agnes Albin Alma Amos Anders Anita Anton Ariel Arno Astrid August Aurel Barbara
    Basil Beatrix Benno Berta Blanche Boris Brigid Bruno Carla Caspar Cecil Celia Clara Claude
    Clive Conrad Cora Cyril Dagmar Daphne Darius Delia Denis Dinah Dora Dorian Edgar Edith Edmund
    Elias Elsa Emil Enid Erik Ernest Esther Ethan Eugene Eva Fabian Felix Fergus Fiona Flora Frank
    Freda Gabriel Gerda Gideon Gilbert Gloria Greta Guy Hanna Harold Hazel Hector Hedda Helga Henry
    Hilda Hugo Ida Igor Imogen Ines Ingrid Ira Irene Iris Isaac Ivan Ivy Jana Jasper Jerome Joan
    Joel Jonas Judith Julius Karin Karl Kirsten Klara Kurt Lars Laura Leon Lena Leo Lewis Lila Linus
    Livia Lois Lorna Louis Lucas Lydia Mabel Magnus Marcus Marta Martin Maud Max Melvin Milo Mina
    Miriam Moritz Nadia Naomi Nelson Nils Nina Nora Norman Olga Oliver Olive Oscar Otto Pablo Paula
    Percy Petra Philip Phoebe Quentin Rachel Ralph Ramona Regina Rhoda Robert Roland Rosa Rufus Ruth
    Sabine Salim Samir Sara Selma Sigrid Silas Simon Sofia Stella Sven Tamar Tara Teresa Theo Thora
    Tobias Ulla Ulric Ursula Vera Victor Viola Walter Wanda Wilma Winston Xenia Yara Yusuf Zelda
    Amina Chen Deepa Farid Haruki Jamal Kofi Leila Mei Nadir Priya Rashid Sanjay Tariq Wei Yuki"""
)
STARTS = _split(
    """Al An Ar Bal Bar Bel Ber Bor Bran Bren Cal Car Cor Cran Dal Dan Dar Del Dor Dren El Em Er Fal
    Far Fen Fol Gal Gar Gil Gor Gran Hal Har Hel Hol Hor Il In Jar Jor Kal Kar Kel Kor Kral Lam Lan
    Lar Lin Lor Mal Mar Mel Mer Mor Nal Nar Nor Ol Or Os Pal Par Pel Per Pol Quin Ral Ran Rav Rol
    Ros Sal Sar Sel Sil Sol Stan Ster Tal Tar Tel Thal Tor Tran Ul Ur Val Var Ver Vol Wal War Wes
    Wil Win Yar Yel Zan Zel Zor Strand Black White Green Stone Brook Ash Oak Thorn Fair Long"""
)
MIDDLES = _split("a e i o u en er an in on ar el il am em ov it ig ad eb")
ENDS = _split(
    """bach berg bert bold borg by by combe croft dale den dorf dor fell field ford gard gate green
    grove ham haven heim hill holm holt hurst ing keld land leigh ley lin lock low man mark mere
    mond mont mor more mouth ness nik ov quist ridge rick ros sen shaw son stad stead sted stein
    stone strom thal thorpe ton vale vik vin vold wald ward water well wick wood worth zani ski
    escu akis ano elli otti ani ez era aga oko imba ura awa oto uchi"""
)
TITLES = _split("Dr. Professor Mr. Ms. Captain Sister Judge Engineer")
ADJECTIVES = _split(
    """amber ancient annual autumn basic big blue brass bright broad broken bronze brown busy calm
    central cheap clean coastal cold common compact copper crimson curved daily damp dark deep
    digital distant double dry dusty early eastern electric emerald empty external faint fast final
    fine first flat foreign formal former fresh frozen general gentle giant glass golden grand gray
    green half hanging harvest heavy hidden high hollow horizontal indigo inner internal iron ivory
    joint large last late leather light little local long lost low lower lucky main manual marble
    medical metal middle mobile modern monthly morning narrow new night northern novel old open
    orange outer pale paper partial permanent pink plain polar polished portable primary private
    public purple quiet rapid rare red regional remote rough round royal rural rustic safe scarlet
    second secret senior shallow sharp short silent silver simple single slow small smooth soft
    solar southern special spare spring square standard steady steel steep stone strong summer
    temporary thick thin third tidal tiny total upper urban velvet violet warm weekly western white
    wide wild winter wooden yellow young"""
)
THINGS = _split(
    """anchor antenna apron arch awning axle balcony banner barge barrel basket battery beacon beam
    bell bellows bench bicycle boiler bolt bottle bowl bracket bridge broom brush bucket buoy cabin
    cabinet cable camera canal candle canoe cart cask ceiling chain chair chart chest chimney
    chisel clamp clock coat coil compass compressor container conveyor copier crane crate crown cup
    cupboard curtain cylinder desk dial dispenser dock door drawer drill drum dryer dynamo easel
    elevator engine fan faucet fence ferry filter flag flask fountain frame freezer funnel furnace
    fuse garden gate gauge generator glider globe hammer handle harness harp hatch hedge heater
    helmet hinge hoist hose hull incubator instrument jacket jar kettle keyboard kiln kite ladder
    lamp lantern lathe laser lens lever lift lock locker locomotive loom machine magnet mast mill
    mirror mixer mortar motor mould nozzle oar organ oven paddle pallet panel parcel pedal
    pendulum piano pillar pipe piston plough pontoon press printer projector pulley pump quilt rack
    radar radiator radio raft rail ramp refrigerator regulator ring robot rope rudder saddle safe
    sail saw scale scanner screen sensor shelf shield shovel signal siphon sledge socket spade spool
    stage stapler statue stove switch table tank tap telescope tent terminal tile timer tower
    tractor trailer tray trolley trumpet trunk tunnel turbine umbrella valve van vase vault vessel
    violin wagon wardrobe washer wheel whistle winch window wrench"""
)
GOODS = _split(
    """apples bandages barrels batteries beans blankets bolts books boots bottles boxes bricks buckets
    bulbs cables candles carpets cartons chairs coins crates cups desks doors drums eggs envelopes
    filters flags flasks gloves hammers handbooks hats helmets jars keys kettles knives labels
    ladders lamps lemons lenses letters logs maps masks mats mugs nails nets notebooks oranges
    parcels pears pens pipes plates posters potatoes pots pumps ropes saddles screws seats sheets
    shovels shirts spoons stamps stools stoves tables tents tiles tickets tools towels trays trees
    tubes tyres uniforms valves vases wheels windows"""
)
ROLES = _phrases(
    """accountant, archivist, assistant, auditor, caretaker, cashier, chef, clerk, coach,
    consultant, coordinator, curator, deputy, director, dispatcher, editor, electrician, engineer,
    foreman, gardener, guard, guide, harbour master, inspector, instructor, interpreter,
    janitor, judge, lab technician, lecturer, librarian, line manager, mechanic, mediator, mentor,
    night nurse, operator, paralegal, pilot, planner, plumber, porter, principal, producer,
    programmer, receptionist, recruiter, registrar, safety officer, secretary, shift leader,
    steward, storekeeper, superintendent, supervisor, surveyor, team leader, technician, trainer,
    translator, treasurer, trustee, tutor, veterinarian, warden, warehouse manager"""
)
BODIES = _phrases(
    """academy, agency, alliance, archive, association, bakery, bank, board, brewery, brotherhood,
    bureau, cannery, charity, choir, clinic, club, college, committee, company, cooperative,
    council, dairy, department, federation, festival, firm, foundation, foundry, guild, hospital,
    hotel, insurance company, institute, laboratory, law firm, league, library, ministry, museum,
    newspaper, nursery, observatory, office, opera, orchestra, orphanage, partnership, pharmacy,
    police station, press, publisher, railway, refinery, registry, research group, restaurant,
    school, seminar, shipping line, shipyard, society, store, studio, syndicate, team, theatre, trust,
    union, university, winery, workshop"""
)
SITES = _phrases(
    """abbey, airfield, archive room, arena, attic, bakery yard, barn, barracks, basement, bath house,
    boathouse, bridge, camp, canteen, castle, cave, cellar, cemetery, chapel, coal mine, corridor,
    cottage, courtyard, crossing, dam, depot, dining hall, dockyard, dormitory, farm, forest,
    fort, fountain, gallery, garage, garden, gatehouse, glacier, greenhouse, gymnasium, harbour,
    hut, inn, island, kitchen, lake, laundry, lecture hall, lighthouse, loading bay, lobby, lodge,
    lookout, market, meadow, meeting room, mill, monastery, mooring, oasis, orchard, palace,
    park, parking garage, pass, pavilion, peak, plaza, pond, pool, port, post office, pumping station,
    quarry, ranch, reading hall, reception desk, reservoir, river, server room, shelter,
    shrine, spring, square, stable, stadium, station, store room, street, swimming hall, temple,
    terminal, tower, town hall, training room, tunnel, valley, village, vineyard, waiting room,
    warehouse, waterfall, well, wharf, workshop, yard"""
)
PROJECTS = _phrases(
    """agreement, assembly, auction, audit, banquet, campaign, census, ceremony, competition,
    concert, conference, contract, convention, course, delivery, election, excavation, exhibition,
    expedition, experiment, fair, hearing, initiative, inspection, investigation, lecture,
    loan, match, meeting, mission, operation, parade, pilot study, programme, project, regatta,
    rehearsal, reunion, review, seminar, shipment, study, summit, survey, test flight, tournament,
    tour, trial, voyage, wedding, workshop"""
)
SERVICES = _phrases(
    """absence report, application form, archive request, badge request, booking form, claim form,
    complaint procedure, courier service, credit card, damage report, donation scheme,
    equipment loan, evening shift, exit permit, expense report, fire drill, first aid kit, gift card,
    grant application, guest account, help line, holiday request, incident report, invoice, key card,
    late shift, laundry service, library card, lunch break, maintenance contract, mail service,
    medical check, membership, monthly pass, night shift, online portal, order form, overtime rule,
    parking permit, password policy, payroll run, phone plan, probation period, purchase order,
    refund request, registration form, remote desktop, rental car, repair service, return policy,
    safety briefing, season ticket, security check, shuttle bus, sick note, staff badge,
    stock count, storage plan, supply order, time sheet, training budget, transport pass,
    travel claim, tuition grant, vacation request, visa letter, visitor pass, waiting list,
    warranty, welcome pack, wireless network, work permit"""
)
CODE_NOUNS = _split(
    """access cache client queue request retry session upload worker batch buffer channel cluster
    commit config connection cursor database deploy disk driver endpoint event export fetch file
    gateway handler health heartbeat host import index ingest job key latency lease limit listener
    lock log memory message metric model node packet page parser payload peer plugin pool port proxy
    record region render replica report rollout route router sample scheduler schema score search
    segment server shard signal snapshot socket span storage stream sync table task thread token
    trace trigger user vector volume watch webhook window zone"""
)
CODE_TAILS = _split(
    """timeout limit size count interval delay threshold level mode name path port rate ratio
    retries seconds bytes weight depth offset version prefix suffix policy budget window ttl
    format url host key tag id"""
)
COLOURS = _phrases(
    """amber, beige, black, blue, bronze, brown, crimson, cyan, dark blue, emerald, gold, gray, green,
    indigo, ivory, khaki, lavender, light green, lime, magenta, maroon, navy, ochre, olive, orange,
    pale yellow, peach, pink, plum, purple, red, rose, ruby, rust, salmon, scarlet, silver, teal,
    turquoise, violet, white, yellow"""
)
MATERIALS = _phrases(
    """alabaster, aluminium, ash wood, basalt, birch, brass, bronze, canvas, cast iron, cedar, cherry
    wood, clay, concrete, copper, cork, cotton, ebony, felt, flint, glass, granite, horn, jade, lead,
    leather, limestone, linen, maple, marble, nickel, nylon, oak, paper, pewter, pine, porcelain,
    quartz, rubber, sandstone, silk, silver, slate, steel, straw, teak, tin, titanium, velvet,
    walnut, wax, wool, zinc"""
)
ANIMALS = _phrases(
    """albatross, ant, antelope, badger, bat, bear, beaver, bee, bison, boar, buffalo, camel, cat, cobra,
    crab, crane, crow, deer, dolphin, donkey, dove, eagle, eel, elk, falcon, ferret, finch, fox, frog,
    gazelle, goat, goose, hare, hawk, hedgehog, heron, horse, hyena, ibex, jackal, kestrel, lamb, lark,
    leopard, lion, lizard, lobster, lynx, magpie, mole, moose, moth, mule, octopus, otter, owl, ox,
    panther, parrot, pelican, pheasant, pigeon, pony, quail, rabbit, raven, robin, salmon, seal,
    shark, sparrow, spider, squirrel, stork, swallow, swan, tiger, toad, trout, turtle, viper, walrus,
    wasp, weasel, whale, wolf, wren, zebra"""
)
FOODS = _phrases(
    """almond cake, apple pie, barley soup, bean stew, beetroot salad, black bread, buttered toast,
    cabbage rolls, carrot cake, cheese dumplings, cherry tart, chestnut puree, chicken broth, corn
    bread, cucumber salad, duck pie, fig jam, fish soup, fried rice, garlic bread, ginger biscuits,
    goat cheese, grilled trout, honey cake, lamb stew, lemon pudding, lentil curry, mushroom soup,
    mustard, noodles, oat porridge, onion tart, orange cake, pancakes, pea soup, peach jam, pickled
    herring, plum dumplings, potato salad, pumpkin soup, rabbit stew, raisin buns, rice pudding, roast
    goose, rye bread, sausages, smoked eel, spinach pie, tomato soup, turnip mash, vanilla ice cream,
    vegetable curry, walnut cake, watercress soup"""
)
TRADES = _phrases(
    """actor, architect, astronomer, baker, banker, barber, blacksmith, botanist, brewer, builder,
    butcher, carpenter, cartographer, chemist, clockmaker, composer, cook, dancer, dentist, diplomat,
    doctor, drummer, farmer, fisherman, florist, geologist, glassblower, goldsmith, hunter,
    illustrator, inventor, jeweller, journalist, lawyer, linguist, locksmith, mason, mathematician,
    merchant, midwife, miller, miner, musician, notary, novelist, nurse, optician, painter, pharmacist,
    philosopher, photographer, physicist, pianist, poet, potter, printer, sailor, sculptor, shepherd,
    shoemaker, singer, smith, soldier, surgeon, tailor, teacher, undertaker, violinist, watchmaker,
    weaver, zoologist"""
)
LANGUAGES = _split(
    """Arabic Armenian Basque Bengali Breton Bulgarian Catalan Croatian Czech Danish Dutch English
    Estonian Finnish French Georgian German Greek Hebrew Hindi Hungarian Icelandic Irish Italian
    Japanese Korean Latin Latvian Maltese Mongolian Norwegian Persian Polish Portuguese Romanian
    Russian Serbian Slovak Spanish Swahili Swedish Tamil Thai Turkish Ukrainian Urdu Vietnamese Welsh
    Zulu"""
)
INSTRUMENTS = _phrases(
    """accordion, banjo, bassoon, bugle, cello, clarinet, cornet, cymbals, double bass, fiddle, flute,
    French horn, guitar, harmonica, harp, harpsichord, lute, mandolin, oboe, organ, piano, piccolo,
    saxophone, sitar, tambourine, trombone, trumpet, tuba, viola, violin, xylophone, zither"""
)
SUBJECTS = _phrases(
    """algebra, anatomy, archaeology, astronomy, bookkeeping, botany, bridge building, calligraphy,
    chess, civil law, crop rotation, dialects, economics, engraving, ethics, field medicine, first
    aid, forestry, genetics, geology, glaciers, grammar, harbour safety, heraldry, irrigation, logic,
    map reading, marine biology, medieval trade, metallurgy, meteorology, navigation, optics, ornithology,
    pottery, probability, public speaking, radio repair, rhetoric, soil chemistry, statistics,
    surveying, taxation, textile history, tides, topology, volcanoes, water quality, weaving, wind power"""
)
CAUSES = _phrases(
    """a broken axle, a burst pipe, a cracked lens, a dead battery, a dispute over wages, a faulty
    switch, a fire in the cellar, a flood, a frozen valve, a lack of funds, a lightning strike, a lost
    key, a loose cable, a missing signature, a power cut, a printing error, a road closure, a rusty
    hinge, a shortage of coal, a sick driver, a software error, a strike, a sudden storm, a wrong
    address, bad weather, early frost, heavy fog, heavy snow, high water, low water pressure, poor
    lighting, rising prices, stolen tools, strong winds, thick ice, unpaid bills, worn brakes"""
)
UNITS = _phrases(
    """metres, kilometres, miles, feet, inches, centimetres, millimetres, kilograms, grams, tonnes,
    pounds, ounces, litres, gallons, barrels, degrees, watts, kilowatts, volts, hectares, acres,
    knots, square metres, cubic metres, bushels, kg, km, cm, mm, kW, MB, GB, ms, Hz, pages, seats,
    amperes, ohms, decibels, joules, calories, lumens, carats, yards, furlongs, fathoms, pints, quarts,
    drops, spoonfuls, sheets, lines, grains, foot-pounds, watt-hours, man-days, light-years, °C, °F, bar,
    psi, rpm, dB, kPa, ml, mg, tons, hundredweight, dozen, crates, loads, turns per minute"""
)
TIME_UNITS = _phrases(
    """seconds, minutes, hours, days, working days, weeks, months, years, calendar days, nights"""
)
WEEKDAYS = _split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = _split(
    "January February March April May June July August September October November December"
)
CURRENCIES = _phrases(
    "euros, dollars, pounds, crowns, francs, guineas, marks, roubles, yen, florins"
)
SMALL_NUMBERS = _split(
    """two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"""
)
GREEK = _split("alpha beta gamma delta epsilon zeta theta kappa lambda sigma omega")
COMMON = _split(
    """able above act add age air aim apple arm art atlas autumn baby bag ball band bark base bath bay
    beach bean beard bed bee berry bird blade blood board boat body bone book border boy branch bread
    breath breeze brick bride brother butter cake camp canal cap card castle cattle cave chalk chance
    cheese cherry child choice circle city clay cliff cloth cloud coal coast coffee coin copy coral
    corn corner cotton couch cousin cow cradle cream creek crowd crystal dance dawn day debt desert dew
    dinner dog dream dress drop dust eagle ear earth echo edge egg elbow elm ember evening eye face
    family farm father feather fern fever field fig finger fire fish flame flock floor flour flower
    fog foot forest fork fort friend frost fruit game garlic gift girl glory glove goat grain grape
    grass gravel guest gull hair hand harvest hat hay heart hill holiday honey hook hope horn horse
    hour house ice ink island ivy jewel joke journey juice jungle key king kitchen knee knife knot lake
    land lane lark leaf leather lemon letter lily lime line lion lip meadow meal melon milk mint mist
    money moon morning moss mother mountain mouse mouth music nail name neck needle nest night noise
    north nut oak ocean oil olive onion orchard otter owl ox page palm paper parade path peach pearl
    pebble pepper pine plain planet plum pocket poem pond prince quartz queen question rabbit rain
    raven reed river road robin rock roof room root rose sail salt sand school sea seed shadow shape
    sheep shell ship shoe shore silk sister skin sky sleep smoke snow soap soil song soup south spark
    spoon star steam stick storm story straw stream street sugar sun supper swan sword tail tea
    thunder tide timber toe tongue tooth town trail tree truth uncle valley voice wall walnut water
    wave wax west wheat wing wolf wood wool word world wrist yard year"""
)
DEFECTS = _split(
    """bent blocked broken burnt chipped cracked cut damp dented dirty faulty frayed frozen jammed
    leaking loose melted missing rusty scratched sharp shattered split stained sticky stretched
    swollen twisted uneven wet worn wrong"""
)
PARTS = _split(
    """axle badge belt blade bolt bottom brake buckle button cap chain clasp corner cover cord edge
    fastener fitting flap frame fuse gauge grip handle hinge hook joint label latch leg lens lid
    lining lock loop neck nozzle pedal pin plate plug pocket rim ring screw seam seal shaft sleeve
    spout spring stitch stopper string switch tag tip valve wheel wire zip"""
)
OCCASIONS = _split(
    """appointment booking class consultation course duty fitting hearing interview lecture lesson
    meeting patrol performance reading rehearsal reservation session shift slot stint table talk
    tour training trial turn viewing visit workout"""
)
VERBS = {
    "cancel": ("cancelled", "cancelling"),
    "change": ("changed", "changing"),
    "exchange": ("exchanged", "exchanging"),
    "extend": ("extended", "extending"),
    "postpone": ("postponed", "postponing"),
    "move": ("moved", "moving"),
    "shorten": ("shortened", "shortening"),
    "skip": ("skipped", "skipping"),
    "split": ("split", "splitting"),
    "trade": ("traded", "trading"),
    "drop": ("dropped", "dropping"),
    "share": ("shared", "sharing"),
}
PURCHASES = _phrases(
    """books, breakfast, bus fares, childcare, cleaning, courses, dinners, drinks, exam fees, flights,
    flowers, fuel, gifts, glasses, gloves, hotel rooms, ink, laundry, lunches, magazines, medicine,
    moving costs, museum tickets, newspapers, overnight stays, paper, parking, petrol, phone calls,
    postage, printing, rail fares, repairs, safety shoes, snacks, software, stamps, stationery,
    storage, taxi rides, tools, train tickets, translation, tuition, uniforms, vaccinations, work
    clothes"""
)
INCIDENTS = _phrases(
    """accidents, blackouts, break-ins, broken windows, burglaries, burst pipes, chemical leaks,
    collisions, complaints, computer viruses, cracks, crashes, delays, falls, false alarms, fights,
    flat tyres, floods, forgeries, frauds, gas leaks, injuries, jams, landslides, lost keys,
    mice, near misses, noise, nosebleeds, paper jams, power failures, puddles, rats, rockfalls,
    robberies, scams, short circuits, shortages, smells, smoke, stoppages, strange noises, thefts,
    threats, vandalism, water leaks, wasp nests, wet floors"""
)
ACTIONS = _split(
    """adjust air align assemble beat bend blow brush build burn calibrate carry catch change
    charge check clean clear close coat collect connect cool copy count cover crush cut dig
    dip draw drain drill dry dust empty examine feed fetch file fill filter find fix flush
    fold free freeze grease grind guard hang heat hide hire hoist inspect invite iron keep
    label lay lead lend level lift light load lock lower lubricate mark measure mix mount move
    nail number oil open order pack paint polish pour press print protect pull push raise
    record release remove repair replace rinse rotate rub scrape scrub screen seal search
    secure send serve set shake share sharpen shift ship show sift slide smooth soak sort
    spray spread stack stamp steam steer sterilise stir stop store stretch sweep swing switch
    test throw tie tighten trim turn wash watch water wax weigh weld wind wipe wrap"""
)
STUFFS = _split(
    """acid alcohol ash bleach brine cement chalk cider cream flour fuel gas glue gravel
    grease ink lacquer lime lotion lye milk mortar oil ointment paint paste pitch plaster
    polish powder resin rope salt sand sauce sealant soap solvent starch syrup tape tar
    thinner thread tonic twine varnish vinegar water wax wire wool yarn"""
)
MEANS = _phrases(
    """bare hands, a blunt knife, a brush, a chisel, a clean sponge, a crowbar, a damp cloth,
    cold water, a dry rag, a file, a flat iron, a fork, hot steam, a long pole, a magnet, a
    mallet, melted butter, a paddle, a pair of tongs, pliers, a rake, a ruler, sandpaper,
    scissors, a screwdriver, a shovel, soft soap, a soft brush, a spanner, a stiff broom, a
    thin wire, tweezers, a wet towel, a wooden spoon"""
)
HAPPENINGS = _split(
    """arrive bend boil break burn burst click close come cool crack creak drip drop dry end fade fail
    fall flow freeze go halt hum jam leak leave lift move open pass rattle rest return ring rise rotate
    run rust shake shift shine shut sink slide slip sound spin stall start stick stop swing tilt tremble
    turn wait wake wobble work"""
)
