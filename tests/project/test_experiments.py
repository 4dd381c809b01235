"""The measures behind docs/experiments.md: an error in one of them would make every figure there wrong."""

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import barak
import cubes
import listing
import ranges
import report
import results
import speed
import svd_bound
import tables

import mwem_sql
from mwem_sql.model.fit import LAST_FIT_TOLERANCE, TOLERANCE


@pytest.fixture
def table():
    generator = np.random.default_rng(1)
    first = generator.integers(0, 4, 500)
    return tables.Table(
        "small", {"a": 4, "b": 3, "c": 2}, np.stack([first, first % 3, generator.integers(0, 2, 500)], axis=1)
    )


def test_bound_of_single_cells_is_the_variance_of_gaussian_noise():
    epsilon, delta = 0.5, 1e-3
    assert svd_bound.bound_per_query(np.eye(7), epsilon, delta) == pytest.approx(2 * math.log(2 / delta) / epsilon**2)


def test_bound_does_not_depend_on_which_side_is_longer():
    wide = np.random.default_rng(2).random((5, 9))
    gram = np.linalg.svd(wide, compute_uv=False).sum() ** 2
    factor = 2 * math.log(2 / 0.01)
    assert svd_bound.bound_per_query(wide, 1, 0.01) == pytest.approx(factor * gram / 9 / 5)
    assert svd_bound.bound_per_query(wide.T, 1, 0.01) == pytest.approx(factor * gram / 5 / 9)


def test_indicators_count_what_duckdb_counts(table):
    con = table.connect()
    workload = mwem_sql.Workload.ranges(mwem_sql.Domain.from_schema(con, "private"), ["a", "b", "c"], 40, seed=3)
    counted = [con.execute(f"SELECT count_if({query.predicate}) FROM private").fetchall()[0][0] for query in workload]
    assert (ranges.indicators(workload, table.shape) @ table.histogram().ravel()).tolist() == counted


def test_cuboid_errors_are_over_every_subset_once():
    difference = np.random.default_rng(4).normal(size=(2, 3, 4, 2))
    subsets = [kept for size in range(5) for kept in itertools.combinations(range(4), size)]
    errors = [np.abs(difference.sum(axis=tuple(set(range(4)) - set(kept)))).mean() for kept in subsets]
    assert cubes.cuboid_errors(difference) == pytest.approx((np.mean(errors), max(errors)))


def test_weights_of_a_release_are_over_values(table):
    con = table.connect()
    workload = mwem_sql.Workload.from_rows([{"predicate": "a <= 1"}, {"group_by": ["b"]}, {"predicate": "c = 0"}])
    with tables.released(con, workload, 1000, total=table.rows, rows=1) as (made, _):
        weights = table.state(con, made.output)()
        answers = {row["name"]: row["answer"] for row in made.answer(workload).to_pylist() if row["name"] != "b"}
    assert weights.shape == table.shape
    assert weights[:2].sum() == pytest.approx(answers["a <= 1"])
    assert weights[:, :, 0].sum() == pytest.approx(answers["c = 0"])
    # Nothing told 0 from 1, so they share.
    assert weights[0] == pytest.approx(weights[1])


def test_parities_are_rows_of_the_hadamard_matrix():
    queries = barak.parities(4, 4)
    assert (queries @ queries.T).tolist() == (16 * np.eye(15)).tolist()
    assert len(barak.parities(6, 3)) == 6 + 15 + 20


@pytest.mark.parametrize("release", [
    lambda counts, generator: barak.released(counts, barak.parities(3, 3), 1e9, generator),
    lambda counts, generator: barak.released_with_our_fit(counts, 3, 1e9, generator),
])  # fmt: skip
def test_baseline_without_noise_has_all_marginals(release):
    counts = np.random.default_rng(5).integers(20, 60, (2, 2, 2)).astype(float)
    weights = release(counts, np.random.default_rng(6)).reshape(counts.shape)
    assert listing.relative_entropy(counts.ravel(), weights.ravel()) < 1e-4


def test_rounds_follow_the_measurements(table):
    con = table.connect()
    truth = table.histogram()
    with tables.released(con, table.marginals(2), 1e6, rounds=4, total=table.rows, rows=1) as (made, _):
        by_round = [cubes.cuboid_errors(weights - truth)[0] for weights in cubes._by_round(table, made)]
        last = cubes.cuboid_errors(table.state(con, made.output)() - truth)[0]
    assert len(by_round) == 5
    assert by_round[0] == pytest.approx(cubes.cuboid_errors(truth.mean() - truth)[0])
    assert by_round[-1] < by_round[0] / 2
    # Next to no noise: a round's fit ends within its tolerance of what there was to fit, and the last fit within its.
    assert by_round[-1] < TOLERANCE * by_round[0]
    assert last < LAST_FIT_TOLERANCE * by_round[0]


def test_a_known_case_is_not_measured_again(tmp_path):
    case = {"experiment": "ranges", "data": "x", "way": "plain", "run": 0}
    found = results.Results(tmp_path)
    found.keep(case, {"error": 2.0})
    found.keep({**case, "way": "bound"}, {"error": 4.0})
    again = results.Results(tmp_path)
    assert again.missing([case, {**case, "run": 1}]) == [{**case, "run": 1}]
    assert again.spread([case], "error", way="plain").mean == 2.0
    assert json.loads((tmp_path / "references.jsonl").read_text())["measured"] == {"error": 4.0}


def test_a_section_is_written_between_its_marks(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- cubes -->\nold\n<!-- /cubes -->\nafter\n")
    report.write("cubes", "new", None, page)
    assert page.read_text() == "before\n<!-- cubes -->\nnew\n<!-- /cubes -->\nafter\n"
    with pytest.raises(SystemExit, match="no section"):
        report.write("ranges", "new", None, page)
    assert capsys.readouterr().out == "new\nnew\n"


def test_a_work_that_got_slower_or_larger_is_reported():
    kept = {"ratio": 2.0, "peak": 100}
    assert speed.worse({"ratio": 2.1, "peak": 109}, kept) == []
    assert speed.worse({"ratio": 2.3, "peak": 100}, kept) == ["ratio"]
    assert speed.worse({"ratio": 1.0, "peak": 120}, kept) == ["peak"]
    assert speed.worse({"ratio": 9.0, "peak": 900}, speed.UNKNOWN) == []


def test_figures_are_kept_of_works_that_there_are():
    kept = json.loads(speed.FIGURES.read_text())
    assert list(kept) == ["quick", "full"]
    for figures in kept.values():
        assert set(figures) <= set(speed.WORKS)
        assert all(set(figure) == {"ratio", "peak"} for figure in figures.values())


def test_predicates_are_distinct_and_half_of_them_have_or():
    texts = speed.six_predicates(200)
    assert len(set(texts)) == 200
    assert sum(" OR " in text for text in texts) == 100
    con = mwem_sql.connect()
    speed.six_columns(con, 50)
    counts = con.execute("SELECT " + ", ".join(f"count_if({text})" for text in texts) + " FROM t").fetchall()[0]
    assert 0 < sum(counts) < 50 * 200


def test_a_small_work_is_measured():
    figures = speed.answer(64)
    assert min(figures["seconds"], figures["limit"]) > 0
