"""Tables in Markdown and plots from the records that scaling.py leaves: a JSON object per run of a case."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Records = list[Record]

CLOCKS = ("wall", "processor")
BLUE, ORANGE, GREY = COLOURS = ("#1f4e79", "#c55a11", "#7f7f7f")


def read(path: Path, clock: str) -> Records:
    """Of the two times of everything, the one asked for."""
    which = CLOCKS.index(clock)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record.update({name: record[name][which] for name in ("seconds", "process", "product") if name in record})
        record["rounds_each"] = [both[which] for both in record.get("rounds_each", [])]
    return records


def by_case(records: Records, *names: str) -> dict[Any, Records]:
    """Runs of the same case together, in the order of the first of them."""
    groups: dict[Any, Records] = {}
    for record in records:
        groups.setdefault(tuple(record.get(name) for name in names), []).append(record)
    return groups


def spread(values: Iterable[float], digits: int = 2) -> str:
    """Smallest, median and largest; one figure of a single run."""
    found = sorted(values)
    shown = [found[0], statistics.median(found), found[-1]] if len(found) > 1 else found
    return ", ".join(f"{value:,.{digits}f}" for value in shown)


def most(runs: Records, name: str) -> str:
    return f"{max(run[name] for run in runs):,}"


def markdown(rows: list[dict[str, object]]) -> str:
    """A row's keys are the columns."""
    lines = [rows[0].keys(), ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def binary(records: Records) -> str:
    """`exponent`: by which power of the queries a round has grown since the row before."""
    rows: list[dict[str, object]] = []
    before = None
    for (attributes, queries), runs in by_case(records, "attributes", "queries").items():
        each = statistics.median(map(per_round, runs))
        exponent = f"{math.log(each / before[0]) / math.log(queries / before[1]):.2f}" if before else ""
        before = each, queries
        rows.append({
            "d": attributes, "queries": f"{queries:,}", "CALL, s": spread(run["seconds"] for run in runs),
            "over `X.T @ X`": spread((run["seconds"] / run["product"] for run in runs), 0),
            "its rounds, s": spread(sum(run["rounds_each"]) for run in runs), "a round, ms": spread(map(per_round,
            runs), 1),
            "rounds per s": f"{1000 / each:.0f}", "exponent": exponent, "cells": most(runs, "cells"),
            "memory, MB": most(runs, "peak"),
        })  # fmt: skip
    return markdown(rows)


def per_round(record: Record) -> float:
    """Milliseconds."""
    return 1000 * statistics.mean(record["rounds_each"])


def bits(records: Records) -> str:
    """The error is that of the cuboids without noise attributes, after the last round, unless it says otherwise."""
    kept = shown_rounds(records)
    groups = by_case(records, "bits", "rounds")
    plain = next(iter(groups.values()))
    rows: list[dict[str, object]] = []
    for (width, rounds), runs in groups.items():
        maximum, average = ([run["seen"][-1]["adult"][which] for run in runs] for which in (0, 1))
        ratios = [error / other["seen"][-1]["adult"][0] for error, other in zip(maximum, plain, strict=True)]
        rows.append({
            "bits": width, "cuboids": f"{runs[0]['queries']:,}", "rounds": rounds,
            f"slowest of {kept} rounds, s": spread(max(run["rounds_each"][:kept]) for run in runs),
            "all rounds, s": spread(sum(run["rounds_each"]) for run in runs), "maximum error": spread(maximum, 1),
            "over that of the first row": spread(ratios), "average error": spread(average, 1),
            "maximum of all cuboids": spread((run["seen"][-1]["all"][0] for run in runs), 1),
            "cells": most(runs, "cells"), "memory, MB": most(runs, "peak"),
        })  # fmt: skip
    steps: list[dict[str, object]] = []
    for step in [step for step in (1, 10, 20, 30, 40, 50, 60) if step <= kept]:
        steps.append({"round": step})
        for (width, rounds), runs in groups.items():
            figures = (statistics.median(points[step - 1] for points in curve) for curve in curves(runs, kept))
            names = (f"{width} bits, {rounds} rounds: {what}" for what in ("s", "maximum", "average"))
            steps[-1].update({name: f"{figure:,.1f}" for name, figure in zip(names, figures, strict=True)})
    return markdown(rows) + "\n\n" + markdown(steps)


def shown_rounds(records: Records) -> int:
    """As many as the shortest case has. Of longer ones the last so many are shown, as in the paper."""
    return min(record["rounds"] for record in records)


def curves(runs: Records, kept: int) -> list[list[list[float]]]:
    """For each run, after each round: seconds so far, maximum and average error."""
    return [
        [list(accumulate(run["rounds_each"][-kept:])) for run in runs],
        *([[seen["adult"][which] for seen in run["seen"][-kept:]] for run in runs] for which in (0, 1)),
    ]


def adult(records: Records) -> str:
    """MST, which takes no workload, is in the table once for each."""
    peers = [record for record in records if record["work"] == "mst"]
    rows: list[dict[str, object]] = []
    for (work, ways, rounds, delta), runs in by_case(records, "work", "ways", "rounds", "delta").items():
        for size in [ways] if ways else (2, 3):
            rows.append({
                "marginals": f"{size}-way", "": "MST" if work == "mst" else f"{rounds} rounds",
                "guarantee": "(1, 1e-9)" if delta or work == "mst" else "(1, 0)",
                "s": spread(run["seconds"] for run in runs),
                "MST's time over it": spread((peer["seconds"] / run["seconds"] for peer in peers for run in runs),
                1) if peers else "",
            })  # fmt: skip
            for kind in ("rows", "weights"):
                for which, name in enumerate((f"L1 of {kind}: mean", f"{kind}: maximum")):
                    rows[-1][name] = spread((run[f"{kind} {size}"][which] for run in runs), 3)
            rows[-1]["memory, MB"] = most(runs, "peak")
    return markdown(sorted(rows, key=lambda row: str(row["marginals"])))


def adult8(records: Records) -> str:
    times = {
        "CALL, s": spread(record["seconds"] for record in records),
        "whole process, s": spread(record["process"] for record in records),
    }
    return markdown([{**times, "memory, MB": most(records, "peak")}])


TABLES: dict[str, Callable[[Records], str]] = {"binary": binary, "bits": bits, "adult": adult, "adult8": adult8}


def draw_binary(figure: Any, records: Records) -> None:
    """Medians, on logarithmic axes but for memory."""
    groups = by_case(records, "attributes").values()

    def median(of: Callable[[Record], float]) -> list[float]:
        return [statistics.median(map(of, runs)) for runs in groups]

    attributes, queries, each = (
        median(lambda run: run["attributes"]),
        median(lambda run: run["queries"]),
        median(per_round),
    )
    call, round_, memory = figure.subplots(1, 3)
    call.loglog(attributes, median(lambda run: run["seconds"]), marker="o", color=BLUE, label="CALL")
    call.loglog(attributes, median(lambda run: run["product"]), marker="o", color=GREY, label="X.T @ X")
    call.set(xlabel="BOOLEAN attributes, as many rounds", ylabel="time (s)")
    round_.loglog(queries, each, marker="o", color=BLUE, label="measured")
    round_.loglog(
        queries,
        [each[-1] * count / queries[-1] for count in queries],
        color=GREY,
        linestyle=":",
        label="linear in the queries",
    )
    round_.set(
        xlabel="queries: all one- and two-way marginals",
        ylabel="time of a round (ms)",
        ylim=(min(each) / 3, max(each) * 3),
    )
    memory.plot(attributes, median(lambda run: run["peak"]), marker="o", color=BLUE)
    memory.set(xlabel="BOOLEAN attributes, as many rounds", ylabel="peak memory (MB)", xlim=(0, None), ylim=(0, None))
    call.legend(frameon=False)
    round_.legend(frameon=False)


def draw_bits(figure: Any, records: Records) -> None:
    """Medians; all runs are inside the bands."""
    kept = shown_rounds(records)
    axes = figure.subplots(1, 3)
    for colour, ((width, rounds), runs) in zip(COLOURS, by_case(records, "bits", "rounds").items(), strict=False):
        label = f"{width} bits" + (f", from round {rounds - kept + 1} on" if rounds > kept else "")
        for axis, curve in zip(axes, curves(runs, kept), strict=True):
            points = list(zip(*curve, strict=True))
            axis.plot(range(1, kept + 1), list(map(statistics.median, points)), color=colour, label=label)
            axis.fill_between(
                range(1, kept + 1), list(map(min, points)), list(map(max, points)), color=colour, alpha=0.2, linewidth=0
            )
    axes[0].set(xlabel="round", ylabel="elapsed time (s)", ylim=(0, None))
    axes[1].set(xlabel="round", ylabel="maximum error (rows)", yscale="log")
    axes[2].set(xlabel="round", ylabel="average error (rows)", yscale="log")
    axes[0].legend(frameon=False)


PLOTS: dict[str, Callable[[Any, Records], None]] = {"binary": draw_binary, "bits": draw_bits}


def publish(found: dict[str, Records], clock: str, docs: Path) -> None:
    """Put the tables into scaling.md, each between two comments, and the plots beside it."""
    page = docs / "scaling.md"
    text = page.read_text()
    for name, block in {
        "clock": f"Time is {clock} time.",
        **{name: TABLES[name](records) for name, records in found.items()},
    }.items():
        text = re.sub(
            rf"(?s)(<!-- {name} -->\n).*?(<!-- end -->)", lambda ends, block=block: f"{ends[1]}{block}\n{ends[2]}", text
        )
    page.write_text(text)
    for name in found.keys() & PLOTS.keys():
        plot(docs / f"scaling-{name}", PLOTS[name], found[name])


def plot(stem: Path, draw: Callable[[Any, Records], None], records: Records) -> None:
    import matplotlib as mpl  # noqa: PLC0415  an optional extra

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure = plt.figure(figsize=(12, 3.8), constrained_layout=True)
    draw(figure, records)
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    for kind in ("svg", "png"):
        figure.savefig(stem.with_suffix(f".{kind}"), dpi=120)
