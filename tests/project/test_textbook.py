"""The textbook's methods: against dense algebra, in the limit of no noise, on average, and what each spends."""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import oracle
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import regret
import regret_limit
import regret_marginals
import shapes
import textbook
from boxes import Boxes
from results import Results
from shapes import Data
from textbook.curator import Curator
from textbook.dawa import dawa, partition
from textbook.greedyh import PARTS, fitted_shares, greedyh
from textbook.grids import agrid
from textbook.hb import branching
from textbook.hilbert import order
from textbook.mwem import multiplicative_weights, mwem
from textbook.oneways import marginal, oneways
from textbook.tree import blocks, consistent, halvings

NO_NOISE = 1e9
# MWEM has ten rounds, and uniform one number: they are not exact without noise.
EXACT = [(dims, way) for dims, methods in textbook.METHODS.items() for way in methods if way not in {"mwem", "uniform"}]
ALL = [(dims, way) for dims, methods in textbook.METHODS.items() for way in methods]
SMALL = {1: (37,), 2: (12, 16), 3: (4, 6, 5)}


def small(dims, seed=0):
    histogram = np.random.default_rng(seed).poisson(20, SMALL[dims]).astype(float)
    return histogram, Boxes.random(SMALL[dims], 60, seed)


class Recording(Curator):
    """Keeps what was asked as rows of a matrix, with the answers and their noise."""

    def __init__(self, histogram, generator):
        super().__init__(histogram, generator)
        self.asked, self.answers, self.variances = [], [], []

    def counts(self, groups, share):
        found = super().counts(groups, share)
        for group, count in enumerate(found):
            self.asked.append(groups == group)
            self.answers.append(count)
            self.variances.append(2 / share**2)
        return found


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_boxes_count_what_their_predicates_say(dims):
    data = Data("hills", dims, 1000)
    histogram, table = shapes.histogram(data, None), shapes.rows(data, None)
    boxes = Boxes.random(histogram.shape, 40, seed=5)
    dense = np.array([boxes.inside(number) for number in range(len(boxes))])
    con = table.connect()
    counted = [
        con.execute(f"SELECT count_if({query.predicate}) FROM private").fetchall()[0][0]
        for query in boxes.workload(list(table.sizes))
    ]
    assert boxes.answers(histogram).tolist() == counted == (dense @ histogram.ravel()).tolist()


def test_prefixes_are_all_of_them():
    counts = np.arange(1.0, 8)
    assert Boxes.prefixes(7).answers(counts).tolist() == np.cumsum(counts).tolist()


@pytest.mark.parametrize("way", ["hb", "quadtree"])
@pytest.mark.parametrize("dims", [1, 2])
def test_a_hierarchy_is_the_weighted_least_squares_of_what_it_measured(dims, way):
    histogram, boxes = small(dims)
    curator = Recording(histogram, np.random.default_rng(1))
    found = textbook.METHODS[2][way](curator, 0.5, boxes)
    weight = 1 / np.sqrt(curator.variances)
    dense = np.linalg.lstsq(np.array(curator.asked) * weight[:, None], np.array(curator.answers) * weight, rcond=None)[
        0
    ]
    assert found == pytest.approx(dense)


def test_greedyh_is_the_weighted_least_squares_of_what_it_measured():
    histogram, boxes = small(1)
    curator = Recording(histogram, np.random.default_rng(1))
    found = greedyh(curator, 0.5, boxes.sample(60))
    weight = 1 / np.sqrt(curator.variances)
    dense = np.linalg.lstsq(np.array(curator.asked) * weight[:, None], np.array(curator.answers) * weight, rcond=None)[
        0
    ]
    assert found == pytest.approx(dense)


def test_a_node_without_a_measurement_takes_no_part():
    groups = [np.array([0, 0, 1]), np.arange(3)]
    measured, variance = (
        [np.array([10.0, 99.0]), np.array([3.0, 4.0, 5.0])],
        [np.array([2.0, np.inf]), np.array([1.0, 3.0, 1.0])],
    )
    assert consistent(groups, measured, variance) == pytest.approx([3 + 3 / 6, 4 + 3 * 3 / 6, 5])


def expected_error(queries, shares):
    """Of the least squares over a binary tree with these shares, by dense algebra.

    Laplace noise has twice the squared scale as its variance.
    """
    leaves = queries.shape[1]
    information = np.zeros((leaves, leaves))
    for above, share in zip(range(len(shares) - 1, -1, -1), shares, strict=True):
        group = np.arange(leaves) >> above
        information += share**2 * (group[:, None] == group)
    return 2 * np.trace(queries @ np.linalg.inv(information) @ queries.T) / len(queries)


@pytest.mark.parametrize(
    "boxes",
    [Boxes.prefixes(128), Boxes.random((128,), 300, 1), Boxes.random((100,), 300, 2)],
    ids=["prefixes", "ranges", "100"],
)
def test_greedyh_fits_its_budget_to_the_workload(boxes):
    queries = np.array([boxes.inside(number) for number in range(len(boxes))], dtype=float)
    shares = fitted_shares(queries)
    assert shares.sum() == pytest.approx(1)
    even = np.full(len(shares), 1 / len(shares))
    single = np.eye(len(shares))[-1]
    assert expected_error(queries, shares) < min(expected_error(queries, even), expected_error(queries, single))


@pytest.mark.parametrize("whole", [1, 400, pytest.param(4000, marks=pytest.mark.thorough)])
def test_greedyh_splits_between_a_pair_and_its_cells_as_trying_all_would(whole):
    queries = np.array([[1.0, 1.0]] * whole + [[1.0, 0.0], [0.0, 1.0]])
    tried = [expected_error(queries, [part, 1 - part]) for part in PARTS]
    assert fitted_shares(queries)[0] == pytest.approx(PARTS[int(np.argmin(tried))])


def test_greedyh_asks_cells_where_the_workload_does():
    assert fitted_shares(np.eye(16)) == pytest.approx(np.eye(5)[-1])


def test_greedyh_has_the_error_that_dense_algebra_expects():
    boxes = Boxes.prefixes(32)
    queries = np.array([boxes.inside(number) for number in range(32)], dtype=float)
    expected = expected_error(queries, fitted_shares(queries))
    generator = np.random.default_rng(3)
    runs = [
        np.mean(boxes.answers(textbook.released("greedyh", np.zeros(32), 1.0, boxes, generator)) ** 2)
        for _ in range(400)
    ]
    assert abs(np.mean(runs) - expected) < 5 * np.std(runs) / math.sqrt(len(runs))


@pytest.mark.parametrize(("dims", "way"), EXACT)
def test_without_noise_a_method_has_the_histogram(dims, way):
    histogram, boxes = small(dims)
    found = textbook.released(way, histogram, NO_NOISE, boxes, np.random.default_rng(2))
    assert found.ravel() == pytest.approx(histogram.ravel(), abs=1e-4)


@pytest.mark.parametrize(("dims", "way"), ALL)
def test_a_method_spends_all_that_it_has_on_every_cell_and_no_more(dims, way):
    """A record that MWEM's boxes do not hold pays for the choice alone, the others for all."""
    histogram, boxes = small(dims)
    curator = Curator(histogram, np.random.default_rng(3))
    textbook.METHODS[dims][way](curator, 0.7, boxes)
    assert curator.spent.max() <= 0.7 * (1 + 1e-9)
    assert curator.spent.min() >= (0.35 if way == "mwem" else 0.7) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("dims", "way"), [case for case in EXACT if case[1] in {"identity", "hb", "greedyh", "quadtree"}]
)
def test_what_does_not_look_at_the_data_is_right_on_average(dims, way):
    histogram, boxes = small(dims)
    generator = np.random.default_rng(4)
    truth = boxes.answers(histogram)
    off = np.array(
        [boxes.answers(textbook.released(way, histogram, 1.0, boxes, generator)) - truth for _ in range(200)]
    )
    assert np.abs(off.mean(axis=0) / (off.std(axis=0) / math.sqrt(len(off)))).max() < 5


def test_overspending_is_refused(monkeypatch):
    histogram, boxes = small(1)
    monkeypatch.setitem(
        textbook.LINE, "identity", lambda curator, epsilon, _: curator.counts(np.arange(curator.cells), 2 * epsilon)
    )
    with pytest.raises(AssertionError, match="identity"):
        textbook.released("identity", histogram, 1.0, boxes, np.random.default_rng(0))


def test_counts_have_laplace_noise_of_one_over_the_share():
    curator = Curator(np.zeros(20_000), np.random.default_rng(5))
    found = curator.counts(np.arange(20_000), 0.25)
    # The mean of |Laplace(4)| is 4, its deviation 4.
    assert abs(np.abs(found).mean() - 4) < 5 * 4 / math.sqrt(20_000)


def test_the_account_is_per_cell_and_follows_another_order():
    curator = Curator(np.zeros(4), np.random.default_rng(0))
    curator.along(np.array([2, 0, 3, 1])).counts(np.array([0, 0, -1, 1]), np.array([0.5, 0.25]))
    assert curator.spent.tolist() == [0.5, 0.25, 0.5, 0.0]


def test_the_exponential_mechanism_has_its_odds():
    curator = Curator(np.zeros(1), np.random.default_rng(6))
    drawn = [curator.choose(lambda _: np.array([0.0, 2.0]), 1.0) for _ in range(4000)]
    expected = math.e / (1 + math.e)
    assert abs(np.mean(drawn) - expected) < 5 * math.sqrt(expected * (1 - expected) / 4000)


def test_hb_takes_the_branching_of_the_rule():
    assert branching(4096) == 16
    assert branching(256) == 16
    assert branching(5) == 5


def test_blocks_and_halvings_are_nested_and_end_in_single_cells():
    for shape in ((16,), (6, 9), (4, 3, 5)):
        assert sorted(blocks(shape, 1)) == list(range(math.prod(shape)))
        for fine, coarse in ((blocks(shape, 2), blocks(shape, 4)), (halvings(shape, 2), halvings(shape, 1))):
            assert len(np.unique(fine)) == len(np.unique(np.stack([fine, coarse]), axis=1).T)
        assert len(np.unique(halvings(shape, 4))) == math.prod(shape)


def test_dawa_finds_the_steps_and_keeps_what_is_even_together():
    counts = np.repeat([100.0, 0.0, 40.0], [32, 64, 32])
    curator = Curator(counts, np.random.default_rng(7))
    begins = partition(curator, NO_NOISE, 1.0)
    assert {32, 96} <= set(begins.tolist())
    # 128 cells in buckets of a power of two, at a cost of 1 for each: 32 + 64 + 32.
    assert begins.tolist() == [0, 32, 96]


def test_dawas_partition_is_the_cheapest_of_all():
    counts = np.random.default_rng(8).poisson(4, 8).astype(float)
    begins = partition(Curator(counts, np.random.default_rng(9)), NO_NOISE, 0.3)

    def cost(cuts):
        parts = np.split(counts, cuts)
        return sum(np.abs(part - part.mean()).sum() + 1 / 0.3 for part in parts)

    allowed = [
        cuts
        for size in range(8)
        for cuts in itertools.combinations(range(1, 8), size)
        if all(len(part) in {1, 2, 4, 8} for part in np.split(counts, cuts))
    ]
    assert cost(begins[1:]) == pytest.approx(min(map(cost, allowed)))


def test_dawa_spends_a_quarter_on_its_partition():
    histogram, boxes = small(1)
    curator = Recording(histogram, np.random.default_rng(1))
    shares = []
    curator.values = lambda function, scale, share: (
        shares.append(share) or Curator.values(curator, function, scale, share)
    )
    dawa(curator, 2.0, boxes.sample(60))
    assert shares == [0.5]
    assert all(variance >= 2 / 1.5**2 * (1 - 1e-9) for variance in curator.variances)


def test_dawas_noise_does_not_buy_buckets():
    """An even line under much noise.

    The least cost of a bucket is that of its count, so long buckets stay the cheaper ones.
    """
    curator = Curator(np.full(256, 5.0), np.random.default_rng(10))
    assert len(partition(curator, 0.025, 0.075)) < 64


@pytest.mark.parametrize("shape", [(8, 8), (4, 4, 4), (32, 32)])
def test_the_curve_goes_from_neighbour_to_neighbour(shape):
    along = order(shape)
    assert sorted(along) == list(range(math.prod(shape)))
    assert (np.abs(np.diff(np.unravel_index(along, shape), axis=1)).sum(axis=0) == 1).all()


def test_the_curve_of_a_box_has_every_cell_once():
    assert sorted(order((5, 12))) == list(range(60))
    assert order((9,)).tolist() == list(range(9))


def test_agrid_makes_small_cells_where_rows_are():
    histogram = np.zeros((100, 100))
    histogram[:10, :10] = 1000
    curator = Recording(histogram, np.random.default_rng(11))
    agrid(curator, 0.1)
    sizes = [int(asked.sum()) for asked in curator.asked]
    corner = [size for size, asked in zip(sizes, curator.asked, strict=True) if asked.reshape(100, 100)[0, 0]]
    elsewhere = [size for size, asked in zip(sizes, curator.asked, strict=True) if asked.reshape(100, 100)[50, 50]]
    assert min(corner) < min(elsewhere)


def test_ugrid_has_as_many_cells_as_the_rule_says():
    curator = Recording(np.full((64, 64), 10.0), np.random.default_rng(12))
    textbook.METHODS[2]["ugrid"](curator, 0.1, None)
    assert len(curator.asked) == math.ceil(math.sqrt(40960 * 0.1 / 10)) ** 2


def test_weights_by_class_are_those_of_the_listing():
    generator = np.random.default_rng(13)
    weights = np.full(48, 10.0)
    inside = generator.random((6, 48)) < 0.4
    measured = inside @ generator.poisson(10, 48).astype(float)
    dense = oracle.multiplicative_weights(
        weights, [(row[None, :].astype(float), np.array([value])) for row, value in zip(inside, measured, strict=True)]
    )
    assert multiplicative_weights(weights, inside, measured) == pytest.approx(dense)


def test_mwem_is_the_oracles_without_noise():
    histogram, boxes = small(2)
    dense = [boxes.inside(number)[None, :].astype(float) for number in range(len(boxes))]
    truth = histogram.ravel()
    start = np.full(truth.size, truth.sum() / truth.size)
    states, measured = oracle.mwem(truth, start, dense, T=4, epsilon=NO_NOISE, generator=np.random.default_rng(0))
    found = mwem(Curator(histogram, np.random.default_rng(0)), NO_NOISE, boxes, rounds=4)
    assert len(measured) == 4
    assert found == pytest.approx(states[-1], rel=1e-4)


def test_one_ways_are_a_product_of_what_was_counted():
    histograms = [np.array([30.0, 70.0]), np.array([10.0, 20.0, 70.0])]
    found = oneways(histograms, NO_NOISE, np.random.default_rng(14))
    assert marginal(found, [0, 1]) == pytest.approx(np.outer(*histograms) / 100, abs=1e-4)
    noisy = oneways([np.array([0.0, 100.0, 0.0])] * 3, 0.1, np.random.default_rng(15))
    assert all((one >= 0).all() for one in noisy)
    assert len({round(one.sum(), 6) for one in noisy}) == 1


def test_one_ways_have_an_even_part_of_epsilon_each():
    histogram = np.full(4000, 1e6)
    off = np.concatenate([one - histogram for one in oneways([histogram] * 2, 1.0, np.random.default_rng(16))])
    # Noise of a scale of 2, whose mean size and deviation are 2; the common sum moves all by a twentieth at most.
    assert abs(np.abs(off).mean() - 2) < 5 * 2 / math.sqrt(len(off)) + 0.05


def test_the_halves_share_nothing_and_every_shape_is_in_one():
    def names(half):
        return {name for part in shapes.HALVES[half] for own in part.values() for name in own} | set(
            regret_marginals.HALVES[half]
        )

    assert not names("choose") & names("report")
    assert set(shapes.SHAPES) <= names("choose") | names("report")
    assert len(shapes.SHAPES) >= 12
    assert all(case.name in names("choose") for data in regret.QUICK.values() for case in data)


@pytest.mark.parametrize(
    ("name", "dims"), [(name, dims) for part in shapes.HALVES.values() for dims, own in part[0].items() for name in own]
)
def test_a_shape_is_a_distribution_and_always_the_same_draws(name, dims):
    weights = shapes.distribution(name, dims)
    assert weights.shape == shapes.SIZES[dims]
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    data = Data(name, dims, 1000)
    first = shapes.histogram(data, None)
    shapes.histogram.cache_clear()
    assert first.sum() == 1000
    assert (shapes.histogram(data, None) == first).all()


def test_a_shape_as_rows_is_its_histogram():
    data = Data("hills", 2, 1000)
    table = shapes.rows(data, None)
    assert (table.histogram() == shapes.histogram(data, None)).all()
    assert table.connect().execute("SELECT count(*), count(DISTINCT (a, b)) FROM private").fetchall() == [
        (1000, int((table.histogram() > 0).sum()))
    ]


@pytest.mark.parametrize("make", [regret_marginals.households, regret_marginals.visits])
def test_a_small_table_is_within_its_domain_and_its_attributes_go_together(make):
    table = make()
    assert len(table.sizes) == 9
    assert min(table.shape) == 2
    assert max(table.shape) == 91
    assert (table.codes >= 0).all()
    assert (table.codes < np.array(table.shape)).all()
    exact = [table.histogram(names=[name]) for name in table.sizes]
    sets = list(itertools.combinations(range(9), 2))
    names = list(table.sizes)
    apart = regret_marginals.mean_l1(
        table,
        [[names[place] for place in pair] for pair in sets],
        lambda own: marginal(exact, [names.index(name) for name in own]),
    )
    assert apart > 0.2


def test_l1_of_the_truth_is_nothing_and_of_the_opposite_is_two():
    table = regret_marginals.households()
    sets = [["sex", "owns"]]
    assert regret_marginals.mean_l1(table, sets, lambda names: table.histogram(names=names)) == 0
    assert regret_marginals.mean_l1(table, sets, lambda _: np.zeros((2, 2))) == 1


def kept(tmp_path, errors):
    """Results with an error per way and case."""
    results = Results(tmp_path)
    cases = [
        {
            "experiment": "regret",
            "data": data,
            "name": data,
            "dims": 1,
            "n": n,
            "workload": "ranges",
            "epsilon": epsilon,
            "way": way,
            "run": 0,
        }
        for data, n, epsilon, ways in errors
        for way in ways
    ]
    for case in cases:
        ways = next(ways for data, _, epsilon, ways in errors if (data, epsilon) == (case["data"], case["epsilon"]))
        results.keep(case, {"error": ways[case["way"]], "rows": case["n"], "seconds": 1.0})
    return regret.Errors(results, cases)


def test_regret_is_the_geometric_mean_over_the_best_of_the_textbook(tmp_path):
    found = kept(
        tmp_path,
        [
            ("x", 1000, 0.1, {"plain": 8.0, "hb": 2.0, "dawa": 4.0}),
            ("y", 100_000, 0.1, {"plain": 1.0, "hb": 9.0, "dawa": 2.0}),
        ],
    )
    assert found.ratios("plain") == {("x", 1, "ranges", 0.1): 4.0, ("y", 1, "ranges", 0.1): 0.5}
    assert regret.geometric(found.ratios("plain").values()) == pytest.approx(math.sqrt(2))
    assert found.ratios("plain", decade=5) == {("y", 1, "ranges", 0.1): 0.5}
    assert regret.geometric(found.ratios("hb").values()) == pytest.approx(math.sqrt(4.5))
    lines = regret.regrets(found, 1).splitlines()
    assert lines[2] == "| plain call | 2 | 1.41 | 4 | 0.5 | 4: x, ranges |  |"
    assert lines[3] == "| hb | 2 | 2.12 | 1 | 4.5 | 4.5: y, ranges | 1 |"


def test_growth_tells_where_the_error_rose(tmp_path, monkeypatch):
    monkeypatch.setitem(textbook.METHODS, 1, {"hb": None})
    found = kept(
        tmp_path,
        [
            ("x", 10, epsilon, {"plain": plain, "hb": 1 / epsilon})
            for epsilon, plain in ((0.1, 5.0), (1.0, 2.0), (10.0, 6.0))
        ],
    )
    lines = regret.growth(found, 1).splitlines()
    assert lines[2] == "| plain call | 1 | 5 | 2 | 6 | 1 of 2 | 3: x, ranges, to 10.0 |"
    assert "| 0 of 2 |" in lines[3]


@pytest.mark.parametrize("way", ["plain", "uniform"])
def test_a_case_is_measured_by_a_release_and_by_a_method(way, monkeypatch):
    boxes = Boxes.random((4096,), 50, seed=1)
    monkeypatch.setattr(shapes, "workload", lambda *_: boxes)
    found = regret.measure(
        {"name": "even", "dims": 1, "n": 1000, "workload": "ranges", "epsilon": 1.0, "way": way}, None
    )
    nothing = float((boxes.answers(shapes.histogram(Data("even", 1, 1000), None)) ** 2).mean())
    assert found["rows"] == 1000
    assert 0 < found["error"] < nothing / 10


def test_the_predicates_of_the_limit_are_ten_and_one_is_rare():
    assert len(set(regret_limit.PREDICATES)) == 10
    assert "race LIKE 'A%'" in regret_limit.PREDICATES
