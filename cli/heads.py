"""`lectern heads`: find head plans, import and export them, and show them."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.command_group import CommandGroup
from cli.options import not_none, read_settings
from cli.show import make_console, say
from common import plugins
from common.errors import InvalidInput

if TYPE_CHECKING:  # importing torch takes seconds, which `--help` should not need
    from engine.model.head_plan import HeadPlan
    from engine.model.loader import LoadedModel
    from precompute.heads.base import HeadMethod, Streaming

app = typer.Typer(
    name="heads",
    help="Choose which attention heads read the whole document.",
    cls=CommandGroup,
    no_args_is_help=True,
)

Model = Annotated[
    str | None,
    typer.Option(
        help="Hugging Face folder or id (LECTERN_MODEL; the bundled reader).", show_default=False
    ),
]
Out = Annotated[Path, typer.Option(help="The plan to write (JSON).", dir_okay=False)]
Ratio = Annotated[float, typer.Option(min=0, max=1, help="Retrieval heads over all KV heads.")]
Sinks = Annotated[int, typer.Option(min=0, help="First tokens that streaming heads keep.")]
Window = Annotated[int, typer.Option(min=1, help="Last tokens that streaming heads see.")]
WindowShare = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="The window as a share of the document, where that is more than --window "
        "(RazorAttention's max(4000, N/5): --window 4000 --window-share 0.2).",
    ),
]
Compensation = Annotated[
    bool, typer.Option(help="Let a mean token stand for what streaming heads drop.")
]
Seed = Annotated[int, typer.Option(help="Of every random choice.")]
Steps = Annotated[int, typer.Option(min=1, help="Training steps, one document each.")]
MinTokens = Annotated[int, typer.Option(min=1, help="Shortest training document.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Longest training document.")]
Recipe = Annotated[
    Literal["served", "paper"],
    typer.Option(
        help="Many kinds of passkeys, each asked for as when served; or the paper's pass phrases, "
        "asked for one after the other."
    ),
]
MaxWords = Annotated[
    int, typer.Option(min=1, help="Words of the longest pass phrase; 32 in the paper's recipe.")
]
Haystack = Annotated[
    str, typer.Option(help="Text file or folder to hide passkeys in; made-up text by default.")
]
State = Annotated[
    str, typer.Option(help="File to save the training to; it resumes from there if it exists.")
]
Plan = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A plan (JSON).")]
Folder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A pattern's folder.")]


@app.command()
def find(
    method: Annotated[str, typer.Argument(help="A file or folder of precompute/heads.")],
    out: Out,
    model: Model = None,
    ratio: Ratio = 0.25,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the method, name=value; again for more."),
    ] = None,
    sinks: Sinks = 64,
    window: Window = 256,
    window_share: WindowShare = 0.0,
    compensation: Compensation = True,
) -> None:
    """Choose heads by any installed method; some have commands with options of their own."""
    from precompute.heads.base import Streaming

    config = _parse_options(method, options or [])
    _find(
        method,
        config,
        _load(model),
        ratio,
        Streaming(sinks, window, compensation, window_share),
        out,
    )


@app.command()
def duo(
    out: Out,
    model: Model = None,
    ratio: Ratio = 0.25,
    steps: Steps = 2000,
    min_tokens: MinTokens = 1000,
    max_tokens: MaxTokens = 32_000,
    recipe: Recipe = "served",
    max_words: MaxWords = 4,
    haystack: Haystack = "",
    state: State = "",
    sinks: Sinks = 64,
    window: Window = 256,
    window_share: WindowShare = 0.0,
    compensation: Compensation = True,
    seed: Seed = 42,
) -> None:
    """DuoAttention: train a gate per KV head on passkey documents; the highest are kept.

    With --state it can be stopped: the same command goes on from the last 50 steps.
    """
    from precompute.heads.base import Streaming
    from precompute.heads.duo import DuoConfig

    config = DuoConfig(
        steps=steps,
        min_tokens=min_tokens,
        max_tokens=max_tokens,
        recipe=recipe,
        max_words=max_words,
        num_sinks=sinks,
        window=window,
        compensation=compensation,
        haystack=haystack,
        state=state,
        seed=seed,
    )
    _find(
        "duo",
        config,
        _load(model),
        ratio,
        Streaming(sinks, window, compensation, window_share),
        out,
    )


@app.command()
def razor(
    out: Out,
    model: Model = None,
    ratio: Ratio = 0.15,
    sinks: Sinks = 64,
    window: Window = 256,
    window_share: WindowShare = 0.0,
    compensation: Compensation = True,
    seed: Seed = 0,
) -> None:
    """RazorAttention: heads that look back at repeated random tokens; no training.

    One in fifteen is an echo head, the others are induction heads, as the paper's 1 % and 14 %.
    """
    from precompute.heads.base import Streaming
    from precompute.heads.razor import RazorConfig

    streaming = Streaming(sinks, window, compensation, window_share)
    _find("razor", RazorConfig(seed=seed), _load(model), ratio, streaming, out)


@app.command()
def zigzag(
    out: Out,
    gates: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="A plan that `heads duo` wrote.")
    ],
    model: Model = None,
    ratio: Ratio = 0.5,
    omega: Annotated[
        float, typer.Option(min=0, max=1, help="Weight of streaming heads that turn retrieval.")
    ] = 0.1,
    tuning_steps: Annotated[
        int, typer.Option(min=0, help="Steps of layer-wise fine-tuning; 0 for none.")
    ] = 0,
    haystack: Haystack = "",
    state: State = "",
) -> None:
    """ZigZagAttention: whole layers of retrieval heads, chosen by DuoAttention's gates."""
    from engine.model.head_plan import check_plan, read_plan
    from precompute.heads.base import Measure, Streaming
    from precompute.heads.duo import DuoConfig
    from precompute.heads.zigzag import ZigzagConfig

    loaded, source = _load(model), read_plan(gates)
    check_plan(source, loaded.spec, loaded.weights)
    if not source.scores:
        raise InvalidInput(f"'{gates}' has no gates: give a plan that `lectern heads duo` wrote.")
    trained = {field.name for field in fields(DuoConfig)} & source.settings.keys()
    duo = DuoConfig(**{name: source.settings[name] for name in trained})
    duo = replace(duo, haystack=haystack, state=state)
    config = ZigzagConfig(
        gates=Measure(source.scores, source.settings),
        omega=omega,
        tuning_steps=tuning_steps,
        tuning_ratio=ratio,
        duo=duo,
    )
    streaming = Streaming(source.num_sinks, source.window, source.compensation, source.window_share)
    _find("zigzag", config, loaded, ratio, streaming, out)


@app.command("import")
def import_pattern(
    folder: Folder,
    out: Out,
    model: Model = None,
    ratio: Ratio = 0.25,
    sinks: Annotated[int | None, typer.Option(min=0, help="Instead of the pattern's.")] = None,
    window: Annotated[int | None, typer.Option(min=1, help="Instead of the pattern's.")] = None,
    window_share: WindowShare = 0.0,
    compensation: Compensation = True,
) -> None:
    """Make a plan of DuoAttention's pattern files (full_attention_heads.tsv, config.json)."""
    from precompute.heads.base import Streaming
    from precompute.heads.file import FileConfig, read_pattern

    pattern = read_pattern(folder)
    streaming = Streaming(
        pattern.num_sinks if sinks is None else sinks,
        pattern.window if window is None else window,
        compensation,
        window_share,
    )
    _find("file", FileConfig(folder), _load(model), ratio, streaming, out)


@app.command()
def export(
    plan: Plan,
    out: Annotated[Path, typer.Option(help="Folder to write.", file_okay=False)],
) -> None:
    """Write a plan as DuoAttention's pattern files."""
    from engine.model.head_plan import read_plan
    from precompute.heads.file import write_pattern

    write_pattern(read_plan(plan), out)


@app.command()
def show(
    plan: Plan,
    png: Annotated[
        Path | None, typer.Option(help="Also draw it here (needs matplotlib).", dir_okay=False)
    ] = None,
) -> None:
    """Show a plan's scores, layer by head; stars are retrieval heads."""
    from engine.model.head_plan import read_plan

    _show(make_console(), read_plan(plan))
    if png is not None:
        from cli.heatmap import draw_png

        draw_png(read_plan(plan), png)


def _load(model: str | None) -> "LoadedModel":
    from cli.serve import open_engine
    from engine.model.head_plan import ALL

    return open_engine(read_settings(**not_none(model=model), heads=ALL)).model


def _parse_options(method: str, options: Sequence[str]) -> Any:
    """Parse "name=value" options into the settings of a method.

    Raises: InvalidInput for an unknown method, name or value.
    """
    from pydantic import TypeAdapter, ValidationError

    from precompute import heads

    config = plugins.load(heads, method).CONFIG
    pairs = [option.partition("=") for option in options]
    known = {field.name for field in fields(config)}
    for name, sign, _ in pairs:
        if not sign or name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise InvalidInput(f"'{name}' is no setting of '{method}'; it has: {listed}.")
    try:
        return TypeAdapter(config).validate_python({name: value for name, _, value in pairs})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"The setting {name} of '{method}' is wrong: {first['msg']}.") from error


def _find(
    name: str, config: Any, model: "LoadedModel", ratio: float, streaming: "Streaming", out: Path
) -> None:
    """Measure heads with a progress bar, write the plan and show it.

    Args:
        name: the name of a method in `precompute/heads`.
        config: the method's settings.
        ratio: share of the KV heads that become retrieval heads.
        out: path of the plan that is written.
    """
    from engine.model.head_plan import write_plan
    from precompute import heads
    from precompute.heads.base import make_plan

    method: HeadMethod = plugins.build(heads, name, config)
    console = make_console()
    with Progress(
        TextColumn(name),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as bars:
        task = bars.add_task(name, total=None)

        def progress(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total)

        measure = method.measure(model, progress)
        plan = make_plan(name, method, measure, ratio, model=model, streaming=streaming)
    write_plan(plan, out)
    _show(console, plan)


def _show(console: Console, plan: "HeadPlan") -> None:
    from cli.heatmap import heat_rows, title

    say(console, title(plan))
    for row in heat_rows(plan):
        console.print(row, soft_wrap=True)
