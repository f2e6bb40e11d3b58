"""Workloads: which documents there are, and who asks what about them when.

Those of others keep their definitions: LMCache's `long_doc_qa.py` and its `bench engine --workload
long-doc-qa`, PegaFlow's warm run, vLLM's `benchmark_long_document_qa_throughput.py`. Where a
definition has no question, the document ends and the question is `CONTINUE`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random

CONTINUE = "Continue."
FOUR_QUESTIONS = (
    "What is this document about?",
    "Summarize the key points.",
    "What is the main topic discussed?",
    "Provide a brief overview.",
)


@dataclass(frozen=True)
class Request:
    """A question that is asked.

    Attributes:
        document: index of the document.
        question: its text.
        max_tokens: tokens of the answer, which are all generated.
        at_s: seconds after the start; None if it is asked as soon as there is a place in flight.
    """

    document: int
    question: str
    max_tokens: int
    at_s: float | None = None


@dataclass(frozen=True)
class Workload:
    """Documents, and the requests about them in their order.

    Attributes:
        tokens: of each document.
        in_flight: how many requests may run at once; None if all have a time.
        warm_up: whether each document is asked once before the clock starts.
        is_literal: whether its definition says what the documents' text is (`literal_text`).
    """

    name: str
    tokens: tuple[int, ...]
    requests: tuple[Request, ...]
    in_flight: int | None
    warm_up: bool = True
    is_literal: bool = False

    @property
    def asked(self) -> frozenset[int]:
        """The documents that are asked about."""
        return frozenset(request.document for request in self.requests)

    @property
    def most_askers_of_one(self) -> int:
        """How many requests about the same document may run at once."""
        counts = Counter(request.document for request in self.requests)
        return min(max(counts.values()), self.in_flight or len(self.requests))


def lmcache(documents: int, tokens: int, output: int, repeat: int, in_flight: int) -> Workload:
    """LMCache's long-document question answering in `tile` order: 1 2 3 ... 1 2 3 ..."""
    order = list(range(documents)) * repeat
    size = f"{documents} x {tokens}"
    return Workload(
        name=f"lmcache {size}, {output} out, repeat {repeat}, {in_flight} in flight",
        tokens=(tokens,) * documents,
        requests=tuple(Request(document, CONTINUE, output) for document in order),
        in_flight=in_flight,
        is_literal=True,
    )


def four_questions(documents: int, tokens: int, output: int = 128, seed: int = 42) -> Workload:
    """Two of four questions about each document in random order, three in flight."""
    random = Random(seed)
    requests = [
        Request(document, question, output)
        for document in range(documents)
        for question in random.sample(FOUR_QUESTIONS, 2)
    ]
    random.shuffle(requests)
    return Workload(
        name=f"four questions, {documents} x {tokens}, {output} out",
        tokens=(tokens,) * documents,
        requests=tuple(requests),
        in_flight=3,
    )


def pegaflow(documents: int = 8, tokens: int = 10_000, rate: float = 4.0) -> Workload:
    """PegaFlow's: one token of output, so many requests a second, each document once."""
    return Workload(
        name=f"pegaflow {documents} x {tokens}, 1 out, {rate:g} a second",
        tokens=(tokens,) * documents,
        requests=tuple(
            Request(document, CONTINUE, 1, at_s=document / rate) for document in range(documents)
        ),
        in_flight=None,
        is_literal=True,
    )


def throughput(documents: int = 8, tokens: int = 20_000) -> Workload:
    """vLLM's: ten tokens of output, each document twice, all at once."""
    order = list(range(documents)) * 2
    return Workload(
        name=f"vllm {documents} x {tokens}, 10 out, repeat 2",
        tokens=(tokens,) * documents,
        requests=tuple(Request(document, CONTINUE, 10) for document in order),
        in_flight=len(order),
        is_literal=True,
    )


def askers(documents: int, tokens: int, num_askers: int, output: int = 128) -> Workload:
    """So many callers at once, spread evenly over the documents, a question of its own each."""
    requests = tuple(
        Request(index % documents, f"{FOUR_QUESTIONS[index % 4]} ({index})", output)
        for index in range(num_askers)
    )
    return Workload(
        name=f"{num_askers} askers, {documents} x {tokens}, {output} out",
        tokens=(tokens,) * documents,
        requests=requests,
        in_flight=num_askers,
    )


def one_by_one(tokens: int, questions: int = 8, output: int = 128) -> Workload:
    """Questions about one document, each after the answer to the one before."""
    crowd = askers(1, tokens, questions, output)
    return replace(crowd, name=f"one by one, {questions} x {tokens}, {output} out", in_flight=1)


def zipf(
    documents: int,
    tokens: int,
    requests: int,
    in_flight: int = 4,
    output: int = 32,
    *,
    exponent: float = 1.0,
    seed: int = 0,
) -> Workload:
    """Documents asked about as often as Zipf's law says, the first one most often."""
    random = Random(seed)
    weights = list(accumulate(1 / (rank + 1) ** exponent for rank in range(documents)))
    order = random.choices(range(documents), cum_weights=weights, k=requests)
    return Workload(
        name=f"zipf {exponent:g}, {documents} x {tokens}, {requests} requests, {output} out",
        tokens=(tokens,) * documents,
        requests=tuple(
            Request(document, FOUR_QUESTIONS[index % 4], output)
            for index, document in enumerate(order)
        ),
        in_flight=in_flight,
        warm_up=False,
    )


def two_rounds(tokens: tuple[int, ...], output: int = 32) -> Workload:
    """Each document once and then once more, one question after the other, right after reading."""
    order = list(range(len(tokens))) * 2
    requests = (Request(one, FOUR_QUESTIONS[at % 4], output) for at, one in enumerate(order))
    return Workload(
        name=f"two rounds, {' + '.join(map(str, tokens))}, {output} out",
        tokens=tokens,
        requests=tuple(requests),
        in_flight=1,
        warm_up=False,
    )


def ten_each(documents: int, tokens: int, output: int = 8) -> Workload:
    """Ten questions about each document, one after the other, right after reading."""
    requests = (
        Request(document, f"{FOUR_QUESTIONS[at % 4]} ({at})", output)
        for document in range(documents)
        for at in range(10)
    )
    return Workload(
        name=f"ten each, {documents} x {tokens}, {output} out",
        tokens=(tokens,) * documents,
        requests=tuple(requests),
        in_flight=1,
        warm_up=False,
    )


def mixtures(
    tokens: tuple[int, ...], count: int, most_askers: int = 64, output: int = 64, seed: int = 42
) -> tuple[Workload, ...]:
    """Callers at once, each with a question about one of some documents, drawn anew so many times.

    How many callers there are is drawn evenly on a logarithmic scale, so that small crowds are as
    frequent as large ones. Every other mixture is of the longest documents alone.

    Args:
        tokens: of all documents that there are.
    """
    random = Random(seed)
    longest = [one for one, num_tokens in enumerate(tokens) if num_tokens == max(tokens)]
    drawn = []
    for number in range(count):
        known = longest if number % 2 else list(range(len(tokens)))
        chosen = random.sample(known, random.randint(1, len(known)))
        num_askers = round(most_askers ** random.random())
        requests = tuple(
            Request(random.choice(chosen), f"{FOUR_QUESTIONS[at % 4]} ({at})", output)
            for at in range(num_askers)
        )
        drawn.append(
            Workload(
                name=f"mixture {number + 1} of {count}, {num_askers} askers, {output} out",
                tokens=tokens,
                requests=requests,
                in_flight=num_askers,
            )
        )
    return tuple(drawn)


# What `python -m bench.serving.load` runs by name, workloads of one name about the same documents;
# the small ones are for a look and for tests.
WORKLOADS: dict[str, Callable[[], tuple[Workload, ...]]] = {
    "lmcache-30": lambda: (lmcache(30, 10_000, 200, 2, 5),),
    "lmcache-46": lambda: (lmcache(46, 10_000, 100, 1, 4),),
    "four-10k": lambda: (four_questions(30, 10_000),),
    "four-128k": lambda: (four_questions(3, 128_000),),
    "pegaflow": lambda: (pegaflow(),),
    "vllm": lambda: (throughput(),),
    "one-by-one": lambda: (one_by_one(131_072),),
    "askers-4-of-1": lambda: (askers(1, 131_072, 4),),
    "askers-16-over-4": lambda: (askers(4, 65_536, 16),),
    "askers-16-of-1": lambda: (askers(1, 131_072, 16),),
    "askers-64-of-1": lambda: (askers(1, 131_072, 64),),
    "two-rounds": lambda: (two_rounds((65_536, 65_536, 65_536, 131_072)),),
    "ten-each": lambda: (ten_each(4, 65_536),),
    "mixtures": lambda: mixtures((65_536,) * 8 + (8_192,) * 8, 12),
    "zipf": lambda: (zipf(8, 65_536, 200),),
    "small": lambda: (askers(2, 1_500, 4, output=8),),
    "small-mixtures": lambda: mixtures((400, 400, 200), 2, most_askers=4, output=8),
}


def literal_text(index: int, words: int) -> str:
    """The text of LMCache's document `index`."""
    return f"{index} " + " ".join(["hi"] * words)


def book_text(book: str, spans: Sequence[tuple[int, int]], index: int, tokens: int) -> str:
    """So many tokens of a book, from another place for each document.

    Args:
        book: a text with more than `tokens` tokens; documents go around its end.
        spans: characters of each of the book's tokens.
        index: of the document.
    """
    start = index * 7919 % len(spans)  # a prime, so that documents begin at different places
    if start + tokens <= len(spans):
        return book[spans[start][0] : spans[start + tokens - 1][1]]
    rest = tokens - (len(spans) - start)
    if rest > len(spans):
        raise ValueError(f"the book has {len(spans)} tokens, too few for a document of {tokens}")
    return book[spans[start][0] :] + "\n" + book[: spans[rest - 1][1]]
