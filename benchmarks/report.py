"""What a command shows: a markdown table and a figure, printed, and written into a page between its marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

OURS, PAPER, OTHER, MORE = "#1f4e79", "#b03a2e", "#7f7f7f", "#2e8b57"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return "\n".join(map(row, [head, ["---"] * len(head), *rows]))


def row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def number(value: float) -> str:
    """Three digits that count, without an exponent up to six of them."""
    if value >= 1e6:
        return f"{value:.2e}".replace("e+0", "e")
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def axes(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    import matplotlib as mpl  # noqa: PLC0415  an optional extra

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update(
        {
            "svg.hashsalt": "mwem",
            "svg.fonttype": "none",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    return plt.subplots(rows, columns, figsize=(width, height), constrained_layout=True, squeeze=False)


def write(name: str, text: str, figure: Any, page: Path | None) -> None:
    """Print a section; with a page, put it between `<!-- name -->` and `<!-- /name -->`, the figure beside it."""
    print(text)
    if page is None:
        return
    if figure is not None:
        for kind in ("svg", "png"):
            figure.savefig(
                page.parent / f"experiments-{name}.{kind}", dpi=110, metadata={"Date": None} if kind == "svg" else None
            )
        text = f"![{name}](experiments-{name}.svg)\n\n{text}"
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, _, rest = page.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{page} has no section {begin} ... {end}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")
