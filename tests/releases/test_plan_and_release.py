"""What a plan says of noise and what a release then has, from both sides: neither less nor more, in every regime of
the loop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import sqrt

import pytest
from chance import sampled
from conftest import Connection
from thresholds import few_sets

from mwem_sql.kernel.scales import Kind, typical, within
from mwem_sql.kernel.tails import cumulants

ROWS = """
    DELETE FROM people; DELETE FROM workload; ALTER TABLE people ADD COLUMN person INTEGER;
        ALTER TABLE workload ADD COLUMN measure VARCHAR;
    INSERT INTO people SELECT i % 100, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, i % 2 = 0, ['Bern', 'Basel', 'Genf',
        NULL][1 + i % 4], i // 2
        FROM range({}) AS t(i);
    INSERT INTO workload {}"""
RANGES = "SELECT 'age > ' || i, NULL, NULL FROM range(99) t(i)"
CELLS = "VALUES (NULL, ['age', 'city'], NULL), (NULL, ['age', 'sex'], NULL)"
SMALL = "VALUES ('age > 40', NULL, NULL), ('sex = ''F'' AND member', NULL, NULL), (NULL, ['sex', 'city'], NULL)"
ONES = "VALUES (NULL, ['sex'], NULL), (NULL, ['city'], NULL), (NULL, ['member'], NULL)"
CUBOIDS = "VALUES (NULL, ['sex', 'city'], NULL), (NULL, ['city', 'member'], NULL), (NULL, ['sex', 'member'], NULL)"
MIXED = (
    "VALUES ('age > 40 AND sex = ''F''', NULL, NULL), ('age < 20 AND member', NULL, NULL), (NULL, ['sex', 'city'], "
    "NULL), (NULL, ['member', 'city'], NULL)"
)
EVEN = """; INSERT INTO people SELECT nullif(age, 100), sex, member, city, 0 FROM range(101) t(age),
    (SELECT unnest(['F', 'M']) AS sex),
    (SELECT unnest([true, false]) AS member), (SELECT unnest(['Bern', 'Basel', 'Genf', NULL]) AS city), range(20)"""


@dataclass(frozen=True)
class Noise:
    """What a plan says: from, to, and 95 of 100 within."""

    least: float
    most: float
    within: float

    @classmethod
    def of(cls, text: str, what: str) -> Noise:
        found = re.search(
            what + r" is off by about ([\d.,]+)(?: to ([\d.,]+))? rows, 95 of 100 within ([\d.,]*\d)", text
        )
        assert found is not None, text
        least, most, most_often = (number and float(number.replace(",", "")) for number in found.groups())
        return cls(least, most or least, most_often)


def shown(number: float) -> float:
    return float(f"{number:.3g}") if number < 1000 else round(number)


def release(
    con: Connection, rows: int, workload: str, options: str, epsilon: float = 1, *, more: str = ""
) -> tuple[str, list[tuple[str, float, Kind]]]:
    """What the plan expects; and of each thing that a round measured, the last scale and the kind of noise."""
    con.execute(ROWS.format(rows, workload) + more)
    ((text,),) = con.execute(
        f"SELECT value FROM mwem_plan('people', workload, {epsilon}{options}) WHERE item = 'expect'"
    ).fetchall()
    con.execute(f"CALL mwem_release('people', workload, {epsilon}{options}, seed := 1)")
    found = con.execute(
        """SELECT name, arg_max(scale, step), any_value(noise) FROM mwem.measurements
        WHERE purpose = 'round' GROUP BY name ORDER BY min(step)"""
    ).fetchall()
    return text, [(name, scale, "pure" if noise == "laplace" else "zcdp") for name, scale, noise in found]


def is_confirmed(con: Connection, told: Noise, worst: float, kind: Kind) -> None:
    """What the release says of what it measured directly: noise and half an interval are those of the plan."""
    ((noise, width),) = con.execute(
        """SELECT max(noise), max(width) FROM mwem_quality('people_synthetic')
        WHERE measured = 'directly' AND noise IS NOT NULL"""
    ).fetchall()
    deviation = sqrt(cumulants(worst, kind)[0])
    assert 0.85 * deviation < noise <= 1.001 * deviation
    assert 0.8 * told.within <= width / 2 <= 1.3 * told.within + 1


@pytest.mark.parametrize(
    ("rows", "workload", "options", "epsilon"),
    sampled(
        [
            (4000, SMALL, "", 1),
            (40_000, CELLS, "", 1),
            (40_000, CELLS, ", total := 40000", 1),
            (40_000, CELLS, ", delta := 1e-6", 0.5),
            (40_000, CELLS, ", unit := 'person', rows_per_unit := 2", 1),
            (400_000, CELLS, ", certify := 0.3", 0.1),
        ],
        3,
    ),
)
def test_distributions_that_are_refined(
    con: Connection, rows: int, workload: str, options: str, epsilon: float
) -> None:
    """All partitions are measured here: the last one of each has as much noise as is said, and no more."""
    text, measured = release(con, rows, workload, options, epsilon)
    told = Noise.of(text, "a measured part")
    noise = sorted(typical(scale, kind) for _, scale, kind in measured)
    assert told.least <= shown(noise[0]) and told.most == shown(noise[-1])
    worst, kind = max((scale, kind) for _, scale, kind in measured)
    assert told.within == shown(within(worst, kind, 0.95))
    is_confirmed(con, told, worst, kind)


def test_ranges_add_up_parts_that_are_known_so_well(con: Connection) -> None:
    """A range is a sum over parts: its noise is at least that of one part, at most that of all."""
    text, [(_, scale, kind)] = release(con, 40_000, RANGES, "")
    told = Noise.of(text, "a measured part")
    assert (told.least, told.most, told.within) == (
        shown(typical(scale, kind)),
        shown(typical(scale, kind)),
        within(scale, kind, 0.95),
    )
    ((least, most),) = con.execute(
        "SELECT min(noise), max(noise) FROM mwem_quality('people_synthetic') WHERE measured = 'directly'"
    ).fetchall()
    deviation = sqrt(cumulants(scale, kind)[0])
    assert 0.85 * deviation < least and most < deviation * sqrt(100)


def test_where_nothing_is_left_to_look_at_the_last_partition_takes_the_rest(con: Connection) -> None:
    """Rows are spread evenly, so that nothing is split: the second of three partitions is the last one, and has the
    least noise that is said.
    """
    con.execute("UPDATE people SET age = NULL")
    text, [(_, scale, kind)] = release(
        con, 0, "VALUES (NULL, ['age', 'city', 'member', 'sex'], NULL)", "", 0.1, more=EVEN
    )
    told = Noise.of(text, "a measured part")
    steps = con.execute("SELECT count(*) FROM mwem.measurements WHERE purpose = 'round'").fetchall()[0][0]
    assert (steps, told.least) == (2, shown(typical(scale, kind))) and told.most > told.least


@pytest.mark.parametrize(
    ("options", "kind"),
    sampled(
        [
            (", rounds := 30, delta := 1e-6", "zcdp"),
            (", rounds := 3, unit := 'person', rows_per_unit := 3", "pure"),
            (", average := true", "pure"),
            (", rounds := 3, start := 'histogram'", "pure"),
            (", rounds := 3, fit := 'replay', certify := 0.2, total := 4000", "pure"),
        ],
        3,
    ),
)
def test_rounds_that_are_given_and_averages(con: Connection, options: str, kind: Kind) -> None:
    text, measured = release(con, 4000, ONES, options)
    told = Noise.of(text, "a measured cell")
    scales = [
        scale
        for (scale,) in con.execute(
            "SELECT scale FROM mwem.measurements WHERE purpose = 'round' ORDER BY step"
        ).fetchall()
    ]
    assert {kind for _, _, kind in measured} == {kind}
    assert told.least == told.most == shown(typical(scales[0], kind)) and len(set(scales)) == 1
    assert told.within == within(scales[0], kind, 0.95)
    if options == ", rounds := 3, unit := 'person', rows_per_unit := 3" or "replay" in options:
        is_confirmed(con, told, scales[0], kind)
    if "histogram" in options:
        start = Noise.of(text, "each of 16 cells that it starts from")
        ((scale,),) = con.execute("SELECT scale FROM mwem.measurements WHERE purpose = 'histogram'").fetchall()
        assert (start.least, start.within) == (shown(typical(scale, "pure")), within(scale, "pure", 0.95))


@pytest.mark.parametrize("options", [", total := 40000", ", total := 40000, delta := 1e-6"])
def test_rounds_after_what_comes_first(con: Connection, monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    """A public total says how many there are, and each has the noise that is said."""
    few_sets(monkeypatch, 1)
    text, _ = release(con, 40_000, MIXED, f"{options}, fit := 'replay'")
    told = Noise.of(text, "a measured cell")
    found = con.execute("SELECT scale, noise FROM mwem.measurements WHERE purpose = 'round' ORDER BY step").fetchall()
    off = [typical(scale, "pure" if noise == "laplace" else "zcdp") for scale, noise in found]
    assert told.most == told.least == shown(off[0]) == shown(max(off))
    counted = int(re.match(r"about (\d+) of 4 queries will be measured", text)[1])  # type: ignore[index]
    assert 0 < len(off) <= counted


@pytest.mark.parametrize("options", ["", ", total := 600"])
def test_a_few_questions_are_measured_at_once(con: Connection, monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    few_sets(monkeypatch, 1)
    text, measured = release(con, 600, MIXED, options)
    assert text.startswith("all 4 queries at once, a cell is off by about ")
    assert len(measured) == 4
    told = Noise.of(text, "a cell")
    off = [typical(scale, kind) for _, scale, kind in measured]
    assert (told.least, told.most) == (shown(min(off)), shown(max(off)))


def test_of_few_rows_each_attribute_is_measured_by_itself(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    few_sets(monkeypatch, 1)
    text, measured = release(con, 3, MIXED, ", total := 3, fit := 'replay'", 0.2)
    assert (text, measured) == ("each attribute by itself", [])
    assert con.execute("SELECT DISTINCT purpose FROM mwem.measurements ORDER BY ALL").fetchall()[-1] == ("first",)


@pytest.mark.parametrize("options", ["", ", total := 4000"])
def test_one_histogram_in_the_place_of_rounds(con: Connection, monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    few_sets(monkeypatch, 1)
    text, [(_, scale, kind)] = release(con, 4000, CUBOIDS, options)
    assert text.startswith("all 3 queries, as sums over one histogram of 16 cells: a cell of it is off by about ")
    told = Noise.of(text, "a cell of it")
    assert (told.most, told.within) == (shown(typical(scale, kind)), within(scale, kind, 0.95))
    noise = con.execute(
        "SELECT noise / sqrt(16 / cells) FROM mwem_quality('people_synthetic') WHERE measured = 'directly'"
    ).fetchall()
    assert [value for (value,) in noise] == pytest.approx([sqrt(cumulants(scale, kind)[0])] * 3, rel=0.01)
    ((items,),) = con.execute(
        f"SELECT value FROM mwem_plan('people', workload, 1{options}) WHERE item = 'noise scale'"
    ).fetchall()
    assert items == f"{scale:.6g} per cell of a count"


BINNED = """CREATE TABLE paid (pay DOUBLE, member BOOLEAN NOT NULL); INSERT INTO paid SELECT i % 1000,
    i % 2 = 0 FROM range(3000) t(i);
    CREATE TABLE paid_domain AS SELECT 'pay' AS attribute, '0' AS low, '1000' AS high, 10 AS bins, false AS nullable;
    CREATE TABLE asked AS SELECT 'pay' AS measure, NULL::VARCHAR AS predicate, {} AS always UNION ALL SELECT NULL,
        'member', false"""


@pytest.mark.parametrize(
    ("options", "always"), sampled([("", False), (", total := 3000", True), (", total := 3000", False), ("", True)], 2)
)
def test_sums_over_bins(con: Connection, options: str, always: bool) -> None:
    """The interval of such a sum is as wide as its noise and the bins together: neither is left out, and the sum is
    in it.
    """
    con.execute(BINNED.format(always))
    found = dict(con.execute(f"FROM mwem_plan('paid', asked, 1{options})").fetchall())
    line = found["always" if always else "bins"]
    (text,) = re.findall(r", and up to ([\d,]+) (a row )?from bins$", line)
    reach = float(text[0].replace(",", ""))
    assert (reach, text[1]) == ((50.0, "a row ") if not options else (150_000.0, ""))
    con.execute(f"CALL mwem_release('paid', asked, 1{options}, seed := 1)")
    ((low, high, measured),) = con.execute(
        "SELECT low, high, measured FROM mwem_answer('paid_synthetic', asked) WHERE query = 1"
    ).fetchall()
    assert measured == "in part" and low < 3 * 999 * 500 < high
    bins = reach * (1 if options else 3000)
    noise = (
        float(
            re.search(
                r"95 of 100 within "
                r"([\d,]+)",
                line,
            )[1].replace(",", "")
        )
        if always
        else 0.05 * bins
    )  # type: ignore[index]
    assert 0.9 * bins < (high - low) / 2 < 1.1 * bins + 2 * noise
    largest = found["largest measure"]
    assert largest.startswith("up to 1000, in steps of ") and ("from bins: " in largest)


def test_an_average_that_is_always_measured(con: Connection) -> None:
    """By its sum and its count, which have lines of their own; values inside a bin move the average by at most as
    much as one of them.
    """
    con.execute(BINNED.format(True) + "; UPDATE asked SET measure = 'avg(pay)' WHERE measure IS NOT NULL")
    lines = con.execute("SELECT value FROM mwem_plan('paid', asked, 1) WHERE item = 'always'").fetchall()
    assert [re.sub(r"[\d,]*\d(\.\d+)?", "N", text) for (text,) in lines] == [
        "sum of avg(pay): N cell, it is off by about N, N of N within N, and up to N a row from bins",
        "count of avg(pay): N cell, it is off by about N rows, N of N within N",
    ]
    con.execute("UPDATE asked SET always = false")
    found = dict(con.execute("FROM mwem_plan('paid', asked, 1)").fetchall())
    assert found["bins"] == "avg(pay): its interval is as wide as noise makes it, and up to 50 from bins"
