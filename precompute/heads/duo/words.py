"""Plain words, to make texts and passkeys of."""


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NOUNS = _list(
    "anchor apple basket bell bird boat bottle bread bridge broom button cabin candle carpet cart "
    "castle chair clock coat corner cotton cup desk door drawer engine farmer feather fence field "
    "fire flower forest garden gate glass hammer harbour hat hill horse house island kettle key "
    "kitchen ladder lake lamp leaf letter lion map market meadow mill mirror morning mountain "
    "needle orchard owl paint paper path pencil piano plate pocket pond queen rain ribbon river "
    "road roof rope sailor shadow ship shoe shop silver snow soldier spoon spring station stone "
    "storm summer table tailor teacher thread tower train tree valley violin wagon wall water "
    "wheel whistle window winter wool"
)
ADJECTIVES = _list(
    "ancient broad bright brown careful cheerful clean cold dark deep distant dusty early empty "
    "gentle golden green grey heavy hollow honest late little long lonely narrow old pale patient "
    "plain proud quiet quick round rough short silent simple slow small soft steep strange tall "
    "thin warm white wide wooden young"
)
VERBS = _list(
    "admired borrowed brought carried cleaned closed counted covered drew followed forgot found "
    "guarded held hid kept knew left lifted lost loved measured mended missed moved noticed opened "
    "painted passed praised pulled pushed reached remembered saw showed sold sought stood touched "
    "turned wanted watched"
)
PLACES = _list(
    "above across against along among around behind beside beyond near over past round through "
    "towards under"
)
SYLLABLES = _list(
    "ba bel bor cal cor da del dor el fa fen gar gil ha hel is ka kel la lin lo lun ma mar mi mor "
    "na nel no or pa pel qui ra rin ro sa sel so ta tel tor ul va ver vi wen yor za zel"
)
