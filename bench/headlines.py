"""README's first figures, written from the results: none of them is typed in by hand.

    python -m bench.headlines

Figures of the bundled reader come only from results of the weights that ship, under the settings
that are the defaults; what has no such result says so. Every re-reading is under the head plan that
is served, and beside it stand full attention over the same resident document and a warm
transformers prefix cache.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

from bench.bars import is_stale, read_result, shipped_weights, weights_told
from common.format import format_duration
from training.comparison import Answers, Place, answers_of, paired_difference
from training.eval_tasks import ARTICLE, EXCERPTS, HELD_OUT_NAME, OWN_LENGTH

README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- written by python -m bench.headlines -->", "<!-- end of the figures -->"
WHY, END_OF_WHY = "<!-- why: written by python -m bench.headlines -->", "<!-- end of why -->"
SERVED, FULL, FIRST = "reader.json", "reader_full_attention.json", "first_token_cpu.json"
FIRST_LONG = "first_token_cpu_128k.json"
LOAD = "load_cuda.json"
CAPTURED = "prefill_graph.json"
PREFIX = "decode_llama3_8b_128k.json"  # has transformers' prefix cache on that GPU
DECODE, LAYER, QUESTION = "decode_llama3_8b.json", "kernels_decode.json", "kernels_prefill.json"
READING = "precompute.json"
PLANTED: tuple[Place, ...] = tuple(
    (task, 16_384) for task in ("single", "same attribute", "same entity")
)
NATURAL: tuple[Place, ...] = ((f"{EXCERPTS}, {HELD_OUT_NAME}", 16_384),)
ARTICLES: tuple[Place, ...] = ((ARTICLE, OWN_LENGTH),)
LENGTHS = (16, 64, 1024, 4096)  # of a question, in tokens
KEY_BYTES = 2 * 8 * 128 * 2  # a token's keys and values in a layer: 8 heads of 128, bf16
UNMEASURED = "to be measured with these weights: `python -m training.evaluate`"
_WIDTH = 100
Result = dict[str, Any]


def main() -> None:
    """Rewrite README's first figures and its table."""
    text = README.read_text()
    for start, end, written in ((WHY, END_OF_WHY, why()), (START, END, headlines())):
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = before + written + after
    README.write_text(text)


def why() -> str:
    """What the first screen says: a first token here, and by every other way to get it."""
    balanced, exact = (row["first_token_ms"]["p50"] for row in _load("one by one")[0])
    gpu = (balanced, exact, _prefix_ms(), _reread_ms())
    rows: list[tuple[str, *tuple[float, ...]]] = [
        ("128K tokens, an 8B model's shape, one H200, over HTTP", *gpu)
    ]
    of_cpu = {"128K": _times_of_reader(FIRST_LONG), "16K": _times_of_reader(FIRST)}
    rows += [
        (f"{length} tokens, the bundled reader, one CPU core", *times)
        for length, times in of_cpu.items()
        if times
    ]
    told_first = (
        f"With a model of 8B parameters on one H200, the hundredth question to a contract of 128K "
        f"tokens has its first token after **{balanced:.0f} ms**, instead of "
        f"{format_duration(_reread_ms())} of reading the contract again{_beside(of_cpu['128K'])}:"
    )
    table = [
        "| Until the first token of an answer about | Lectern | full attention, document resident "
        "| warm prefix cache of transformers | reading it again |",
        "|-|-|-|-|-|",
        *(f"| {' | '.join([what, *map(format_duration, times)])} |" for what, *times in rows),
    ]
    note = (
        "Medians, from [bench/results](bench/results), `balanced`; on the H200 at a client of the "
        "server with its default settings, random weights and a book's text, all heads retrieval "
        "heads, full attention being `exact` and the prefix cache asked without a server; on the "
        "CPU in processor time. [What that costs in accuracy](#what-it-gains-measured) is measured "
        "as well."
    )
    return "\n".join(
        [WHY, fill(told_first, _WIDTH), "", *table, "", fill(note, _WIDTH), END_OF_WHY]
    )


def _reread_ms() -> float:
    """Milliseconds of reading 128K tokens again on the GPU, with all heads."""
    return float(_result(PREFIX)["plans"]["all"]["reread_ms"])


def _prefix_ms() -> float:
    """Milliseconds of a first token from transformers' prefix cache of 128K tokens on the GPU."""
    baselines = _result(PREFIX)["plans"]["all"]["128K"]["first_token_baselines"]
    return float(baselines["warm_prefix_ms"]["p50"])


def _times_of_reader(name: str) -> list[float]:
    """Milliseconds of a question here and of each other way, as the table's columns are.

    Returns: nothing where that was not measured.
    """
    if (result := of_reader(name)) is None:
        return []
    ways = ("lectern_balanced", "full_attention_resident", "transformers_warm_prefix")
    first = [result["first_token_ms"][way]["p50"] for way in ways]
    return [*first, result["reread_ms"]["served_plan"]["p50"]]


def _beside(times: Sequence[float]) -> str:
    """What the bundled reader takes over as long a text, where that was measured."""
    if not times:
        return ""
    ours, resident, prefix, reread = map(format_duration, times)
    return (
        f"; with the bundled reader on one CPU core, a question to as long a text after "
        f"**{ours}**, instead of {reread} of reading it again ({resident} with full attention over "
        f"the same resident text, {prefix} with a warm prefix cache)"
    )


def headlines() -> str:
    """The table and what it says of itself, between the marks."""
    rows = [f"| {what} | {figure} |" for what, figure in _rows()]
    told = (
        "Brackets hold 95 % intervals, which take questions as independent; of times the 20th to "
        "80th percentile. The bundled reader's figures are of its weights "
        f"`{shipped_weights()}` with its own head plan and `balanced`, answering in free words (by "
        "default it quotes), those of the 8B shape of random weights and drawn documents. "
        "Reading again means prefill under the head plan that is served."
    )
    return "\n".join([START, fill(told, _WIDTH), "", "| | |", "|-|-|", *rows, END])


def _rows() -> Iterator[tuple[str, str]]:
    yield (
        "**The bundled reader, a demonstration**, in documents of 16K tokens that it was never "
        "trained on",
        f"facts planted in books, worded as in training: {accuracy(PLANTED, _right)}. "
        f"**Natural prose**, excerpts asked in other words than theirs: "
        f"{accuracy(NATURAL, _right)}. SQuAD's articles, F1 of words: {accuracy(ARTICLES, _f1)}",
    )
    yield ("First token over a resident document of 16K tokens, one CPU core", first_token_on_cpu())
    yield (
        "At the client, over HTTP with default settings: an 8B model's shape on one H200, a book "
        "of 128K tokens, all heads",
        at_the_client(),
    )
    yield (
        "The engine alone there, over a drawn document of 128K tokens, all heads at 90 % sparsity: "
        "first token of a question of 62 tokens",
        first_token_on_gpu(),
    )
    yield ("Time per output token of that engine", token_times())
    yield (
        "Attention of one such layer over 512K tokens at 90 % sparsity, lookup included, against "
        "the better of cuDNN and FlashAttention-2 in bf16",
        layer_speedups(),
    )
    yield ("Reading a document of 128K tokens there, all heads", reading_time())


def of_reader(name: str) -> Result | None:
    """A result of the weights that ship, or nothing where there is none."""
    result = read_result(name)
    if result is None or is_stale(weights_told(result.get("about", result)["weights"])):
        return None
    return result


# -- accuracy --------------------------------------------------------------------------------------


def accuracy(places: Sequence[Place], told: Callable[[Answers], str]) -> str:
    """A figure as served, with full attention's and the paired difference where they are there."""
    served, full = (_answers(name, places) for name in (SERVED, FULL))
    if served is None:
        return UNMEASURED
    loaded = sum(served.loaded) / len(served.loaded)
    text = f"{told(served)} of {len(served.right)} questions, reading {loaded:.1%} of the cache"
    if full is None:
        return f"{text}; full attention: not measured"
    text += f"; full attention over everything {told(full)}"
    if difference := paired_difference(served, full):
        is_right = told is _right
        value = difference.right if is_right else difference.f1
        interval = difference.right_interval if is_right else difference.f1_interval
        text += f"; difference {value:+.3f} [{interval[0]:+.3f}, {interval[1]:+.3f}], paired"
    return text


def _answers(name: str, places: Sequence[Place]) -> Answers | None:
    result = of_reader(name)
    return answers_of(result, places) if result else None


def _right(answers: Answers) -> str:
    return f"{answers.share:.3f} right {_interval(answers.interval)}"


def _f1(answers: Answers) -> str:
    return f"{sum(answers.f1) / len(answers.f1):.3f} {_interval(answers.f1_interval)}"


def _interval(bounds: tuple[float, float]) -> str:
    return f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"


# -- times -----------------------------------------------------------------------------------------


def first_token_on_cpu() -> str:
    """How many times sooner than re-reading under the served plan, and than the two others."""
    result = of_reader(FIRST)
    if result is None or "ratios" not in result:
        return "to be measured: `python -m bench.serving.first_token`"
    ratios = result["ratios"]
    return against(
        _times(ratios["reread"]),
        _times(ratios["full_attention_resident"]),
        _times(ratios["transformers_warm_prefix"]),
    )


def first_token_on_gpu() -> str:
    """Milliseconds in the engine, and how much sooner that is than every other way."""
    ours, exact = (_result(CAPTURED)["rows"][row]["captured_ms"] for row in (2, 3))
    others = (_reread_ms(), exact["p50"], _prefix_ms())
    times = (other / ours["p50"] for other in others)
    reread, resident, prefix = (f"{one:,.{0 if one >= 100 else 1}f} times" for one in times)
    return f"{_span(ours, 'ms')}: {against(reread, resident, prefix)}"


def against(reread: str, resident: str, prefix: str) -> str:
    """The one sentence in which a first token is compared.

    Args:
        reread, resident, prefix: how many times sooner.
    """
    ways = (
        (reread, "reading it again"),
        (resident, "full attention over the same resident document"),
        (prefix, "a warm transformers prefix cache"),
    )
    return ", ".join(f"{times} sooner than {what}" for times, what in ways)


def at_the_client() -> str:
    """First tokens and tokens a second of `balanced` and of `exact`, alone and in crowds."""
    [(alone, alone_exact)] = _load("one by one")
    crowds = []
    for row, exact in _load(*(f"{askers} askers" for askers in (4, 16, 64))):
        asked = "it" if row["documents"] == 1 else f"{row['documents']} books of 64K"
        crowds.append(
            f"{row['tokens_per_s']:,.0f} ({exact['tokens_per_s']:,.0f}) for {row['requests']} "
            f"askers of {asked}"
        )
    return (
        f"first token of a short question {_span(alone['first_token_ms'], 'ms')}, a later one "
        f"{alone['ms_per_later_token']['p50']:.1f} ms; `exact`, which is full attention over the "
        f"same resident book, {_span(alone_exact['first_token_ms'], 'ms')} and "
        f"{alone_exact['ms_per_later_token']['p50']:.1f} ms. Tokens a second: "
        f"{alone['tokens_per_s']:.0f} (`exact` {alone_exact['tokens_per_s']:.0f}) one question "
        f"after the other, {', '.join(crowds)}"
    )


def _load(*kinds: str) -> list[tuple[Result, Result]]:
    """Runs of workloads whose names begin so, one kind after the other: `balanced`, `exact`."""
    rows = _result(LOAD)["rows"]
    return [
        (balanced, exact)
        for kind in kinds
        for balanced, exact in pairwise(rows)
        if balanced["workload"].startswith(kind) and balanced["budget"] == "balanced"
        and exact["workload"] == balanced["workload"]
    ]  # fmt: skip


def token_times() -> str:
    """A token's time with the default settings, and full attention's beside it."""
    plans, contexts = _result(DECODE)["plans"], ("4K", "128K", "512K")
    ours = [f"{plans['half'][one]['token_ms']['p50']:.1f}" for one in contexts]
    full = [f"{plans['all'][one]['full_attention_ms']['p50']:.1f}" for one in contexts]
    return (
        f"{ours[0]} ms over 4K tokens, {ours[1]} over 128K, {ours[2]} over 512K; full attention "
        f"{full[0]}, {full[1]} and {full[2]}; both with compiled layers"
    )


def layer_speedups() -> str:
    """How many times faster a step is, for a token and for longer questions."""
    step, cases = _result(LAYER), _result(QUESTION)
    found = [cases["microseconds"][f"512K x {length}"] for length in LENGTHS]
    times = [f"{case['90']['speedup']['best']:.1f}" for case in found]
    floor_us = KEY_BYTES * 524_288 / cases["machine"]["copy_bytes_per_s"] * 1e6
    library_us = min(time["p50"] for time in found[1]["full"].values())
    return (
        f"{step['summary']['speedup_512k_90']:.1f} times faster a token; {', '.join(times[:-1])} "
        f"and {times[-1]} times for questions of 16, 64, 1,024 and 4,096 tokens (at 64 the "
        f"library takes {library_us / floor_us:.1f} times what reading the keys and values does)"
    )


def reading_time() -> str:
    """Seconds from tokens to the packed cache."""
    total = _result(READING)["plans"]["all"]["seconds"]["total"]
    once = ", measured once" if total["n"] == 1 else ""
    return f"{total['p50']:.0f} s from tokens to the packed cache{once}"


def _result(name: str) -> Result:
    """A committed result of drawn weights."""
    result = read_result(name)
    if result is None:
        raise FileNotFoundError(name)
    return result


def _times(ratio: dict[str, float]) -> str:
    """A ratio with its spread."""
    digits = 0 if ratio["p50"] >= 20 else 1
    low, middle, high = (f"{ratio[key]:.{digits}f}" for key in ("p20", "p50", "p80"))
    return f"{middle} times [{low} to {high}]"


def _span(time: dict[str, float], unit: str) -> str:
    return f"{time['p50']:.0f} {unit} [{time['p20']:.0f} to {time['p80']:.0f}]"


if __name__ == "__main__":
    main()
