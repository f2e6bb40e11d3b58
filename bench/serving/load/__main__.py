"""Throughput and first tokens of a real server under published workloads and our own.

python -m bench.serving.load askers-16-over-4 lmcache-30 --model FOLDER --text BOOK.txt

Starts `lectern serve` with its default settings (further ones as NAME=VALUE), or takes a running
server by --url and --key. Each workload runs once for each budget in the same server: `exact` is
the baseline that reads all of each document. With `--modes free quote`
each budget's answers come in both modes. Workloads with a literal text ("hi hi hi ...") run on
it and on a book's, both of as many tokens as the workload says. A document that several workloads
are about is read once, unless one asks right after reading. The clock runs from the first request
to the last token; answers ignore the end-of-text token, so that all have the length that was asked
for.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from bench import RESULTS
from bench.faults.server import serving, weights_of
from bench.random_llama import SEED
from bench.serving.load.client import LoadClient, Outcome
from bench.serving.load.workloads import WORKLOADS, Workload, book_text, literal_text
from reader import WEIGHTS
from training.record import circumstances, drawn, percentiles, write

FEW_ASKERS = 8  # of one document: from so many on, reading all of it pays for itself
LONG_TOKENS = 64_000  # a book's text is cut by tokens, and may have one more or less
TEXTS = ("literal", "book")
WARM_TOKENS = 8  # of the answers before the clock starts
SHOWN = ("workload", "text", "budget", "mode", "tokens_per_s")


class Uploads:
    """The documents that a server has been given: each text once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, dict[str, Any]]] = {}

    async def of(self, client: LoadClient, name: str, text: str) -> tuple[str, dict[str, Any]]:
        """Return a document's id and record, as `LoadClient.upload`; it may be there already."""
        if text not in self._known:
            self._known[text] = await client.upload(name, text)
        return self._known[text]

    def forget(self) -> None:
        """Upload all anew from now on."""
        self._known.clear()


def main() -> None:
    """Run the workloads, print a line for each, write the result."""
    options = _options()
    tokenizer = Tokenizer.from_file(str((options.model or WEIGHTS) / "tokenizer.json"))
    book = options.text.read_text()
    spans = tokenizer.encode(book).offsets
    rows: list[dict[str, Any]] = []
    uploads = Uploads()
    with _server(options) as (url, key):
        for name in options.workloads:
            workloads = WORKLOADS[name]()
            for text in _texts(workloads[0], options.texts):
                documents = _documents(workloads[0], text, tokenizer, book, spans)
                asyncio.run(_measure(workloads, text, documents, url, key, options, uploads, rows))
    print(write(options.name, _result(rows, options), options.out))
    if any(row["errors"] for row in rows):
        sys.exit("some requests were not answered")


def _result(rows: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """What is written; after each run, in case that a later one does not end."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return {
        "benchmark": "load over HTTP",
        **circumstances(device, _weights(options)),
        "settings": dict(setting.split("=", 1) for setting in options.setting),
        "rows": rows,
        "of_exact": of_exact(rows),
        "least_of_exact": least_of_exact(rows),
        "quoting_of_free": quoting_of_free(rows),
        "of_one_asker": of_one_asker(rows),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workloads", nargs="+", choices=sorted(WORKLOADS))
    parser.add_argument("--model", type=Path, help="a model's folder; the bundled reader")
    parser.add_argument("--drawn", default="", help="the shape of random weights in that folder")
    parser.add_argument("--text", type=Path, required=True, help="a long plain text")
    parser.add_argument("--budgets", nargs="+", default=["balanced", "exact"])
    parser.add_argument("--texts", nargs="+", default=["literal", "book"], choices=TEXTS)
    parser.add_argument("--modes", nargs="+", default=["free"], choices=["free", "quote"])
    parser.add_argument("--url", help="of a running server")
    parser.add_argument("--key", default="", help="API key of the running server")
    parser.add_argument("--setting", nargs="*", default=[], help="LECTERN_...=VALUE of the server")
    parser.add_argument("--stop-at-eos", action="store_true", help="answers may end early")
    parser.add_argument("--name", default="load", help="of the result file")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args()


def _weights(options: argparse.Namespace) -> Any:
    """Which weights the server has; see `circumstances`."""
    if options.drawn:
        return drawn(options.drawn, SEED)
    return weights_of(str(options.model or ""))


def of_exact(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tokens a second of each run, as a multiple of those of the same workload at `exact`."""
    exact = {
        (row["workload"], row["text"]): row["tokens_per_s"]
        for row in rows
        if row["budget"] == "exact" and row["mode"] == "free"
    }
    return [
        {
            "workload": row["workload"],
            "text": row["text"],
            "budget": row["budget"],
            "most_askers_of_one": row["most_askers_of_one"],
            "shortest_tokens": row["shortest_tokens"],
            "tokens_per_s": row["tokens_per_s"] / exact[row["workload"], row["text"]],
        }
        for row in rows
        if row["budget"] != "exact"
        and row["mode"] == "free"
        and exact.get((row["workload"], row["text"]))
    ]


def least_of_exact(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The least tokens a second of any run, as a multiple of those of the same at `exact`.

    `few_askers_of_long_documents` is the least of the runs in which fewer than `FEW_ASKERS` ask the
    same document and all documents have at least `LONG_TOKENS`. What was not run is left out.
    """
    found = of_exact(rows)
    few = [
        one
        for one in found
        if one["most_askers_of_one"] < FEW_ASKERS and one["shortest_tokens"] >= LONG_TOKENS
    ]
    kinds = {"any": found, "few_askers_of_long_documents": few}
    return {kind: min(one["tokens_per_s"] for one in ones) for kind, ones in kinds.items() if ones}


def quoting_of_free(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The median time of a later token in quote mode, as a multiple of the free mode's.

    By workload; only where one budget ran in both modes.
    """
    medians = {
        (row["workload"], row["mode"]): row["ms_per_later_token"]["p50"]
        for row in rows
        if row.get("ms_per_later_token")
    }
    return {
        workload: spent_ms / medians[workload, "free"]
        for (workload, mode), spent_ms in medians.items()
        if mode == "quote" and (workload, "free") in medians
    }


def of_one_asker(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The median time of a later token of a document's askers, as a multiple of a single one's.

    Only where the workload "one by one" ran at the same budget.
    """
    free = [row for row in rows if row["mode"] == "free" and row.get("ms_per_later_token")]
    alone = {
        row["budget"]: row["ms_per_later_token"]["p50"]
        for row in free
        if row["workload"].startswith("one by one")
    }
    return [
        {
            "workload": row["workload"],
            "budget": row["budget"],
            "ms_per_later_token": row["ms_per_later_token"]["p50"] / alone[row["budget"]],
        }
        for row in free
        if row["documents"] == 1
        and row["budget"] in alone
        and not row["workload"].startswith("one by one")
    ]


@contextmanager
def _server(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The address and the key of the server that is measured."""
    if options.url:
        yield options.url, options.key
        return
    settings = dict(setting.split("=", 1) for setting in options.setting)
    with serving(str(options.model or ""), **settings) as server:
        yield server.url, server.key


def _texts(workload: Workload, chosen: Sequence[str]) -> tuple[str, ...]:
    """The kinds of text that it runs on: a book's alone unless its definition says another one."""
    return tuple(text for text in TEXTS if text in chosen) if workload.is_literal else ("book",)


def _documents(
    workload: Workload,
    text: str,
    tokenizer: Tokenizer,
    book: str,
    spans: list[tuple[int, int]],
) -> list[str]:
    """The documents' texts."""
    if text == "literal":
        word_tokens = _literal_word_tokens(tokenizer)
        return [
            literal_text(index, round(tokens / word_tokens))
            for index, tokens in enumerate(workload.tokens)
        ]
    return [book_text(book, spans, index, tokens) for index, tokens in enumerate(workload.tokens)]


def _literal_word_tokens(tokenizer: Tokenizer) -> float:
    """Tokens of a word of `literal_text`: one in most vocabularies, more in small ones."""
    few, many = (len(tokenizer.encode(literal_text(0, words)).ids) for words in (100, 1100))
    return (many - few) / 1000


async def _measure(
    workloads: tuple[Workload, ...],
    text: str,
    documents: list[str],
    url: str,
    key: str,
    options: argparse.Namespace,
    uploads: Uploads,
    rows: list[dict[str, Any]],
) -> None:
    """Upload the documents that are not there yet, then run the workloads with each budget.

    Args:
        rows: grow with each run, whereupon all are written.
    """
    ids: list[str] = []
    records: list[dict[str, Any]] = []
    for budget, mode in product(options.budgets, options.modes):
        client = LoadClient(url, key, budget, ignore_eos=not options.stop_at_eos, mode=mode)
        try:
            if not ids:
                if not workloads[0].warm_up:
                    uploads.forget()
                for index, document in enumerate(documents):
                    document_id, record = await uploads.of(client, f"{text}-{index}.txt", document)
                    ids.append(document_id)
                    records.append(record)
            if workloads[0].warm_up:
                await client.run(_warm_up(workloads), ids)
            for workload in workloads:
                row = {"workload": workload.name, "text": text, "budget": budget, "mode": mode}
                row |= _figures(workload, *await client.run(workload, ids))
                row["shortest_tokens"] = min(records[one]["num_tokens"] for one in workload.asked)
                row["reading_ms"] = [record["reading_ms"] for record in records]
                print({name: row[name] for name in SHOWN})
                rows.append(row)
                write(options.name, _result(rows, options), options.out)
        finally:
            await client.close()


def _warm_up(workloads: tuple[Workload, ...]) -> Workload:
    """Each document that is asked about once, one after the other, for a few tokens."""
    requests = [request for workload in workloads for request in workload.requests]
    firsts = {request.document: request for request in reversed(requests)}
    ordered = tuple(
        replace(one, at_s=None, max_tokens=min(one.max_tokens, WARM_TOKENS))
        for _, one in sorted(firsts.items())
    )
    return replace(workloads[0], requests=ordered, in_flight=1)


def _figures(workload: Workload, started_s: float, outcomes: list[Outcome]) -> dict[str, Any]:
    """What is reported of a run."""
    answered = [outcome for outcome in outcomes if not outcome.error]
    errors = [outcome.error for outcome in outcomes if outcome.error]
    figures: dict[str, Any] = {
        "requests": len(outcomes),
        "errors": {code: errors.count(code) for code in sorted(set(errors))},
        "tokens_per_s": 0.0,
        "documents": len(workload.asked),
        "most_askers_of_one": workload.most_askers_of_one,
    }
    if not answered:
        return figures
    duration_s = max(outcome.ended_s for outcome in answered) - started_s
    first_ms = [outcome.first_token_ms for outcome in answered]
    later = [
        (outcome.last_token_ms - outcome.first_token_ms) / (outcome.num_tokens - 1)
        for outcome in answered
        if outcome.num_tokens > 1
    ]
    return figures | {
        "tokens_per_s": sum(outcome.num_tokens for outcome in answered) / duration_s,
        "duration_s": duration_s,
        "s_per_prompt": duration_s / len(answered),
        "first_token_ms": _spread(first_ms),
        "ms_per_later_token": _spread(later) if later else None,
        "answer_ms": _spread([outcome.answer_ms for outcome in answered]),
        "server_ms": {
            part: statistics.fmean(outcome.timings_ms[part] for outcome in answered)
            for part in answered[0].timings_ms
        },
        "cache_hits": sum(outcome.cache_hit for outcome in answered) / len(answered),
        "loaded": statistics.fmean(outcome.loaded for outcome in answered),
        "first_of_tenth": first_of_tenth(outcomes),
    }


def first_of_tenth(outcomes: Sequence[Outcome]) -> dict[str, float] | None:
    """The first token of a document's first question, as a multiple of that of its tenth.

    Args:
        outcomes: in the order of the questions, which were asked one after the other.
    Returns: the median of all documents, and the most; of the latter, the first question's first
        token at the client and in the engine, in ms. None where one was asked less often.
    """
    by_document: dict[int, list[Outcome]] = {}
    for outcome in outcomes:
        by_document.setdefault(outcome.document, []).append(outcome)
    if any(len(asked) < 10 for asked in by_document.values()):
        return None
    ratios = [
        (asked[0].first_token_ms / asked[9].first_token_ms, asked[0])
        for asked in by_document.values()
    ]
    most, slowest = max(ratios, key=lambda one: one[0])
    return {
        "median": statistics.median(ratio for ratio, _ in ratios),
        "most": most,
        "most_client_ms": slowest.first_token_ms,
        "most_engine_ms": slowest.timings_ms.get("first_token", 0.0),
    }


def _spread(samples: list[float]) -> dict[str, float]:
    """Mean and percentiles of samples, the rare ones among them."""
    ordered = sorted(samples)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return {
        "mean": statistics.fmean(samples),
        **percentiles(samples),
        "p90": at(0.9),
        "p99": at(0.99),
        "max": ordered[-1],
    }


if __name__ == "__main__":
    main()
