"""Whether a plain call learns what there is to learn: its error beside textbook methods and any number of rounds.

    python benchmarks/floors.py [--half choose|report] [--works NAME ...] [--seeds 2] [--epsilon 1] [--no-curve]

Every work is one line. `noise on each` adds noise to each question by itself, with an equal share; `one-ways` counts
each attribute by itself and takes them to be independent (textbook/). The curve is `rounds := k` for k from 1 to 200
and at most the number of questions; the best k is chosen in hindsight, so it is a little too good. Calls are seeded,
0 to SEEDS - 1, and go through `mwem_sql.release`; errors are means over seeds with their standard errors.

    binary          16 yes or no, 21,574 rows, all pairs; and all triples, judged by pairs: must not be better
    predicates      30 of one column, of two columns compared, or conjunctions, on 5,960 loans with NULLs
    averages, sums  by group, ten of them alone; errors in parts of a measure's bound
    mixed           13 columns of 2 to 21 values, 5,960 rows, all pairs
    salaries        10 columns, 3,755 rows, all pairs; with a delta, which must not make it worse
    wages, small    the same with 6 columns of up to 190 values, 6,704 rows, and 9 of up to 91, 1,300 rows
    ranges          over one attribute, 1,000 rows, epsilon 0.1: regret against the best textbook method (regret.py)
    odd             rows that a mean hides: each answer with its interval, asked among 30 predicates, or later
    heavy           pairs and triples of `mixed`, epsilon 10, judged by triples: seconds; only when it is named

made.py has the tables and their halves: constants are chosen on one, and the other is run once.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import floors_works
import made
import memory
import numpy as np
import regret
import report
import shapes
from floors_works import EACH, ODD, ONEWAYS, Questions, Work
from results import Results, Spread

from mwem_sql.workload import Query, Workload

CURVE = (1, 2, 4, 8, 15, 30, 60, 120, 200)
SEEDS = 2
TEXTBOOK_RUNS = 5
ODD_EPSILONS = (0.1, 1.0)
RANGES, ROWS, RANGES_EPSILON = "ranges", 1_000, 0.1
NAMES = ("binary", "predicates", "averages", "sums", "mixed", "salaries", "wages", "small", RANGES, "odd")
HEAVY = "heavy"
HEAD = (
    "work", "table", "epsilon", "delta", "questions", "unit", "plain call", "rounds", "seconds", EACH,
    "ratio", ONEWAYS, "ratio", "best rounds", "error", "ratio", "curve",
)  # fmt: skip


def line(work: Work, seeds: int, *, curve: bool) -> list[str]:
    """What a work's calls were off by, and the ratios to what else there is; at most 1 is wanted of each."""
    runs = [work.run(seed) for seed in range(seeds)]
    plain = Spread.of(error for error, _, _ in runs)
    cells = [
        work.name, work.table, f"{work.epsilon:g}", f"{work.delta:g}", work.questions, work.unit,
        f"{report.number(plain.mean)} ± {report.number(plain.deviation / seeds**0.5)}",
        f"{np.mean([made.rounds for _, made, _ in runs]):.0f}", f"{np.mean([seconds for _, _, seconds in runs]):.1f}",
    ]  # fmt: skip
    books = [dict(work.textbook(np.random.default_rng(seed))) for seed in range(TEXTBOOK_RUNS)]
    for name in books[0]:
        error = float(np.mean([book[name] for book in books]))
        cells += [report.number(error), f"{plain.mean / error:.2f}"]
    if not curve:
        return [*map(str, cells), "", "", "", ""]
    tried = {
        rounds: float(np.mean([work.run(seed, rounds=rounds)[0] for seed in range(seeds)]))
        for rounds in CURVE
        if rounds <= work.questions
    }
    best = min(tried, key=tried.__getitem__)
    shown = " ".join(f"{rounds}:{report.number(error)}" for rounds, error in tried.items())
    return [*map(str, cells), str(best), report.number(tried[best]), f"{plain.mean / tried[best]:.2f}", shown]


def ranges(half: str, seeds: int) -> str:
    """Regret on small shapes, and the worst case. Everything is seeded: a ratio changes only where the calls do."""
    data = [one for one in shapes.listed(half, 1, real=False) if one.n == ROWS]
    asked = [case | {"seed": case["run"]} for case in regret.cases(data, RANGES_EPSILON, seeds)]
    with tempfile.TemporaryDirectory() as work:
        results = Results(Path(work))
        for case in asked:
            results.keep(case, regret.measure(case, None))
        return regret.regrets(regret.Errors(results, asked), 1)


def odd(half: str, seeds: int, epsilons: Sequence[float]) -> Iterator[list[str]]:
    """Each odd question beside its interval: asked among predicates of one column, and asked only afterwards."""
    variant = made.HALVES[half][0]
    questions = tuple(Query(text) for text, _ in ODD.values())
    usual = floors_works.predicates("one column", variant)
    for when, queries in (("asked", usual + questions), ("later", usual)):
        for epsilon in epsilons:
            work = Questions(name="odd", table=variant, epsilon=epsilon, queries=queries)
            found: list[np.ndarray] = []
            for seed in range(seeds):
                with work.released(seed) as (released, _):
                    rows = work.compared(released.output, Workload(questions))
                    found.append(np.stack([rows[name] for name in ("true_answer", "answer", "low", "high")]))
            for place, name in enumerate(ODD):
                truth, answer, low, high = np.stack(found)[:, :, place].T
                inside = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
                yield [
                    name, when, f"{epsilon:g}", f"{truth[0]:.0f}", " ".join(f"{one:.0f}" for one in answer),
                    f"{int(inside.sum())} of {seeds}", f"{np.mean(high - low) / made.LOANS:.2f}",
                ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=made.HALVES, default="choose")
    parser.add_argument("--works", nargs="+", choices=(*NAMES, HEAVY), default=NAMES)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--epsilon", type=float, nargs="+", help="only works with these")
    parser.add_argument("--no-curve", action="store_true", help="without `rounds := k`")
    options = parser.parse_args()
    begin = time.process_time()

    def wanted(name: str, epsilon: float) -> bool:
        return name.partition(",")[0] in options.works and epsilon in (options.epsilon or [epsilon])

    rows = partial(print, flush=True)
    listed = [work for work in floors_works.works(made.HALVES[options.half]) if wanted(work.name, work.epsilon)]
    if listed:
        rows(report.table(HEAD, []))
    for work in listed:
        rows(report.row(line(work, options.seeds, curve=not options.no_curve)))
    if wanted(RANGES, RANGES_EPSILON):
        rows(f"\n{ranges(options.half, options.seeds)}")
    epsilons = [epsilon for epsilon in ODD_EPSILONS if wanted("odd", epsilon)]
    if epsilons:
        rows("\n" + report.table(["odd rows", "asked", "epsilon", "truth", "answers", "inside", "width of n"], []))
        for cells in odd(options.half, options.seeds, epsilons):
            rows(report.row(cells))
    rows(
        f"\n{options.half}, {options.seeds} seeds, {time.process_time() - begin:.0f} s of processor time,"
        f" {memory.peak_megabytes():,} MB at most"
    )


if __name__ == "__main__":
    main()
