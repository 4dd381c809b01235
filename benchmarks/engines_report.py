"""What `benchmarks/engines.py --write` measured: tables, a cost model by rows for each engine, and docs/scale-rows.svg.
Needs matplotlib.

python benchmarks/engines_report.py results.json docs
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from report import axes

FAR = 10**12  # rows that nobody has here
DAY = 86_400


def fitted(rows: list[int], seconds: list[float]) -> tuple[float, float, float]:
    """Seconds = fixed + each * rows, neither below 0, with the least relative misfit;
    and the largest of the misfits."""
    times = np.array(seconds)
    base = np.stack([np.ones(len(rows)), np.array(rows, float)], axis=1) / times[:, None]
    found, *_ = np.linalg.lstsq(base, np.ones(len(rows)), rcond=None)
    if found.min() < 0:  # one of the two does not show
        single = [float((column @ np.ones(len(rows))) / (column @ column)) for column in base.T]
        misfits = [float(np.abs(column * own - 1).max()) for column, own in zip(base.T, single, strict=True)]
        best = int(np.argmin(misfits))
        found = np.array([single[k] if k == best else 0.0 for k in range(2)])
    return float(found[0]), float(found[1]), float(np.abs(base @ found - 1).max())


def tables(found: list[dict[str, Any]]) -> None:
    print("| engine | rows | cuboids: ours / its own GROUP BY | predicates: times faster | KB to the client | scans |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in found:
        cuboids, predicates = row["cuboids"], row["predicates"]
        ours, bare = min(cuboids["ours"]), min(cuboids["bare"])
        print(
            f"| {row['engine']} | {row['rows']:,} | {ours:.3g} / {bare:.3g} = {ours / bare:.2f}x |"
            f" {min(predicates['bare']) / min(predicates['ours']):.0f}x | {cuboids['bytes'] / 1000:.0f},"
            f" {predicates['bytes'] / 1000:.0f} | {cuboids['scans']}, {predicates['scans']} |"
        )


def models(found: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[float, float, float]]:
    print(
        "\n| engine, work | fixed s | s for each million rows | largest misfit | 10^12 rows, days of one core | over"
        " its own SQL, by row |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    out = {}
    for name in dict.fromkeys(row["engine"] for row in found):
        own = [row for row in found if row["engine"] == name]
        rows = [row["rows"] for row in own]
        for work in ("cuboids", "predicates"):
            fixed, each, misfit = fitted(rows, [min(row[work]["ours"]) for row in own])
            _, bare, _ = fitted(rows, [min(row[work]["bare"]) for row in own])
            out[name, work] = fixed, each, misfit
            print(
                f"| {name}, {work} | {fixed:.2g} | {each * 1e6:.3g} | {misfit:.0%} | {(fixed + each * FAR) / DAY:.2g} |"
                f" {each / bare:.2g}x |"
            )
    return out


def plot(found: list[dict[str, Any]], fits: dict[tuple[str, str], tuple[float, float, float]], path: Path) -> None:
    figure, (both,) = axes(1, 2, 9, 3.6)
    both[1].sharey(both[0])
    line = np.logspace(5, 12, 60)
    for axis, work in zip(both, ("cuboids", "predicates"), strict=True):
        for k, name in enumerate(dict.fromkeys(row["engine"] for row in found)):
            own = [row for row in found if row["engine"] == name]
            fixed, each, _ = fits[name, work]
            axis.plot(line, fixed + each * line, color=f"C{k}", linewidth=1)
            axis.plot(
                [row["rows"] for row in own], [min(row[work]["ours"]) for row in own], "o", color=f"C{k}", label=name
            )
        axis.set(xscale="log", yscale="log", xlabel="rows", title=work)
        axis.axvspan(2e8, 1e12, color="0.93", zorder=0)
        axis.text(4e8, axis.get_ylim()[0] * 2, "not measured", color="0.4")
    both[0].set_ylabel("seconds of one core")
    both[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    found = sorted(
        json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), key=lambda row: (row["engine"], row["rows"])
    )
    tables(found)
    plot(found, models(found), Path(sys.argv[2]) / "scale-rows.svg")


if __name__ == "__main__":
    main()
