"""Generated tables with the shape of tables that people release: surveys of yes and no, loans, salaries.

Each is drawn in several variants, which share the schema and nothing else: another seed, other shares, and another
structure. A variant is in one half only: constants may be chosen on `choose`, and what is claimed comes from `report`.

    disability  16 yes or no, 21,574 rows: one severity behind all (choose); five classes of people, a chain (report)
    loans       13 columns with NULLs and skewed money, 5,960 rows; also as codes of 2 to 21 values
    salaries    10 columns of 3 to 24 values, 3,755 rows
    wages       6 columns of 3 to 190 values, 6,704 rows
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import duckdb
import numpy as np
import pyarrow as pa
import tables

import mwem_sql

HALVES = {"choose": ("severity",), "report": ("classes", "chain")}
"""Variants of every table, by half; tables with numbers have one in each half, the first."""
PEOPLE, LOANS, SALARIES, WAGES = 21_574, 5_960, 3_755, 6_704
BITS = 16
JOBS = ("Mgr", "Office", "Other", "ProfExe", "Sales", "Self")
REASONS = ("DebtCon", "HomeImp")


def _generator(variant: str) -> np.random.Generator:
    return np.random.default_rng([variant == name for names in HALVES.values() for name in names])


def _chance(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


@lru_cache(maxsize=4)
def disability(variant: str) -> tables.Table:
    """Sixteen things that a person needs help with, or not; most people need none, and those who do need several."""
    draw = _generator(variant)
    if variant == "severity":
        severity = np.where(draw.random(PEOPLE) < 0.35, -1.5, 0) + draw.gamma(1.5, 1.0, PEOPLE) - 1.2
        mind = 0.5 * severity + draw.normal(0, 1, PEOPLE)
        loads = np.stack([draw.uniform(1.2, 2.6, BITS), draw.uniform(0, 1.5, BITS) * (draw.random(BITS) < 0.4)])
        codes = draw.random((PEOPLE, BITS)) < _chance(
            np.stack([severity, mind], axis=1) @ loads - draw.uniform(0.5, 4, BITS)
        )
    elif variant == "classes":
        kind = draw.choice(5, PEOPLE, p=[0.45, 0.2, 0.15, 0.12, 0.08])
        chances = draw.beta(0.4, 0.6, (5, BITS))
        chances[0] = draw.uniform(0.01, 0.06, BITS)
        codes = draw.random((PEOPLE, BITS)) < chances[kind]
    else:
        stays, begins = draw.uniform(0.6, 0.95, BITS), draw.uniform(0.05, 0.25, BITS)
        codes = np.zeros((PEOPLE, BITS), dtype=bool)
        before = draw.random(PEOPLE) < 0.4
        for place in range(BITS):
            codes[:, place] = before = draw.random(PEOPLE) < np.where(before, stays[place], begins[place])
    return tables.Table(variant, {f"a{place}": 2 for place in range(BITS)}, codes.astype(np.int64))


@dataclass(frozen=True)
class Number:
    """A column of whole numbers from 0 on: its public end, where questions about it are usually asked, and how it is
    cut into classes.
    """

    high: int
    usual: tuple[int, int]
    width: int
    """Of a class."""
    classes: int
    """The last one is open; NULL is one more."""


NUMBERS = {
    "LOAN": Number(90, (5, 40), 3, 18),
    "MORTDUE": Number(400, (20, 150), 10, 20),
    "VALUE": Number(900, (40, 250), 15, 20),
    "YOJ": Number(45, (1, 25), 3, 12),
    "DEROG": Number(12, (0, 3), 1, 5),
    "DELINQ": Number(18, (0, 4), 1, 7),
    "CLAGE": Number(1200, (60, 350), 25, 16),
    "NINQ": Number(18, (0, 5), 1, 8),
    "CLNO": Number(75, (5, 45), 5, 12),
    "DEBTINC": Number(210, (20, 45), 4, 14),
}
"""Money in thousands, ages in months."""
NEVER_NULL = {"BAD", "LOAN"}
RARE_JOB, RARE_JOB_ROWS, MISSING_DEBTINC, DEAR, DEAR_ROWS, UNDER_WATER = "Sales", 109, 1_267, 250, 133, 51
"""Of the odd rows that everybody asks for: so many of a rare job, NULLs, houses above 250 thousand, and mortgages above
the value. Every variant has exactly as many."""


@lru_cache(maxsize=4)
def loans(variant: str) -> pa.Table:
    """Applications for a loan on a house: few bad ones, money with a long tail, counts that are mostly zero, and
    applicants of whom several things are missing at once.
    """
    draw, count = _generator(variant), LOANS
    level, drift, quiet = {"severity": (4.5, 0.42, 0.05), "classes": (4.3, 0.5, 0.08), "chain": (4.4, 0.35, 0.06)}[
        variant
    ]
    wealth, trouble = draw.normal(0, 1, count), draw.gamma(0.6, 1.0, count)
    value = np.clip(np.exp(level + drift * wealth + draw.normal(0, 0.15, count)), 8, DEAR - 5)
    dear = np.argsort(-value)[:DEAR_ROWS]
    value[dear] = np.clip(DEAR + 2 + draw.gamma(1.0, 90, DEAR_ROWS), 0, 890)
    mortgage = np.clip(value * draw.beta(7, 2.5, count), 2, np.minimum(value - 1, 399))
    deep = draw.choice(np.setdiff1d(np.arange(count), dear), UNDER_WATER, replace=False)
    mortgage[deep] = value[deep] * draw.uniform(1.05, 1.4, UNDER_WATER) + 1
    loan = np.clip(np.exp(2.8 + 0.3 * wealth + draw.normal(0, 0.4, count)), 1, 89)
    job = draw.choice(len(JOBS), count, p=[0.14, 0.17, 0.43, 0.22, 0.0, 0.04])
    job = np.where((wealth > 0.8) & (draw.random(count) < 0.6), 3, job)
    job = np.where((wealth < -0.5) & (draw.random(count) < 0.4), 2, job)
    job[draw.choice(count, RARE_JOB_ROWS, replace=False)] = JOBS.index(RARE_JOB)
    years = np.clip(draw.gamma(1.2, 7.5, count) + np.array([3, 0, 0, -1, 1, 2])[job], 0, 41)
    derogatory, delinquent = (np.minimum(draw.poisson(rate * trouble), most) for rate, most in ((0.5, 10), (0.9, 15)))
    age = np.clip(160 + 35 * wealth + 3 * years + draw.normal(0, 60, count), 0, 1168)
    inquiries = np.minimum(draw.poisson(0.4 + 1.1 * trouble), 17)
    lines = np.clip(21 + 5 * wealth + 2 * trouble + draw.normal(0, 7, count), 0, 71)
    debt = np.clip(34 + 3 * trouble - 2 * wealth + draw.normal(0, 6, count), 0, 203)
    bad = draw.random(count) < _chance(-2.8 + 0.9 * delinquent + 0.8 * derogatory + 0.04 * (debt - 34) - 0.3 * wealth)
    reason = np.where(draw.random(count) < 0.55 + 0.2 * (job == 2) - 0.25 * (job == 5), 0, 1)
    numbers = {"LOAN": loan, "MORTDUE": mortgage, "VALUE": value, "YOJ": years, "DEROG": derogatory,
               "DELINQ": delinquent, "CLAGE": age, "NINQ": inquiries, "CLNO": lines, "DEBTINC": debt}  # fmt: skip
    missing = {name: draw.random(count) < 0.02 for name in ("MORTDUE", "VALUE", "REASON", "JOB", "YOJ")}
    unknown = draw.random(count) < quiet
    for name, rate in {"DEROG": 0.95, "DELINQ": 0.9, "CLAGE": 0.6, "NINQ": 0.85, "CLNO": 0.5, "YOJ": 0.4}.items():
        missing[name] = (draw.random(count) < 0.01) | (unknown & (draw.random(count) < rate))
    missing["DEBTINC"] = np.zeros(count, dtype=bool)
    missing["DEBTINC"][np.argsort(-(2.0 * bad + 1.5 * unknown + draw.normal(0, 1, count)))[:MISSING_DEBTINC]] = True
    for name, rows in (("VALUE", dear), ("VALUE", deep), ("MORTDUE", deep), ("JOB", job == JOBS.index(RARE_JOB))):
        missing[name][rows] = False
    columns = {"BAD": pa.array(bad.astype(np.int32))}
    for name, values in numbers.items():
        columns[name] = pa.array(values.astype(np.int32), mask=missing.get(name))
    for name, codes, words in (("REASON", reason, REASONS), ("JOB", job, JOBS)):
        columns[name] = pa.array(np.array(words)[codes], mask=missing[name])
    return pa.table(columns)


def values(name: str) -> list[int | str | None]:
    """All that a column of the loans may be, NULL the last."""
    words: dict[str, tuple[int | str, ...]] = {"BAD": (0, 1), "REASON": REASONS, "JOB": JOBS}
    listed = words[name] if name in words else range(NUMBERS[name].high + 1)
    return [*listed, *([] if name in NEVER_NULL else [None])]


def connect_loans(variant: str) -> duckdb.DuckDBPyConnection:
    """A database with the loans, named `private`, declared as a curator would."""
    con = mwem_sql.connect()
    con.execute("SET threads = 1")
    columns = ["BAD INTEGER NOT NULL CHECK (BAD BETWEEN 0 AND 1)"]
    for name, number in NUMBERS.items():
        end = " NOT NULL" if name in NEVER_NULL else ""
        columns.append(f"{name} INTEGER{end} CHECK ({name} BETWEEN 0 AND {number.high})")
    for name, words in (("REASON", REASONS), ("JOB", JOBS)):
        columns.append(f"{name} ENUM ({', '.join(repr(word) for word in words)})")
    con.execute(f"CREATE TABLE private ({', '.join(columns)})")
    rows = loans(variant)  # noqa: F841  DuckDB reads it by its name
    con.execute("INSERT INTO private BY NAME FROM rows")
    return con


@lru_cache(maxsize=4)
def loan_codes(variant: str) -> tables.Table:
    """The same loans in 2 to 21 classes, NULL the last."""
    rows = loans(variant)
    sizes, codes = {}, []
    for name in rows.column_names:
        column = rows[name].to_pylist()
        if name in NUMBERS:
            number = NUMBERS[name]
            size = number.classes
            code = [size if value is None else min(value // number.width, size - 1) for value in column]
        else:
            words = {"BAD": (0, 1), "REASON": REASONS, "JOB": JOBS}[name]
            size = len(words)
            code = [size if value is None else words.index(value) for value in column]
        sizes[name] = size + (name not in NEVER_NULL)
        codes.append(code)
    return tables.Table(f"loans, {variant}", sizes, np.array(codes, dtype=np.int64).T)


@lru_cache(maxsize=4)
def salaries(variant: str) -> tables.Table:
    """People who say what they earn: title and experience drive the pay, almost all are in one country."""
    draw, count = _generator(variant), SALARIES
    first, spread = {"severity": (0.9, 0.35), "classes": (1.1, 0.3), "chain": (1.0, 0.4)}[variant]
    year = draw.choice(4, count, p=[0.02, 0.06, 0.44, 0.48])
    experience = draw.choice(4, count, p=[0.09, 0.21, 0.66, 0.04])
    title = np.minimum(draw.zipf(1.0 + 0.6 * first, count) - 1, 23)
    title = np.where((experience == 3) & (draw.random(count) < 0.7), 20, title)
    title = np.where((experience == 0) & (draw.random(count) < 0.6), 2, title)
    kind = np.where(draw.random(count) < 0.98, 0, draw.integers(1, 4, count))
    home = np.where(draw.random(count) < 0.8, 0, np.minimum(draw.geometric(0.2, count), 15))
    company = np.where(draw.random(count) < 0.97, home, draw.integers(0, 16, count))
    currency = np.where(draw.random(count) < 0.95, np.array([0, 1, 2, 3, 3, 3, 4, 5, 5, *[0] * 7])[company], 0)
    remote = np.where(draw.random(count) < 0.6 - 0.1 * year, 2, np.where(draw.random(count) < 0.9, 0, 1))
    pay = np.exp(0.45 * experience - 0.9 * (home > 0) - 0.03 * title + draw.normal(1.5, spread, count))
    pay = np.clip(pay, 0, 19)
    size = np.where(draw.random(count) < np.where(home > 0, 0.4, 0.9), 1, draw.choice([0, 2], count, p=[0.3, 0.7]))
    sizes = {"year": 4, "experience": 4, "title": 24, "kind": 4, "home": 16, "company": 16, "currency": 6, "remote": 3,
             "pay": 20, "size": 3}  # fmt: skip
    return tables.Table(
        f"salaries, {variant}", sizes,
        np.stack([year, experience, title, kind, home, company, currency, remote, pay, size], axis=1).astype(np.int64),
    )  # fmt: skip


@lru_cache(maxsize=4)
def wages(variant: str) -> tables.Table:
    """What employees earn: few columns of many values, where age, experience and pay all but follow from each other."""
    draw, count = _generator(variant), WAGES
    noise, titles = {"severity": (0.12, 190), "classes": (0.18, 190), "chain": (0.15, 190)}[variant]
    title = np.minimum((titles * draw.beta(0.5, 1.4, count)).astype(np.int64), titles - 1)
    level = draw.permutation(np.linspace(0.0, 1.0, titles))[title]
    years = np.clip(draw.gamma(1.4, 5.0, count) + 8 * level * draw.random(count), 0, 34)
    age = np.clip(22 + years + np.abs(draw.normal(0, 1.5 + 2 * noise, count)), 21, 62)
    education = np.clip(np.round(2.2 * level + 0.04 * years + draw.normal(0, 0.4, count)), 0, 3)
    sex = np.where(draw.random(count) < 0.55 - 0.1 * level, 0, np.where(draw.random(count) < 0.995, 1, 2))
    pay = np.clip((35 + 60 * level + 22 * education + 4.2 * years) * np.exp(draw.normal(0, noise, count)) / 5, 0, 50)
    sizes = {"age": 42, "sex": 3, "education": 4, "title": titles, "years": 35, "pay": 51}
    return tables.Table(
        f"wages, {variant}", sizes,
        np.stack([age - 21, sex, education, title, years, pay], axis=1).astype(np.int64),
    )  # fmt: skip
