"""What it takes to measure some queries in any case, and what the others pay for it.

    python benchmarks/always.py --data DIR [--epsilon 1] [--delta 0] [--runs 10] [--rounds 0 1/2 1 2]

DIR holds adult_train.csv. `pairs`: all marginals of two of eight attributes, among which rounds select; `few`: four
cuboids and a count, whose sets are refined. Some of each are marked `always`; `rounds` is what one of them takes of the
budget, in rounds (`SHARES["always"]` of `loop/plan.py`), and 0 marks none. Beside sets shares follow from cells alone,
so that there is only one row. Prints the mean absolute error of a cell, in rows, over seeds 0 to runs - 1, of the
marked ones and of the others.
"""

from __future__ import annotations

import argparse
import statistics
from fractions import Fraction
from pathlib import Path
from unittest import mock

from adult import load

import mwem_sql
from mwem_sql.loop.plan import SHARES

WORKLOADS = {
    "pairs": (
        "SELECT group_by, NULL::VARCHAR AS predicate FROM mwem_marginals('adult', 2)",
        "group_by IN (['workclass', 'education'], ['marital-status', 'race'], ['sex', 'income'])",
    ),
    "few": (
        """SELECT unnest([['sex', 'income'], ['workclass', 'race'], ['education', 'income'], ['marital-status',
        'relationship', 'sex']]) AS group_by,
               NULL::VARCHAR AS predicate
           UNION ALL SELECT NULL, 'income = ''>50K'' AND education > ''Bachelors'''""",
        "group_by = ['sex', 'income'] OR predicate IS NOT NULL",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="0")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument(
        "--rounds", nargs="+", type=Fraction, default=[Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2)]
    )
    options = parser.parse_args()
    con = mwem_sql.connect()
    load(con, options.data, "income")
    for name, (select, marked) in WORKLOADS.items():
        con.execute(f"CREATE OR REPLACE TABLE marked AS SELECT *, coalesce({marked}, false) AS always FROM ({select})")
        for each in options.rounds if name == "pairs" else options.rounds[:1] + options.rounds[-1:]:
            con.execute(
                f"CREATE OR REPLACE TABLE workload AS SELECT group_by, predicate, always AND {each > 0} AS always FROM"
                " marked"
            )
            errors: dict[bool, list[float]] = {True: [], False: []}
            for seed in range(options.runs):
                with mock.patch.dict(SHARES, always=each or Fraction(1)):
                    con.execute(
                        "CALL mwem_release('adult', workload, $epsilon, delta := $delta, seed := $seed, output :="
                        " $output)",
                        {
                            "epsilon": options.epsilon,
                            "delta": options.delta,
                            "seed": seed,
                            "output": f"{name}_{each.numerator}_{each.denominator}_{seed}",
                        },
                    )
                found = con.execute(f"""WITH numbered AS (SELECT row_number() OVER () AS query, always FROM marked)
                        SELECT always, avg(error) FROM mwem_compare('adult',
                        '{name}_{each.numerator}_{each.denominator}_{seed}', workload)
                        JOIN numbered USING (query) GROUP BY always""").fetchall()
                for always, error in found:
                    errors[always].append(error)
            told = ", ".join(
                f"{label} {statistics.mean(own):.2f} ± {statistics.stdev(own) / len(own) ** 0.5:.2f}"
                for label, own in (("marked", errors[True]), ("others", errors[False]))
            )
            print(f"{name}, epsilon {options.epsilon}, delta {options.delta}, rounds {each}: {told}", flush=True)
    con.close()


if __name__ == "__main__":
    main()
