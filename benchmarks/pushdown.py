"""What the compiler and the pushdown cost, as ratios within one run: the rows of the table below, or how the cost
grows.

    python benchmarks/pushdown.py --data DIR [--work DIR] [--repeats 5] [row ...]
    python benchmarks/pushdown.py --growth [--work DIR] [--plots docs]
    python benchmarks/pushdown.py --constants [--work DIR]

    adult       true answers of all 1-, 2- and 3-way cuboids, 8 ENUM columns, 10M rows resampled from Adult; over a bare
                GROUP BY ALL
    uniform     the same on 10M rows of independent uniform columns; over the best of the plans run by hand
    predicates  10,000 random predicates over 1 to 3 columns, the whole CALL with 5 rounds; DuckDB's own count_if of
                them over it
    pairs       true answers of all one- and two-way marginals of 1000 BOOLEAN columns, 100,000 rows; over a float32 X.T
                @ X
    compile     100,000 distinct predicates; parsing each of them with sqlglot over it
    memory      true answers, 100M rows, 4 columns, on disk, memory_limit 1 GB; over a bare GROUP BY under the same
                limit

DIR of --data holds adult_train.csv; tables are made once in DIR of --work (by default one that is removed). Each ratio
is of wall times, and of processor times beside it: where other work shares the machine, the second is the steadier one.
`predicates` and `compile` time a share of what they compare with, and scale it up. `--growth` needs matplotlib (pip
install 'mwem-sql[bench]') and measures processor time: set OPENBLAS_NUM_THREADS=1 on a shared machine, where threads of
BLAS wait for each other in a loop.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import adult
import duckdb
import memory
import numpy as np
import sqlglot

import mwem_sql
from mwem_sql.algebra.table import Table
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan import execution
from mwem_sql.scan.pushdown import Pushdown, plan_pushdown
from mwem_sql.workload import Workload

MILLION = 1_000_000
SIZES = (9, 16, 7, 15, 6, 5, 2, 2)  # values of Adult's eight categorical columns
LIMIT = 1000  # MB
DISK_SIZES = (100, 50, 20, 7)


@dataclass(frozen=True)
class Took:
    """Seconds of wall and of processor time."""

    wall: float
    processor: float

    @classmethod
    def of(cls, work: Callable[[], object]) -> Took:
        wall, processor = time.perf_counter(), time.process_time()
        work()
        return cls(time.perf_counter() - wall, time.process_time() - processor)

    def times(self, factor: float) -> Took:
        return Took(self.wall * factor, self.processor * factor)

    def less(self, seconds: float) -> Took:
        return Took(self.wall - seconds, self.processor - seconds)


def spread(values: list[float]) -> str:
    return f"{min(values):7.2f} {statistics.median(values):7.2f} {max(values):7.2f}"


def report(row: str, what: str, pairs: list[tuple[Took, Took]]) -> None:
    """Print the ratios of pairs (numerator, denominator): smallest, median and largest."""
    seconds = ", ".join(f"{statistics.median(took.wall for took in side):.3f} s" for side in zip(*pairs, strict=True))
    print(f"{row:11} {what}")
    print(f"{'':11}   wall      {spread([one.wall / other.wall for one, other in pairs])}   (medians {seconds})")
    print(f"{'':11}   processor {spread([one.processor / other.processor for one, other in pairs])}", flush=True)


def pushdown_of(
    con: duckdb.DuckDBPyConnection, table: str, workload: Workload, domain: Domain | None = None
) -> Pushdown:
    with Sandbox() as sandbox:
        compiled = compile_workload(domain or Domain.from_schema(con, table), workload, sandbox)
    database = con.execute("SELECT current_database()").fetchall()[0][0]
    return plan_pushdown(Name(database, "main", table), compiled.classes, [query.linear for query in compiled.queries])


def cuboids(domain: Domain, ways: int = 3) -> Workload:
    return Workload(tuple(itertools.chain.from_iterable(Workload.marginals(domain, way) for way in range(1, ways + 1))))


# Beside the eight ENUMs, with the bounds that a curator would declare.
NUMBERS = (
    'age INTEGER NOT NULL CHECK (age BETWEEN 17 AND 90), "hours-per-week" INTEGER NOT NULL CHECK ("hours-per-week"'
    " BETWEEN 1 AND 99), "
)


def opened(path: Path, make: Callable[[duckdb.DuckDBPyConnection], object]) -> duckdb.DuckDBPyConnection:
    """A database file, made the first time."""
    if not path.exists():
        unfinished = path.with_suffix(".part")
        with duckdb.connect(str(unfinished)) as con:
            make(con)
        unfinished.rename(path)
    return mwem_sql.connect(str(path))


def make_adult(con: duckdb.DuckDBPyConnection, data: Path, rows: int = 10 * MILLION) -> None:
    adult.load(con, data, "income")
    ddl = con.execute("SELECT sql FROM duckdb_tables() WHERE table_name = 'adult'").fetchall()[0][0]
    con.execute(f"""DROP TABLE adult; {ddl.replace("(", "(" + NUMBERS, 1)}""")
    listed = f'age, "hours-per-week", {", ".join(map(adult.quoted, adult.INCOME))}'
    con.execute(f"CREATE TABLE numbered AS SELECT row_number() OVER () - 1 AS k, {listed} FROM raw")
    con.execute("SELECT setseed(0.5)")
    con.execute(
        """INSERT INTO adult SELECT n.* EXCLUDE (k) FROM
           (SELECT floor(random() * (SELECT count(*) FROM numbered))::BIGINT AS k FROM range(?)) r
           JOIN numbered n USING (k)""",
        [rows],
    )
    con.execute("DROP TABLE numbered")


def make_uniform(con: duckdb.DuckDBPyConnection, sizes: tuple[int, ...], rows: int) -> None:
    listed = (", ".join(f"'{value}'" for value in range(size)) for size in sizes)
    con.execute(f"CREATE TABLE t ({', '.join(f'c{k} ENUM({values}) NOT NULL' for k, values in enumerate(listed))})")
    drawn = ", ".join(f"floor(random() * {size})::INTEGER::VARCHAR" for size in sizes)
    con.execute("SELECT setseed(0.5)")
    con.execute(f"INSERT INTO t SELECT {drawn} FROM range({rows})")


def make_bits(con: duckdb.DuckDBPyConnection, columns: int, rows: int) -> None:
    con.execute(f"CREATE TABLE t ({', '.join(f'b{k} BOOLEAN NOT NULL' for k in range(columns))})")
    con.execute("SELECT setseed(0.5)")
    con.execute(f"INSERT INTO t SELECT {', '.join(['random() < 0.1'] * columns)} FROM range({rows})")


def bare_group_by(con: duckdb.DuckDBPyConnection, table: str, columns: list[str]) -> None:
    con.cursor().sql(
        f"SELECT {', '.join(map(adult.quoted, columns))}, count(*) FROM {table} GROUP BY ALL"
    ).to_arrow_table()


class Rows:
    """The rows of the table, each by its name."""

    def __init__(self, data: Path | None, work: Path, repeats: int) -> None:
        self.data, self.work, self.repeats = data, work, repeats

    def repeated(self, one: Callable[[], object], other: Callable[[], object]) -> list[tuple[Took, Took]]:
        """Both in turn, after one run of each that does not count."""
        return [(Took.of(one), Took.of(other)) for _ in range(self.repeats + 1)][1:]

    def adult(self) -> None:
        with self._adult() as con:
            declared = Domain.from_schema(con, "adult")
            domain = Domain("adult", declared.columns, tuple(item for item in declared if item.name in adult.INCOME))
            pushdown = pushdown_of(con, "adult", cuboids(domain), domain)
            pairs = self.repeated(
                lambda: execution.true_answers(con.cursor(), pushdown),
                lambda: bare_group_by(con, "adult", list(adult.INCOME)),
            )
        report("adult", "all cuboids of 1 to 3 columns over a bare GROUP BY ALL", pairs)
        report("", "the same, less 0.15 s: at most 1.5", [(ours.less(0.15), bare) for ours, bare in pairs])

    def uniform(self) -> None:
        with opened(self.work / "uniform.duckdb", lambda con: make_uniform(con, SIZES, 10 * MILLION)) as con:
            pushdown = pushdown_of(con, "t", cuboids(Domain.from_schema(con, "t")))
            hands = {
                "one GROUP BY": one_group_by,
                "one GROUP BY of a combined key": one_key,
                "a GROUP BY per set": group_by_per_set,
                "streamed codes": streamed_codes,
            }
            took: dict[str, list[Took]] = {name: [] for name in ("ours", *hands)}
            for _ in range(self.repeats + 1):
                took["ours"].append(Took.of(lambda: execution.true_answers(con.cursor(), pushdown)))
                for name, hand in hands.items():
                    took[name].append(Took.of(lambda hand=hand: hand(con)))
        for name in hands:
            pairs = list(zip(took["ours"], took[name], strict=True))[1:]
            report("uniform", f"all cuboids of 1 to 3 columns over, by hand, {name}: at most 1.2 of the best", pairs)

    def predicates(self, count: int = 10_000, share: int = 2) -> None:
        with self._adult() as con:
            texts = random_predicates(con, "adult", count)
            con.execute("CREATE OR REPLACE TABLE workload AS SELECT unnest(?) AS predicate", [texts])
            batches = [texts[begin : begin + 256] for begin in range(0, count, 256)][:share]
            asked = sum(map(len, batches))

            def count_if() -> None:
                for batch in batches:
                    con.execute("SELECT " + ", ".join(f"count_if({text})" for text in batch) + " FROM adult").fetchall()

            def call(rows: int | None) -> Took:
                statement = "CALL mwem_release('adult', workload, 1, rounds := 5, output := 'released', rows := $rows)"
                took = Took.of(lambda: con.execute(statement, {"rows": rows}).fetchall())
                con.execute(
                    "DROP TABLE released; DROP SCHEMA mwem CASCADE; COMMENT ON TABLE adult IS NULL"
                )  # the account
                return took

            def copy() -> None:
                con.execute("CREATE TABLE copied AS FROM adult")

            took = []
            for _ in range(max(1, self.repeats // 2)):
                took.append((Took.of(count_if).times(count / asked), call(None), call(1000), Took.of(copy)))
                con.execute("DROP TABLE copied")
            con.execute("DROP TABLE workload")
        compared = f"count_if of {count:,} predicates (timed on {asked}, scaled up) over the CALL"
        report("predicates", f"{compared}: at least 20", [(bare, whole) for bare, whole, _, _ in took])
        report(
            "", f"{compared} without its 10M synthetic rows (rows := 1000)", [(bare, few) for bare, _, few, _ in took]
        )
        report(
            "",
            "the same over a bare copy of the table, which writes as many rows: a bound",
            [(bare, copied) for bare, _, _, copied in took],
        )

    def pairs(self) -> None:
        with opened(self.work / "bits.duckdb", lambda con: make_bits(con, 1000, 100_000)) as con:
            domain = Domain.from_schema(con, "t")
            pushdown = pushdown_of(con, "t", cuboids(domain, 2))
            matrix = np.stack(list(con.cursor().execute("FROM t").fetchnumpy().values()), axis=1).astype(np.float32)
            pairs = self.repeated(lambda: execution.true_answers(con.cursor(), pushdown), lambda: matrix.T @ matrix)
        report("pairs", f"{len(pushdown.queries):,} one- and two-way marginals over X.T @ X: at most 3", pairs)

    def compile(self, count: int = 100_000, share: int = 5_000) -> None:
        with duckdb.connect() as con:
            con.execute(
                """CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 17 AND 90),
                hours INTEGER NOT NULL CHECK (hours BETWEEN 1 AND 99),
                   gain INTEGER NOT NULL CHECK (gain BETWEEN 0 AND 200), sex ENUM('F', 'M') NOT NULL, edu ENUM('a', 'b',
                   'c', 'd', 'e', 'f', 'g', 'h') NOT NULL)"""
            )
            domain = Domain.from_schema(con, "t")
            texts = random_predicates(con, "t", count)
        workload = Workload.from_predicates(texts)

        def ours() -> None:
            with Sandbox() as sandbox:
                compile_workload(domain, workload, sandbox)

        def parse() -> None:
            for text in texts[:share]:
                sqlglot.parse_one(text, dialect="duckdb")

        pairs = [(Took.of(parse).times(count / share), Took.of(ours)) for _ in range(max(1, self.repeats // 2))]
        report(
            "compile",
            f"sqlglot's parser on {count:,} predicates (timed on {share:,}, scaled up) over the compiler: at least 5",
            pairs,
        )

    def memory(self) -> None:
        path = self.work / "disk.duckdb"
        opened(path, lambda con: make_uniform(con, DISK_SIZES, 100 * MILLION)).close()
        peaks: dict[str, list[int]] = {"ours": [], "bare": []}
        pairs = []
        for _ in range(self.repeats):
            took = {}
            for name, found in peaks.items():
                ran = subprocess.run(
                    [sys.executable, __file__, "--limited", name, "--work", str(self.work)],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                *took[name], peak = json.loads(ran.stdout)
                found.append(peak)
            pairs.append((Took(*took["ours"]), Took(*took["bare"])))
        report("memory", f"100M rows under {LIMIT} MB over a bare GROUP BY: at most 1.5", pairs)
        for name, found in peaks.items():
            print(f"{'':11}   peak memory, {name}: {min(found)} to {max(found)} MB (limit {LIMIT} MB plus 300)")

    def _adult(self) -> duckdb.DuckDBPyConnection:
        data = self.data
        if data is None:
            raise SystemExit("give --data, the directory of adult_train.csv")
        return opened(self.work / "adult.duckdb", lambda con: make_adult(con, data))


def limited(work: Path, name: str) -> None:
    """One run under the memory limit, in a process of its own: wall seconds, processor seconds, peak MB."""
    con = duckdb.connect(str(work / "disk.duckdb"), read_only=True)
    con.execute(f"SET memory_limit = '{LIMIT}MB'; SET temp_directory = '{work / 'spill'}'")
    columns = [f"c{k}" for k in range(len(DISK_SIZES))]
    if name == "ours":
        pushdown = pushdown_of(con, "t", cuboids(Domain.from_schema(con, "t"), len(columns)))
        took = Took.of(lambda: execution.true_answers(con.cursor(), pushdown))
    else:
        took = Took.of(lambda: bare_group_by(con, "t", columns))
    print(json.dumps([took.wall, took.processor, memory.peak_megabytes()]))


def one_group_by(con: duckdb.DuckDBPyConnection) -> None:
    codes = ", ".join(f"enum_code(c{k})" for k in range(len(SIZES)))
    found = con.cursor().sql(f"SELECT {codes}, count(*) FROM t GROUP BY ALL").to_arrow_table()
    *places, counts = [column.to_numpy() for column in found.columns]
    histogram = np.zeros(SIZES, dtype=np.int64)
    histogram[tuple(places)] = counts
    all_sums(histogram)


def group_by_per_set(con: duckdb.DuckDBPyConnection) -> None:
    for names in itertools.combinations(range(len(SIZES)), 3):
        codes = ", ".join(f"enum_code(c{k})" for k in names)
        con.cursor().sql(f"SELECT {codes}, count(*) FROM t GROUP BY ALL").to_arrow_table()


def combined_key() -> str:
    key = "enum_code(c0)::UINTEGER"
    for k, size in enumerate(SIZES[1:], start=1):
        key = f"({key} * {size} + enum_code(c{k}))"
    return key


def streamed_codes(con: duckdb.DuckDBPyConnection) -> None:
    """Every row's key to numpy, without a GROUP BY: no plan of ours, because on Adult's few groups it is slower than
    one.
    """
    cells = np.zeros(int(np.prod(SIZES)), dtype=np.int64)
    for batch in con.cursor().sql(f"SELECT {combined_key()} FROM t").to_arrow_reader(MILLION):
        np.add.at(cells, batch.column(0).to_numpy(), 1)
    all_sums(cells.reshape(SIZES))


def one_key(con: duckdb.DuckDBPyConnection) -> None:
    found = con.cursor().sql(f"SELECT {combined_key()}, count(*) FROM t GROUP BY ALL").to_arrow_table()
    cells = np.zeros(int(np.prod(SIZES)), dtype=np.int64)
    cells[found.column(0).to_numpy()] = found.column(1).to_numpy()
    all_sums(cells.reshape(SIZES))


def all_sums(histogram: np.ndarray) -> None:
    """The cuboids from one histogram, by the same roll-ups as ours: what is compared is how the histogram is made."""
    names = tuple(map(str, range(histogram.ndim)))
    wanted = [kept for size in (1, 2, 3) for kept in itertools.combinations(names, size)]
    Table(tuple(names), histogram).projections(wanted)


def random_predicates(con: duckdb.DuckDBPyConnection, table: str, count: int) -> list[str]:
    """Distinct conjunctions over one to three columns: comparisons of integers, and values of ENUMs."""
    draw = random.Random(1)
    domain = Domain.from_schema(con, table)

    def atom(item: mwem_sql.domains.domain.Attribute) -> str:
        if item.values is None:
            return (
                f"{adult.quoted(item.name)} {draw.choice(['<', '>', '<=', '>='])}"
                f" {draw.randint(int(item.low), int(item.high))}"
            )
        listed = ", ".join(
            "'" + value.replace("'", "''") + "'"
            for value in draw.sample(item.values, min(draw.randint(1, 3), len(item.values) - 1))
        )
        return f"{adult.quoted(item.name)} IN ({listed})"

    found: dict[str, None] = {}
    while len(found) < count:
        found[" AND ".join(map(atom, draw.sample(domain.attributes, draw.randint(1, 3))))] = None
    return list(found)


def constants(work: Path) -> None:
    """The constants of the cost model, in nanoseconds of processor time per row."""
    rows = 4 * MILLION
    with opened(work / "constants.duckdb", lambda con: make_uniform(con, SIZES, rows)) as con:

        def show(what: str, statement: str, each: int = 1) -> None:
            took = min(Took.of(lambda: con.cursor().sql(statement).to_arrow_table()).processor for _ in range(3))
            print(f"{what:44} {took / rows / each * 1e9:8.2f}", flush=True)

        show("sum of a column", "SELECT sum(enum_code(c0)) FROM t")
        table = "CAST('[0,1,2,0,1,2,0,1,2]' AS UTINYINT[])"
        show("code looked up in a list", f"SELECT sum(list_extract({table}, enum_code(c0)::BIGINT + 1)) FROM t")
        for columns in range(1, len(SIZES) + 1):
            codes = ", ".join(f"enum_code(c{k})" for k in range(columns))
            show(
                f"GROUP BY {columns} columns, {int(np.prod(SIZES[:columns])):,} cells",
                f"SELECT {codes}, count(*) FROM t GROUP BY ALL",
            )
        inner = ", ".join(f"enum_code(c{k}) AS v{k}" for k in range(len(SIZES)))
        draw = random.Random(1)
        for blocks in (1, 2, 3):
            tests = [
                " AND ".join(f"v{k} <= {draw.randrange(SIZES[k])}" for k in draw.sample(range(len(SIZES)), blocks))
                for _ in range(256)
            ]
            show(
                f"count_if of {blocks} conditions",
                f"SELECT {', '.join(f'count_if({test})' for test in tests)} FROM (SELECT {inner} FROM t)",
                256,
            )
        codes = np.random.default_rng(1).integers(0, 15120, MILLION)
        counts, cells = np.ones(MILLION, dtype=np.int64), np.zeros(15120, dtype=np.int64)
        print(f"{'a group to a histogram':44} {Took.of(lambda: np.add.at(cells, codes, counts)).processor * 1e3:8.2f}")
        block = np.ones((1000, 2**15), dtype=np.float32)
        print(f"{'product, per pair of classes':44} {Took.of(lambda: block @ block.T).processor / 2**15 * 1e3:8.4f}")


def growth(work: Path, plots: Path) -> None:
    """Processor time of the true answers against rows, attribute sets and columns, as a plot."""
    import matplotlib as mpl  # noqa: PLC0415  an optional extra

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
    measured = {
        "rows (millions), 92 cuboids of 8 columns": list(_by_rows(work)),
        "queries, 2M rows, 8 columns": list(_by_queries(work)),
        "BOOLEAN columns, 100,000 rows, all pairs": list(_by_columns(work)),
    }
    for axis, (label, points) in zip(axes, measured.items(), strict=True):
        print(label, ", ".join(f"{x:g}: {seconds:.3f} s" for x, seconds in points), flush=True)
        axis.plot(*zip(*points, strict=True), marker="o", color="#1f4e79")
        axis.set(xlabel=label, ylim=(0, None), xlim=(0, None))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("processor time of the true answers (s)")
    plots.mkdir(exist_ok=True)
    for kind in ("svg", "png"):
        figure.savefig(plots / f"pushdown-growth.{kind}", dpi=120)


def _fastest(con: duckdb.DuckDBPyConnection, pushdown: Pushdown) -> float:
    return min(Took.of(lambda: execution.true_answers(con.cursor(), pushdown)).processor for _ in range(3))


def _by_rows(work: Path) -> Iterator[tuple[float, float]]:
    for millions in (1, 2, 4, 8, 16):
        with opened(
            work / f"rows{millions}.duckdb", lambda con, rows=millions: make_uniform(con, SIZES, rows * MILLION)
        ) as con:
            yield millions, _fastest(con, pushdown_of(con, "t", cuboids(Domain.from_schema(con, "t"))))


def _by_queries(work: Path) -> Iterator[tuple[float, float]]:
    with opened(work / "rows2.duckdb", lambda con: make_uniform(con, SIZES, 2 * MILLION)) as con:
        texts = random_predicates(con, "t", 20_000)
        for count in (10, 1_000, 5_000, 10_000, 20_000):
            yield count, _fastest(con, pushdown_of(con, "t", Workload.from_predicates(texts[:count])))


def _by_columns(work: Path) -> Iterator[tuple[float, float]]:
    for columns in (50, 100, 200, 400, 600):
        with opened(
            work / f"bits{columns}.duckdb", lambda con, columns=columns: make_bits(con, columns, 100_000)
        ) as con:
            yield columns, _fastest(con, pushdown_of(con, "t", cuboids(Domain.from_schema(con, "t"), 2)))


def main() -> None:
    names = ["adult", "uniform", "predicates", "pairs", "compile", "memory"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="row", help=", ".join(names))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--plots", type=Path, default=Path("docs"))
    parser.add_argument("--limited", choices=["ours", "bare"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = sorted(set(options.rows) - set(names))
    if unknown:
        parser.error(f"unknown row {unknown[0]!r}; rows are {', '.join(names)}")
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        if options.limited:
            limited(work, options.limited)
        elif options.constants:
            constants(work)
        elif options.growth:
            growth(work, options.plots)
        else:
            print(f"DuckDB {duckdb.__version__}, {options.repeats} repeats: smallest, median and largest ratio")
            rows = Rows(options.data, work, options.repeats)
            for name in options.rows or names:
                getattr(rows, name)()


if __name__ == "__main__":
    main()
