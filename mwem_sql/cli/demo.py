"""`mwem-sql demo`: a made-up census, its release, and both side by side.

Owns the story it tells. It shows true figures, which nothing else here does, because nobody in the census exists.
"""

from __future__ import annotations

import argparse

import duckdb

from mwem_sql.cli.console import Console, connection, fetch, width
from mwem_sql.platform.metadata import read_sql

NEXT = """
What to try next
----------------

  mwem-sql demo --epsilon 0.1             a tenth of the budget, and more error
  mwem-sql demo --database demo.duckdb    keep it; mwem-sql demo.duckdb, then
    SELECT sex, marital, count(*) FROM census_synthetic GROUP BY ALL;
    SELECT mwem_count('census_synthetic', 'age > 40 AND income = ''>50K''');"""


def run(arguments: list[str]) -> int:
    """Release a made-up census and show it beside the truth."""
    parser = argparse.ArgumentParser(prog="mwem-sql demo", description="Release a made-up census; show how good it is.")
    add = parser.add_argument
    add("--rows", type=int, default=50_000, metavar="N", help="people in the census (50000)")
    add("--epsilon", type=float, default=1.0, metavar="E", help="privacy budget of the release (1.0)")
    add("--seed", type=int, metavar="S", help="noise that can be repeated, and so is not private")
    add("--database", default=":memory:", metavar="PATH", help="where to keep it; in memory without one")
    options = parser.parse_args(arguments)
    if options.rows < 1:
        parser.error(f"--rows ({options.rows}) must be at least 1")
    with connection(parser, options.database, read_only=False) as con:
        con.execute("SET VARIABLE demo_rows = $rows", {"rows": options.rows})
        if not Console(con).run_script(read_sql("demo.sql"), "sql/demo.sql"):
            return 1
        tell(con, options.epsilon, options.seed)
    return 0


def tell(con: duckdb.DuckDBPyConnection, epsilon: float, seed: int | None) -> None:
    """Tell the demo's story: the private table, its release, and both side by side."""
    page = max(60, min(width(), 100))
    rows = con.table("census").aggregate("count(*)").fetchall()[0][0]
    print(f"\nThe release\n-----------\n\ncensus has {rows:,} rows, and its columns depend on each other; workload")
    print("has questions about it. Both are made up. One call makes a synthetic table:\n")
    call = f"CALL mwem_release('census', workload, {epsilon}{'' if seed is None else f', seed := {seed}'})"
    print(f"  {call};\n", flush=True)
    Console(con).show(*fetch(con, call))
    print("census_synthetic is an ordinary table now. The same CALL again costs nothing.")
    if seed is not None:
        print("private is False: whoever knows the seed can take the noise away again.")

    print("\nThe truth and the synthetic table, side by side\n-----------------------------------------------\n")
    print(
        "This comparison is NOT private: it reads the true rows. It is only possible here\nbecause the data is made up."
    )
    for columns in ("marital", "education, income", "sex, occupation"):
        print(f"\n  SELECT {columns}, count(*) FROM ... GROUP BY ALL;\n")  # noqa: S608
        print_bars(con, columns, page)
    call = "FROM mwem_compare('census', 'census_synthetic', workload)"
    print(f"\n  {call};\n\n  {'predicate':<{page - 33}} {'true':>9} {'synthetic':>9} {'error':>9}")
    compared = fetch(con, call)[0].to_pylist()
    for row in compared:
        if row["cell"] is None:
            numbers = (f"{row[column]:>9,.0f}" for column in ("true_answer", "answer", "error"))
            print(f"  {row['name'][: page - 33]:<{page - 33}}", *numbers)
    errors = [abs(row["error"]) for row in compared]
    mean = sum(errors) / len(errors)
    print(f"\nOver all {len(errors)} answers of the workload, cell by cell, the error is {mean:,.1f} rows on")
    print(f"average and {max(errors):,.1f} at most, in a table of {rows:,} rows.")

    print(NEXT)


def print_bars(con: duckdb.DuckDBPyConnection, columns: str, page: int) -> None:
    """Print a marginal of both tables, side by side."""
    tables = (con.table("census"), con.table("census_synthetic"))
    both = [table.aggregate(f"{columns}, count(*)").order(columns).fetchall() for table in tables]
    truth, synthetic = ({", ".join(cell): n for *cell, n in rows} for rows in both)
    widest = max(map(len, [*truth, *synthetic]))
    room = (page - widest - 22) // 2
    unit = max(*truth.values(), *synthetic.values()) / (8 * room)
    print(f"  {'':{widest}}  {'true':>7} {'':{room}} synthetic")
    for label in dict.fromkeys([*truth, *synthetic]):
        pair = (truth.get(label, 0), synthetic.get(label, 0))
        bars = ["█" * (round(n / unit) // 8) + " ▏▎▍▌▋▊▉"[round(n / unit) % 8] for n in pair]
        print(f"  {label:<{widest}}  {pair[0]:>7,} {bars[0]:<{room + 1}} {pair[1]:>7,} {bars[1]}".rstrip())
