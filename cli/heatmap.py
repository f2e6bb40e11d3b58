"""Show a head plan as a heat map of layers and heads, in a terminal or as a picture."""

from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from common.errors import InvalidInput
from common.format import format_share
from engine.model.head_plan import HeadPlan

LEVELS = 10
COLD, HOT = (28, 36, 56), (255, 176, 64)  # colours of the lowest and the highest score


def heat_rows(plan: HeadPlan) -> Iterator[Text]:
    """Yield a line for each layer, with two characters for each head.

    The digit from 0 to 9 is the score relative to the highest one; a star follows the digit of a
    retrieval head, so that the lines can be read without colours.
    """
    scores = shown_scores(plan)
    highest = max(max(layer) for layer in scores) or 1.0
    for layer, (row, heads) in enumerate(zip(scores, plan.retrieval, strict=True)):
        line = Text(f"{layer:3d}  ")
        for score, is_retrieval in zip(row, heads, strict=True):
            share = max(0.0, score / highest)
            digit = min(LEVELS - 1, int(share * LEVELS))
            line.append(f"{digit}{'*' if is_retrieval else ' '}", style=_style(share))
        yield line


def draw_png(plan: HeadPlan, file: Path) -> None:
    """Draw the scores as a PNG file at the path `file`, with frames around retrieval heads.

    Raises: InvalidInput if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError as error:
        raise InvalidInput(
            "Drawing needs matplotlib, which the 'dev' extra installs: pip install 'lectern[dev]'."
        ) from error
    scores = shown_scores(plan)
    num_layers, num_heads = len(scores), max(map(len, scores))
    figure = Figure(figsize=(2.5 + 0.25 * num_heads, 1.5 + 0.2 * num_layers), layout="constrained")
    axes = figure.subplots()
    rows = [[*layer, *[float("nan")] * (num_heads - len(layer))] for layer in scores]
    picture = axes.imshow(rows, aspect="auto", cmap="viridis", vmin=0.0)
    for layer, heads in enumerate(plan.retrieval):
        for head, is_retrieval in enumerate(heads):
            if is_retrieval:
                corner = (head - 0.5, layer - 0.5)
                axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="red", linewidth=1.5))
    axes.set(xlabel="KV head", ylabel="layer", title=title(plan))
    figure.colorbar(picture, ax=axes, label="score")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)


def title(plan: HeadPlan) -> str:
    """Return a line that sums the plan up."""
    total = sum(map(len, plan.retrieval))
    chosen = sum(map(sum, plan.retrieval))
    share = f", or {format_share(plan.window_share)} of a document" if plan.window_share else ""
    return (
        f"{plan.method}: {chosen} of {total} KV heads are retrieval heads; the others keep "
        f"{plan.num_sinks} sinks and {plan.window} tokens{share}"
    )


def shown_scores(plan: HeadPlan) -> tuple[tuple[float, ...], ...]:
    """Return the scores, or 1 and 0 for the chosen heads if the plan has no scores."""
    return plan.scores or tuple(tuple(map(float, layer)) for layer in plan.retrieval)


def _style(share: float) -> str:
    red, green, blue = (
        round(cold + min(1.0, share) * (hot - cold)) for cold, hot in zip(COLD, HOT, strict=True)
    )
    return f"{'black' if share > 0.5 else 'white'} on rgb({red},{green},{blue})"
