"""Find a head plan without the command line's packages, as on a machine that only computes.

    python -m bench.accuracy.find_head_plan duo --steps 300 --max-tokens 8192 --ratio 0.25 \
        --device cuda --out plan.json
    python -m bench.accuracy.find_head_plan razor --ratio 0.25 --out plan.json
    python -m bench.accuracy.find_head_plan zigzag --gates plan.json --ratio 0.5 --out zigzag.json
"""

import argparse
import time
from pathlib import Path
from typing import get_args

from engine.model import load_model
from engine.plan import ALL, HeadPlan
from engine.plan_file import check_plan, read_plan, write_plan
from precompute.heads.base import HeadMethod, Measure, Streaming, make_plan
from precompute.heads.duo import Duo, DuoConfig, Recipe
from precompute.heads.razor import Razor, RazorConfig
from precompute.heads.zigzag import Zigzag, ZigzagConfig
from reader import WEIGHTS


def main() -> None:
    """Measure, print and write the plan."""
    options = parse()
    model = load_model(options.model, device=options.device, dtype=options.dtype, heads=ALL)
    if options.gates is not None:
        check_plan(read_plan(options.gates), model.spec, model.weights)
    method, start = build(options), time.perf_counter()
    measure = method.measure(model, report)
    plan = make_plan(
        options.method,
        method,
        measure,
        options.ratio,
        model=model,
        streaming=Streaming(options.sinks, options.window),
    )
    write_plan(plan, options.out)
    print(f"\n{options.out}: {time.perf_counter() - start:.1f} s on {model.device}")
    print("\n".join(rows(plan)))


def build(options: argparse.Namespace) -> HeadMethod:
    """The method that was asked for."""
    duo = DuoConfig(
        steps=options.steps,
        min_tokens=options.min_tokens,
        max_tokens=options.max_tokens,
        max_words=options.max_words,
        recipe=options.recipe,
        learning_rate=options.learning_rate,
        regularisation=options.regularisation,
        num_sinks=options.sinks,
        window=options.window,
        haystack=options.haystack,
        state=options.state,
        seed=options.seed,
    )
    if options.method == "razor":
        return Razor(RazorConfig(num_ids=options.ids, seed=options.seed))
    if options.method == "duo":
        return Duo(duo)
    plan = None if options.gates is None else read_plan(options.gates)
    gates = None if plan is None else Measure(plan.scores, plan.settings)
    config = ZigzagConfig(gates, options.omega, options.tuning_steps, options.ratio, duo)
    return Zigzag(config)


def rows(plan: HeadPlan) -> list[str]:
    """A line a layer; stars are retrieval heads."""
    return [
        f"{layer:3d}  "
        + " ".join(f"{s:.3f}{'*' if h else ' '}" for s, h in zip(*pair, strict=True))
        for layer, pair in enumerate(zip(plan.scores, plan.retrieval, strict=True))
    ]


def report(done: int, total: int) -> None:
    """A line that overwrites itself."""
    print(f"\r{done} of {total}", end="", flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("method", choices=("duo", "razor", "zigzag"))
    parser.add_argument("--model", default=str(WEIGHTS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ratio", type=float, default=0.25)
    parser.add_argument("--sinks", type=int, default=64)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--seed", type=int, default=42)
    duo = parser.add_argument_group("duo and zigzag")
    duo.add_argument("--steps", type=int, default=DuoConfig.steps)
    duo.add_argument("--min-tokens", type=int, default=DuoConfig.min_tokens)
    duo.add_argument("--max-tokens", type=int, default=DuoConfig.max_tokens)
    duo.add_argument("--max-words", type=int, default=DuoConfig.max_words)
    duo.add_argument("--recipe", choices=get_args(Recipe), default=DuoConfig.recipe)
    duo.add_argument("--learning-rate", type=float, default=DuoConfig.learning_rate)
    duo.add_argument("--regularisation", type=float, default=DuoConfig.regularisation)
    duo.add_argument("--haystack", default="")
    duo.add_argument("--state", default="")
    zigzag = parser.add_argument_group("zigzag")
    zigzag.add_argument("--gates", type=Path, help="a plan that duo wrote")
    zigzag.add_argument("--omega", type=float, default=ZigzagConfig.omega)
    zigzag.add_argument("--tuning-steps", type=int, default=0)
    razor = parser.add_argument_group("razor")
    razor.add_argument("--ids", type=int, default=RazorConfig.num_ids)
    return parser.parse_args()


if __name__ == "__main__":
    main()
