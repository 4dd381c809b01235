"""benchmarks/floors.py: tables are what it says, textbook methods have the noise that they should, works run."""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import floors
import floors_works
import made
import shapes
import tables
import textbook
from floors_works import ODD, Marginals, Questions
from textbook.laplace import Noise

from mwem_sql.workload import Query

pytestmark = pytest.mark.thorough

VARIANTS = [variant for variants in made.HALVES.values() for variant in variants]


def test_the_halves_share_no_variant_and_no_rows():
    assert not set(made.HALVES["choose"]) & set(made.HALVES["report"])
    for make in (made.disability, made.loan_codes, made.salaries, made.wages):
        drawn = [make(variant) for variant in VARIANTS]
        assert all((one.codes != other.codes).any() for one, other in itertools.combinations(drawn, 2))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("make", "rows", "columns", "largest"),
    [
        (made.disability, 21_574, 16, 2),
        (made.loan_codes, 5_960, 13, 21),
        (made.salaries, 3_755, 10, 24),
        (made.wages, 6_704, 6, 190),
    ],
)
def test_a_generated_table_is_within_its_domain(make, rows, columns, largest, variant):
    table = make(variant)
    assert (table.rows, len(table.sizes), max(table.shape)) == (rows, columns, largest)
    assert min(table.shape) >= 2
    assert (table.codes >= 0).all()
    assert (table.codes < np.array(table.shape)).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_has_the_same_odd_rows(variant):
    con = made.connect_loans(variant)
    counts = ", ".join(f"count_if({text})" for text, _ in ODD.values())
    assert con.execute(f"SELECT {counts} FROM private").fetchone() == tuple(count for _, count in ODD.values())
    con.close()


def test_noise_on_each_question_has_an_equal_share_of_epsilon():
    noise = Noise.of(4, 2.0)
    assert noise.kind == "laplace"
    assert noise.mean == pytest.approx(4 / 2)
    drawn = np.abs(noise.draw(20_000, np.random.default_rng(0)))
    # The size of Laplace noise has its mean as its deviation.
    assert drawn.mean() == pytest.approx(2, abs=5 * 2 / math.sqrt(20_000))


def test_a_delta_is_used_where_gaussian_noise_is_less():
    noise = Noise.of(100, 1.0, 1e-6)
    assert noise.kind == "gaussian"
    assert noise.mean < Noise.of(100, 1.0).mean
    assert Noise.of(2, 1.0, 1e-6) == Noise.of(2, 1.0)
    drawn = noise.draw(20_000, np.random.default_rng(0))
    assert drawn.std() == pytest.approx(noise.deviation, rel=5 / math.sqrt(2 * 20_000))
    assert np.abs(drawn).mean() == pytest.approx(noise.mean, rel=5 / math.sqrt(20_000))


@pytest.mark.parametrize("kind", floors_works.KINDS)
def test_questions_are_distinct_and_their_truth_is_that_of_a_comparison(kind):
    queries = floors_works.predicates(kind, "severity")
    assert len({query.predicate for query in queries}) == floors_works.QUESTIONS
    assert queries != floors_works.predicates(kind, "classes") or kind == "two columns"
    work = Questions(name=kind, table="severity", epsilon=10.0, queries=queries[:3])
    with work.released(0) as (released, _):
        rows = work.compared(released.output)
        assert rows["true_answer"].tolist() == [own[0, 0] for own in work.truth]
        assert work.error(released) == pytest.approx(np.abs(rows["answer"] - rows["true_answer"]).mean())


def test_errors_of_sums_and_averages_are_in_parts_of_their_bounds():
    queries = (Query(measure="VALUE", group_by=("BAD",)), Query(measure="avg(YOJ)", group_by=("BAD",)))
    work = Questions(name="sums", table="severity", epsilon=1.0, queries=queries, bounds=(900.0, 45.0))
    assert work.mean([np.array([900.0, 2700.0]), np.array([9.0, np.nan])]) == pytest.approx((2 + 0.2) / 2)
    assert 0 < dict(work.textbook(np.random.default_rng(0)))["noise on each"] < 2
    with work.released(0) as (released, _):
        rows = work.compared(released.output)
        sums, counts = np.concatenate(work.truth).T
        assert sorted(rows["true_answer"]) == pytest.approx(sorted([*sums[:2], *(sums[2:] / counts[2:])]))


def test_one_ways_of_questions_are_those_of_independent_columns():
    texts = ("VALUE > 100", "VALUE > 100 AND MORTDUE > 70", "JOB = 'Mgr' AND BAD = 1", "DEBTINC IS NULL")
    queries = (*map(Query, texts), Query(measure="avg(YOJ)", group_by=("JOB",)))
    work = Questions(name="few", table="severity", epsilon=1e9, queries=queries)
    with work.independent(np.random.default_rng(0)) as scale:
        counts = [own[0, 0] * scale for own in work.answers("independent")[:4]]
        averages = work.answers("independent")[4]
    truth = dict(zip(texts, (own[0, 0] for own in work.truth), strict=False))
    alone = {text: work.con.execute(f"SELECT avg(({text})::INT) FROM private").fetchall()[0][0] for text in
             ("coalesce(MORTDUE > 70, false)", "coalesce(JOB = 'Mgr', false)", "BAD = 1")}  # fmt: skip
    mortgage, manager, bad = alone.values()
    wanted = [truth["VALUE > 100"], truth["VALUE > 100"] * mortgage, made.LOANS * manager * bad, made.MISSING_DEBTINC]
    assert counts == pytest.approx(wanted, abs=5 * made.LOANS * 0.5 / math.sqrt(floors_works.DEALT))
    means = averages[:, 0] / averages[:, 1]
    assert len(means) == len(work.truth[4])
    assert np.ptp(means) < 1


def small(_variant):
    draw = np.random.default_rng(0)
    first = draw.integers(0, 2, 500)
    return tables.Table("small", dict.fromkeys("abc", 2), np.stack([first, first, 1 - first], axis=1))


def test_a_work_is_one_line_with_its_ratios():
    work = Marginals(name="small", table="severity", make=small, epsilon=100.0)
    cells = dict(zip(range(len(floors.HEAD)), floors.line(work, 2, curve=True), strict=True))
    assert cells[4] == "3"
    apart = dict(work.textbook(np.random.default_rng(0)))
    assert apart["one-ways"] > 0.9
    assert apart["noise on each"] < 0.1
    assert float(cells[12]) < 1
    assert [part.split(":")[0] for part in cells[16].split()] == ["1", "2"]
    assert cells[13] in {"1", "2"}
    assert floors.line(work, 1, curve=False)[-4:] == [""] * 4


def test_pairs_are_judged_where_triples_are_asked():
    work = Marginals(name="small", table="severity", make=small, epsilon=1000.0, ways=3)
    assert work.questions == 1
    assert len(work.sets) == 3
    assert work.run(0)[0] < 0.05


def test_ranges_come_out_the_same_again(monkeypatch):
    few = [shapes.Data("hills", 1, floors.ROWS)]
    monkeypatch.setattr(shapes, "listed", lambda *_, **__: few)
    monkeypatch.setitem(shapes.WORKLOADS, 1, ("ranges",))
    monkeypatch.setitem(textbook.METHODS, 1, {"dawa": textbook.LINE["dawa"], "uniform": textbook.LINE["uniform"]})
    first = floors.ranges("choose", 1)
    assert "| plain call | 1 |" in first
    assert floors.ranges("choose", 1) == first
