"""The work that scaling.py measures: one run of one case, in a process of its own, so that its peak memory is its own.

    python scaling_works.py '{"work": "binary", "attributes": 100}'

Prints one JSON object, what was measured: seconds, always of wall and of processor time; peak memory in MB; errors.
"""

from __future__ import annotations

import csv
import inspect
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import adult
import duckdb
import memory
import numpy as np
import pyarrow as pa
from scaling_errors import Columns, counts, discretised, distance

import mwem_sql
from mwem_sql.platform.catalog import Place
from mwem_sql.releases import store

ROWS = 100_000
PRODUCTS = 3
# Without '?' their values need 3 + 4 + 3 + 4 + 3 + 3 + 1 + 6 bits: the paper's 27.
CATEGORICAL = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)

Record = dict[str, Any]
# Gets the loop's problem, a copy of its state after a round, and whether that round was the last.
Observe = Callable[[Any, Any, bool], Record]


def clock() -> np.ndarray:
    """Wall and processor time."""
    return np.array([time.perf_counter(), time.process_time()])


class Rounds:
    """Watches the loop of a CALL: how long each round takes and what can be seen after it. The time of looking is kept
    apart.
    """

    def __init__(self, observe: Observe | None) -> None:
        self.seconds: list[list[float]] = []
        self.seen: list[Record] = []
        self.looking = np.zeros(2)
        module = sys.modules["mwem_sql.releases.run"]
        inner = module.mwem

        def watched(kernel: Any, problem: Any, split: Any, _progress: Any) -> Any:
            begin = clock()

            def progress(done: int, rounds: int, _query: int) -> None:
                nonlocal begin
                end = clock()
                self.seconds.append((end - begin).tolist())
                if observe is not None:
                    # A is the loop's own name for its state.
                    self.seen.append(observe(problem, inspect.stack(0)[1].frame.f_locals["A"].copy(), done == rounds))
                begin = clock()
                self.looking += begin - end

            return inner(kernel, problem, split, progress)

        module.mwem = watched


def call(
    con: duckdb.DuckDBPyConnection,
    table: str,
    rounds: int,
    *,
    epsilon: float = 1,
    delta: float = 0,
    observe: Observe | None = None,
) -> Record:
    """The release for the table `workload`: all of the CALL, and of its rounds."""
    watch = Rounds(observe)
    statement = "FROM mwem_release($table, workload, $epsilon, rounds := $rounds, delta := $delta)"
    begin = clock()
    found = con.execute(statement, {"table": table, "epsilon": epsilon, "rounds": rounds, "delta": delta})
    summary = dict(zip([column[0] for column in found.description or ()], found.fetchall()[0], strict=True))
    seconds = (clock() - begin - watch.looking).tolist()
    return {
        "seconds": seconds, "peak": memory.peak_megabytes(), "rounds_each": watch.seconds, "seen": watch.seen,
        "rounds": summary["rounds"], "queries": summary["queries"], "cells": summary["cells"],
    }  # fmt: skip


def table_of(columns: Columns, kinds: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
    """A connection with a table `private` of these columns."""
    con = mwem_sql.connect()
    con.execute(f"CREATE TABLE private ({', '.join(f'{adult.quoted(name)} {kind}' for name, kind in kinds.items())})")
    con.from_arrow(pa.table(dict(columns))).insert_into("private")
    return con


def table_of_bits(columns: Columns) -> duckdb.DuckDBPyConnection:
    return table_of(columns, dict.fromkeys(columns, "BOOLEAN NOT NULL"))


def binary(attributes: int) -> Record:
    """Independent bits, all one- and two-way marginals, as many rounds as attributes; and X.T @ X of the same bits."""
    drawn = np.random.default_rng(attributes).random((ROWS, attributes)) < 0.1
    con = table_of_bits({f"b{number}": drawn[:, number] for number in range(attributes)})
    con.execute(
        "CREATE TABLE workload AS FROM mwem_marginals('private', 1) UNION ALL FROM mwem_marginals('private', 2)"
    )
    before = products(drawn)
    measured = call(con, "private", attributes)
    return measured | {"product": np.min(before + products(drawn), axis=0).tolist()}


def products(drawn: np.ndarray) -> list[np.ndarray]:
    """Times of some products in float32, after one that does not count."""
    floats = drawn.astype(np.float32)

    def product() -> np.ndarray:
        begin = clock()
        floats.T @ floats
        return clock() - begin

    return [product() for _ in range(PRODUCTS + 1)][1:]


def bits(data: str, noise: int, rounds: int, epsilon: float) -> Record:
    """Adult's attributes as bits, then bits that are noise; all three-way cuboids. After each round, the error of those
    without noise.

    The error of a cuboid is the paper's: the mean over its cells of the absolute error, in rows.
    """
    columns = adult_bits(Path(data))
    rows = len(next(iter(columns.values())))
    generator = np.random.default_rng(noise)
    added = {f"noise_{number}": generator.random(rows) < 0.1 for number in range(noise)}
    columns |= added
    con = table_of_bits(columns)
    con.execute("CREATE TABLE workload AS FROM mwem_marginals('private', 3)")
    sizes = dict.fromkeys(columns, 2)
    truths: dict[tuple[str, ...], np.ndarray] = {}

    def errors(state: Any, queries: Sequence[Any]) -> list[float]:
        """Maximum and average."""
        for names in {query.attributes for query in queries} - set(truths):
            truths[names] = counts(columns, sizes, names)
        answers = zip(queries, state.answers(queries), strict=True)
        found = [np.abs(answer - truths[query.attributes]).mean() for query, answer in answers]
        return [float(np.max(found)), float(np.mean(found))]

    def observe(problem: Any, state: Any, is_last: bool) -> Record:
        workload = [
            query for query in problem.queries if len(query.attributes) == 3
        ]  # its marginals may be candidates, too
        seen = {
            "adult": errors(state, [query for query in workload if added.keys().isdisjoint(query.attributes)]),
            "cells": state.cells,
        }
        return seen | ({"all": errors(state, workload)} if is_last else {})

    return call(con, "private", rounds, epsilon=epsilon, observe=observe) | {"bits": len(columns)}


def adult_bits(directory: Path) -> dict[str, np.ndarray]:
    """Codes of the values in their order; rows with an unknown value are left out."""
    with (directory / "adult_train.csv").open() as lines:
        rows = [row for row in csv.DictReader(lines) if "?" not in row.values()]
    columns = {}
    for name in CATEGORICAL:
        values, codes = np.unique([row[name] for row in rows], return_inverse=True)
        for bit in range((len(values) - 1).bit_length()):
            columns[f"{name}_{bit}"] = codes >> bit & 1 == 1
    return columns


def adult14(data: str, ways: int, rounds: int, delta: float) -> Record:
    """All attributes of discretised Adult and all marginals of so many of them."""
    columns, sizes = discretised(Path(data))
    con = table_of(
        columns,
        {
            name: f"INTEGER NOT NULL CHECK ({adult.quoted(name)} BETWEEN 0 AND {size - 1})"
            for name, size in sizes.items()
        },
    )
    con.execute("CREATE TABLE workload AS FROM mwem_marginals('private', $ways)", {"ways": ways})
    measured = call(con, "private", rounds, delta=delta)
    drawn = con.execute("FROM private_synthetic").fetchnumpy()
    state = store.load(con.cursor(), "private_synthetic", Place.of(con), "benchmark").state()
    released = {
        "rows": lambda names: counts(drawn, sizes, names),
        "weights": lambda names: state.marginal(names).ravel(),
    }
    return measured | {f"{kind} {ways}": distance(columns, sizes, ways, cells) for kind, cells in released.items()}


def adult8(data: str, rounds: int) -> Record:
    """The raw table's eight categorical columns, all three-way marginals."""
    con = mwem_sql.connect()
    adult.load(con, Path(data), "income")
    con.execute("CREATE TABLE workload AS FROM mwem_marginals('adult', 3)")
    return call(con, "adult", rounds)


def main() -> None:
    case = json.loads(sys.argv[1])
    works = {"binary": binary, "bits": bits, "adult14": adult14, "adult8": adult8}
    print(json.dumps(works[case.pop("work")](**case)))


if __name__ == "__main__":
    main()
