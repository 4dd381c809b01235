"""What a plan promises in words, against the noise's own distribution and real releases."""

from __future__ import annotations

import re
from math import comb

import pytest
from chance import sampled
from conftest import Connection
from thresholds import few_sets

from mwem_sql.explain import coverage
from mwem_sql.kernel.scales import typical, within


def plan(con: Connection, options: str = "", epsilon: float = 1) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item, value in con.execute(f"FROM mwem_plan('people', workload, {epsilon}{options})").fetchall():
        found.setdefault(item, []).append(value)
    return found


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"[\d,]*\.?\d+", text.split("off by about")[1])]


def shown(number: float) -> float:
    return float(f"{number:.3g}") if number < 1000 else round(number)


def scales(con: Connection, where: str) -> list[float]:
    return [
        scale for (scale,) in con.execute(f"SELECT scale FROM mwem.measurements WHERE {where} ORDER BY step").fetchall()
    ]


@pytest.mark.parametrize(
    ("options", "kind"),
    sampled([(", total := 400, rounds := 2", "pure"), (", rounds := 60, delta := 1e-6", "zcdp")], 1),
)
def test_a_measured_cell_has_the_noise_of_the_release(con: Connection, options: str, kind: str) -> None:
    con.execute("DELETE FROM workload WHERE predicate IS NOT NULL")
    con.execute("INSERT INTO workload VALUES (NULL, ['sex', 'age']), (NULL, ['member', 'age'])")
    (text,) = plan(con, options)["expect"]
    assert re.match(r"about [23] of 3 queries will be measured; a measured cell is off by about ", text)
    con.execute(f"CALL mwem_release('people', workload, 1{options})")
    (scale,) = set(scales(con, "purpose = 'round'")[:2])
    assert numbers(text)[0] == shown(typical(scale, kind))  # type: ignore[arg-type]
    assert (
        re.search(
            r"95 of 100 within "
            r"([\d,.]+)$",
            text,
        )[1]
        == f"{within(scale, kind, 0.95)}"
    )  # type: ignore[arg-type,index]


def test_what_is_measured_is_as_many_as_was_said(con: Connection) -> None:
    """Cuboids that no other candidate stands for, each measured once."""
    con.execute(
        "DELETE FROM workload; INSERT INTO workload VALUES (NULL, ['sex']), (NULL, ['city']), (NULL, ['member'])"
    )
    for rounds in (1, 2, 3, 5):
        (text,) = plan(con, f", rounds := {rounds}")["expect"]
        con.execute(f"CALL mwem_release('people', workload, 1, rounds := {rounds}, output := 'o{rounds}')")
        measured = con.execute(
            "SELECT count(DISTINCT query) FROM mwem.measurements JOIN mwem.releases USING (release) WHERE output = ?",
            [f"memory.main.o{rounds}"],
        ).fetchall()[0][0]
        assert text.startswith(f"about {measured} of 3 queries will be measured")


def test_parts_of_sets_are_known_at_least_so_well(con: Connection) -> None:
    """Also one that takes several partitions, of which the last has the most rows to tell."""
    con.execute("UPDATE workload SET predicate = NULL, group_by = ['age', 'city'] WHERE predicate = 'age > 40'")
    con.execute("UPDATE workload SET group_by = ['sex', 'age'] WHERE group_by = ['sex', 'city']")
    (text,) = plan(con)["expect"]
    assert text.startswith(
        "all 3 queries are about what is measured: 3 joint distributions, refined; a measured part is off by about "
    )
    least, most = numbers(text)[:2]
    con.execute("CALL mwem_release('people', workload, 1)")
    best = con.execute(
        "SELECT min(scale) FROM mwem.measurements WHERE purpose = 'round' GROUP BY name ORDER BY 1"
    ).fetchall()
    assert len(best) == 3
    assert shown(typical(best[0][0], "pure")) <= least
    assert shown(typical(best[-1][0], "pure")) <= most


def test_a_histogram_of_parities(con: Connection) -> None:
    con.execute("CREATE OR REPLACE TABLE workload AS FROM mwem_parities('people', 2)")
    con.execute("ALTER TABLE workload ADD COLUMN always BOOLEAN DEFAULT true")
    found = plan(con)
    assert found["always"] == ["the histogram tells all of them"]
    (text,) = found["expect"]
    con.execute("CALL mwem_release('people', workload, 1)")
    (scale,) = scales(con, "purpose = 'round'")
    cells = int(re.search(r"one histogram of (\d+) cells", text)[1])  # type: ignore[index]
    # The mean absolute value of a sum of k Laplace terms is scale 2 k C(2k, k) / 4^k; ours is that of a normal sum.
    assert numbers(text)[0] == pytest.approx(scale * 2 * cells * comb(2 * cells, cells) / 4**cells, rel=0.1)


def test_what_is_always_measured_has_its_own_error(con: Connection) -> None:
    con.execute("ALTER TABLE workload ADD COLUMN always BOOLEAN; ALTER TABLE workload ADD COLUMN measure VARCHAR")
    con.execute(
        "UPDATE workload SET always = true WHERE group_by IS NOT NULL; INSERT INTO workload VALUES ('member', NULL, "
        "true, 'age')"
    )
    for options in ("", ", rounds := 2", ", rounds := 2, average := true"):
        cells, summed = plan(con, options)["always"]
        con.execute(f"CALL mwem_release('people', workload, 1{options}, output := 'o', version := 'v{options}')")
        (one, other) = scales(con, "purpose = 'always' AND release = (SELECT max(release) FROM mwem.releases)")
        assert cells.startswith("sex, city: 8 cells, each is off by about ")
        assert numbers(cells)[0] == shown(typical(one, "pure"))
        assert summed.startswith("sum(age) WHERE member: 1 cell, it is off by about ")
        assert numbers(summed)[0] == shown(typical(other, "pure"))
        assert numbers(summed)[-1] == shown(within(other, "pure", 0.95))


def test_many_that_are_always_measured_are_cut(con: Connection) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE workload AS SELECT 'age > ' || i AS predicate, true AS always FROM range(30) t(i)"
    )
    found = plan(con)["always"]
    assert (len(found), found[-1]) == (21, "... and 10 more")


def test_where_nothing_is_asked(con: Connection) -> None:
    con.execute(
        "CREATE TABLE paid (pay DOUBLE CHECK (pay BETWEEN 0 AND 200000), day DATE NOT NULL CHECK (day BETWEEN "
        "'2020-01-01' AND '2020-12-31'), zip ENUM ('a', 'b', 'c'), age INTEGER CHECK (age BETWEEN 0 AND 9))"
    )
    con.execute(
        "CREATE TABLE w AS SELECT unnest(['pay > 50000', 'day < ''2020-07-01''', 'zip = ''a''', 'age % 2 = 0']) AS "
        "predicate"
    )

    def told(options: str) -> list[tuple[str, ...]]:
        return con.execute(f"SELECT value FROM mwem_plan('paid', w, 1{options}) WHERE item = 'told apart'").fetchall()

    assert told("") == [
        ("pay: nothing is asked inside [0, 50,000], [50,000, 200,000]; its own distribution is measured there",),
        (
            (
                "day: nothing is asked inside [2020-01-01, 2020-06-30], [2020-07-01, 2020-12-31]; its own distribution "
                "is measured there"
            ),
        ),
        ("zip: nothing is asked inside 2 groups of its 3 values; its own distribution is measured there",),
    ]
    assert all(text.endswith("; rows are spread evenly there") for (text,) in told(", rounds := 2"))
    con.execute("CREATE OR REPLACE TABLE w AS SELECT 'pay > ' || 1000 * i AS predicate FROM range(1, 150) t(i)")
    assert told("") == []


def test_how_many_this_epsilon_serves(con: Connection) -> None:
    (text,) = plan(con, epsilon=0.5)["serves"]
    assert text.startswith("a cell of one query that is measured alone is off by about 1.92 rows; of each of 10: ")
    found = [float(number.replace(",", "")) for number in re.findall(r": ([\d.,]*\d)", text)]
    assert found == [shown(typical(2.0 * count, "pure")) for count in (10, 100, 1000)]
    (text,) = plan(con, ", total := 10000", epsilon=0.5)["serves"]
    served = int(re.search(r"; (\d+) can be served with 100 rows, 1% of the total$", text)[1])  # type: ignore[index]
    assert typical(2.0 * served, "pure") <= 100 < typical(2.0 * (served + 1), "pure")


def test_advice_comes_true(con: Connection) -> None:
    """Each number is that of the plan that it advises."""
    now = plan(con, ", rounds := 60")
    delta, fewer, coarser = now["advice"]
    before, after = re.fullmatch(
        r"delta := 1e-6 would bring ([\d.]+) rows down to "
        r"([\d.]+)",
        delta,
    ).groups()  # type: ignore[union-attr]
    assert numbers(now["expect"][0])[0] == float(before)
    assert numbers(plan(con, ", rounds := 60, delta := 1e-6")["expect"][0])[0] == float(after)
    after = re.fullmatch(
        r"fewer queries: rounds := 30 would bring [\d.]+ rows down to "
        r"([\d.]+)",
        fewer,
    )[1]  # type: ignore[index]
    assert numbers(plan(con, ", rounds := 30")["expect"][0])[0] == float(after)
    assert coarser.startswith("coarser groups: a sum over 4 measured cells (of up to 8) has 2 times the noise")


def test_no_advice_that_would_not_help(con: Connection) -> None:
    """Of one round Laplace noise is the smaller one at this delta; under a cap of epsilon a delta is refused."""
    assert not [text for text in plan(con, ", rounds := 1").get("advice", []) if "delta" in text]
    con.execute("CALL mwem_budget('people', 10)")
    assert not [text for text in plan(con, ", rounds := 60")["advice"] if "delta" in text]


def test_without_the_largest_set_the_others_are_better(con: Connection) -> None:
    (advice,) = plan(con)["advice"]
    assert advice.startswith("fewer queries: without those about sex, city the noise on all others would be ")
    con.execute("CREATE TABLE before AS FROM workload; DELETE FROM workload WHERE group_by IS NOT NULL")
    after = con.execute("SELECT value FROM mwem_plan('people', workload, 1) WHERE item = 'expect'").fetchall()[0][0]
    con.execute("DELETE FROM workload; INSERT INTO workload FROM before")
    least = numbers(plan(con)["expect"][0])
    found = float(advice.rsplit(" ", 3)[1])
    # Parts of age (2 classes) and of sex and member (4) are by ranges: their noise is the largest, and falls by this
    # much.
    assert numbers(after)[1] == pytest.approx(found * max(least[:2]), rel=0.05)  # to whole rows


def test_a_plain_call_of_many_sets(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    few_sets(monkeypatch, 2)
    (text,) = plan(con)["expect"]
    assert text.startswith("about 3 of 3 queries will be measured; a measured cell is off by about ")


@pytest.mark.parametrize(
    ("number", "text"), [(999.4, "999"), (999.7, "1,000"), (1e6, "1,000,000"), (0.01234, "0.0123")]
)
def test_numbers_are_for_people(number: float, text: str) -> None:
    assert coverage._short(number) == text
