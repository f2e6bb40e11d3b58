"""Workloads: which documents there are, and who asks what about them when.

Those of others keep their definitions: LMCache's `long_doc_qa.py` and its `bench engine --workload
long-doc-qa`, PegaFlow's warm run, vLLM's `benchmark_long_document_qa_throughput.py`. Where a
definition has no question, the document ends and the question is `CONTINUE`.
"""

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
        words: of each document: how many "hi" its literal text has; 0 where the text is a book's.
        tokens: of each document of a book's text; 0 where it is to be as long as the literal text.
        in_flight: how many requests may run at once; None if all have a time.
        warm_up: whether each document is asked once before the clock starts.
    """

    name: str
    words: tuple[int, ...]
    tokens: tuple[int, ...]
    requests: tuple[Request, ...]
    in_flight: int | None
    warm_up: bool = True

    @property
    def num_documents(self) -> int:
        """Documents that it uploads."""
        return len(self.words)


def lmcache(documents: int, words: int, output: int, repeat: int, in_flight: int) -> Workload:
    """LMCache's long-document question answering in `tile` order: 1 2 3 ... 1 2 3 ..."""
    order = list(range(documents)) * repeat
    return Workload(
        name=f"lmcache {documents} x {words}, {output} out, repeat {repeat}, {in_flight} in flight",
        words=(words,) * documents,
        tokens=(0,) * documents,
        requests=tuple(Request(document, CONTINUE, output) for document in order),
        in_flight=in_flight,
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
        words=(0,) * documents,
        tokens=(tokens,) * documents,
        requests=tuple(requests),
        in_flight=3,
    )


def pegaflow(documents: int = 8, words: int = 10_000, rate: float = 4.0) -> Workload:
    """PegaFlow's: one token of output, so many requests a second, each document once."""
    return Workload(
        name=f"pegaflow {documents} x {words}, 1 out, {rate:g} a second",
        words=(words,) * documents,
        tokens=(0,) * documents,
        requests=tuple(
            Request(document, CONTINUE, 1, at_s=document / rate) for document in range(documents)
        ),
        in_flight=None,
    )


def throughput(documents: int = 8, words: int = 20_000) -> Workload:
    """vLLM's: ten tokens of output, each document twice, all at once."""
    order = list(range(documents)) * 2
    return Workload(
        name=f"vllm {documents} x {words}, 10 out, repeat 2",
        words=(words,) * documents,
        tokens=(0,) * documents,
        requests=tuple(Request(document, CONTINUE, 10) for document in order),
        in_flight=len(order),
    )


def askers(documents: int, tokens: int, num_askers: int, output: int = 128) -> Workload:
    """So many callers at once, spread evenly over the documents, a question of its own each."""
    requests = tuple(
        Request(index % documents, f"{FOUR_QUESTIONS[index % 4]} ({index})", output)
        for index in range(num_askers)
    )
    return Workload(
        name=f"{num_askers} askers, {documents} x {tokens}, {output} out",
        words=(0,) * documents,
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
        words=(0,) * documents,
        tokens=(tokens,) * documents,
        requests=tuple(
            Request(document, FOUR_QUESTIONS[index % 4], output)
            for index, document in enumerate(order)
        ),
        in_flight=in_flight,
        warm_up=False,
    )


# What `python -m bench.serving.load` runs by name; the small one is for a look and for tests.
WORKLOADS: dict[str, Callable[[], Workload]] = {
    "lmcache-30": lambda: lmcache(30, 10_000, 200, 2, 5),
    "lmcache-46": lambda: lmcache(46, 10_000, 100, 1, 4),
    "four-10k": lambda: four_questions(30, 10_000),
    "four-128k": lambda: four_questions(3, 128_000),
    "pegaflow": pegaflow,
    "vllm": throughput,
    "one-by-one": lambda: one_by_one(131_072),
    "askers-4-of-1": lambda: askers(1, 131_072, 4),
    "askers-16-over-4": lambda: askers(4, 65_536, 16),
    "askers-16-of-1": lambda: askers(1, 131_072, 16),
    "askers-64-of-1": lambda: askers(1, 131_072, 64),
    "zipf": lambda: zipf(8, 65_536, 200),
    "small": lambda: askers(2, 400, 4, output=8),
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
