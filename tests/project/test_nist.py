"""benchmarks/nist.py: the score is NIST's, true rows have the highest, and every impossible row is counted."""

import csv
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import nist
import nist_score
import nist_table
from nist_score import Codes

import mwem_sql

pytestmark = pytest.mark.thorough

AREAS = {"48-02101": "357.4", "48-02102": "450.9"}
CATEGORIES = {
    "PUMA": list(AREAS), "SEX": "12", "MSP": "N16", "HISP": "01", "RAC1P": "12", "HOUSING_TYPE": "12", "OWN_RENT": "01",
    "DENSITY": [], "INDP": [], "INDP_CAT": "N0", "EDU": ["N", "1", "5", "12"], "PINCP_DECILE": "N01", "DVET": "N1",
    "DREM": "N12", "DPHY": "N12", "DEYE": "12", "DEAR": "12",
}  # fmt: skip
NUMBERS = {"AGEP": (0, 99), "NOC": (1, 19), "NPF": (2, 20), "PINCP": (-9000, 1_341_000), "POVPIP": (0, 500),
           "WGTP": (1, 9999), "PWGTP": (1, 9999)}  # fmt: skip
ROWS = 400


def person(draw):
    """One that can be; what is not applicable is N."""
    age, area, quarters = int(draw.integers(0, 90)), str(draw.choice(list(AREAS))), draw.random() < 0.1
    income = int(draw.integers(0, 1000)) * 50
    grown = {"MSP": "6", "PINCP": f"{income}.0", "PINCP_DECILE": str(int(income > 20_000)), "INDP_CAT": "0"}
    family = "N" if quarters else str(draw.integers(2, 5))
    return {
        **dict.fromkeys([*CATEGORIES, *NUMBERS], "1"), "PUMA": area, "DENSITY": AREAS[area], "AGEP": str(age),
        "INDP": "N", "DVET": "N", "RAC1P": str(draw.integers(1, 3)),
        "EDU": "N" if age < 3 else "1" if age < 18 else "5",
        "HOUSING_TYPE": "2" if quarters else "1", "OWN_RENT": str(int(not quarters)), "NPF": family,
        "WGTP": "0" if quarters else str(draw.integers(1, 200)), "NOC": "N" if quarters else "1",
        "DREM": "N" if age < 5 else "2", "DPHY": "N" if age < 5 else "1",
        "POVPIP": str(draw.choice([0, 120, 501])), **(dict.fromkeys(grown, "N") if age < 16 else grown),
    } | ({} if age != 15 else {"MSP": "6", "PINCP": "0.0", "PINCP_DECILE": "0"})  # fmt: skip


@pytest.fixture
def excerpt(tmp_path):
    dictionary = {name: {"values": dict.fromkeys(values, "")} for name, values in CATEGORIES.items()}
    dictionary |= {name: {"values": {"min": low, "max": high}} for name, (low, high) in NUMBERS.items()}
    for name in ("NOC", "NPF", "PINCP", "POVPIP"):
        dictionary[name]["values"]["N"] = ""
    (tmp_path / "dictionary.json").write_text(json.dumps(dictionary))
    draw = np.random.default_rng(0)
    write(tmp_path / "rows.csv", [person(draw) for _ in range(ROWS)])
    return nist_table.Excerpt(tmp_path / "rows.csv", tmp_path / "dictionary.json")


def write(path, rows):
    with path.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_true_rows_have_the_highest_score_and_none_is_impossible(excerpt):
    codes = Codes(excerpt.con)
    found = nist.figures(excerpt, codes, "private")
    assert found["score"] == 1000
    assert not any(found[name] for name in excerpt.impossible)
    assert found["any"] == 0
    assert len(excerpt.workload("pairs")) == 23 * 22 // 2
    assert len(excerpt.workload("puma")) == 22 * 21 // 2


def test_an_enlarged_excerpt_has_more_areas_and_rows_that_the_excerpt_has(excerpt, tmp_path):
    path = nist_table.enlarged(excerpt.path, tmp_path / "enlarged.csv", people=1003, areas=4)
    again = nist_table.enlarged(excerpt.path, tmp_path / "again.csv", people=1003, areas=4)
    assert path.read_text() == again.read_text()
    larger = nist_table.Excerpt(path, excerpt.dictionary)
    sizes = larger.con.execute("SELECT count(*) FROM private GROUP BY PUMA").fetchall()
    assert sorted(sizes) == [(250,), (251,), (251,), (251,)]
    assert not any(larger.broken("private").values())
    others = "SELECT * EXCLUDE (PUMA, DENSITY) REPLACE (SEX::VARCHAR AS SEX) FROM"
    rows = [set(one.con.execute(f"{others} private").fetchall()) for one in (larger, excerpt)]
    assert rows[0] <= rows[1]


def test_the_score_is_the_distance_of_shares_given_the_area(excerpt):
    codes = Codes(excerpt.con)
    excerpt.con.execute("CREATE TABLE others AS SELECT * REPLACE ('2' AS SEX) FROM private")
    # Everyone is of the other sex: nothing of 21 pairs is right, and all of the others is.
    assert codes.score(codes.of("others").shares) == pytest.approx((2 - 2 * 21 / 231) * 500)
    assert excerpt.con.execute("SELECT DISTINCT SEX::VARCHAR FROM private").fetchall() == [("1",)]


def test_numbers_are_cut_at_twentieths_and_what_is_missing_is_alone(excerpt):
    codes = Codes(excerpt.con)
    ages = np.bincount(codes.true.codes["AGEP"], minlength=codes.true.sizes["AGEP"])
    assert len(ages) == 20 + 1
    assert ages[-1] == 0
    assert ages[:-1].max() < ROWS / 20 * 2.5
    alone = codes.true.shares("POVPIP")
    assert alone[np.unique(codes.true.codes["POVPIP"])].sum() == pytest.approx(1)
    excerpt.con.execute("CREATE TABLE others AS SELECT * REPLACE (NULL::INTEGER AS POVPIP) FROM private")
    assert not set(codes.of("others").codes["POVPIP"]) & set(codes.true.codes["POVPIP"])


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("an infant at school", {"AGEP": "1", "EDU": "1"}), ("a child with a diploma", {"AGEP": "4", "EDU": "12"}),
        ("the income of a child", {"AGEP": "2", "PINCP": "100.0"}),
        ("the marriage of a child", {"AGEP": "9", "MSP": "1"}),
        ("the work of a child", {"AGEP": "9", "INDP_CAT": "0"}), ("a toddler's memory", {"AGEP": "4", "DREM": "1"}),
        ("an owner of group quarters", {"HOUSING_TYPE": "2", "OWN_RENT": "1"}),
        ("more children than family", {"NOC": "4", "NPF": "3"}),
        ("a density of another area", {"PUMA": "48-02101", "DENSITY": "450.9"}),
        ("a decile of another income", {"PINCP": "49000.0", "PINCP_DECILE": "0"}),
    ],
)  # fmt: skip
def test_an_impossible_row_is_counted(excerpt, tmp_path, rule, change):
    draw = np.random.default_rng(1)
    rows = [person(draw) for _ in range(20)]
    rows[3] |= change
    write(tmp_path / "others.csv", rows)
    found = excerpt.broken(excerpt.load(tmp_path / "others.csv"))
    assert found[rule] == pytest.approx(1 / 20)
    assert found["any"] == pytest.approx(1 / 20)


def test_models_without_noise_are_true_where_they_should_be(excerpt):
    true = Codes(excerpt.con).true
    star, tree = nist_score.star(true), nist_score.tree(true)
    exact = 0
    for one, other in itertools.combinations(true.others, 2):
        truth = true.shares("PUMA", one, other)
        for model in (star, tree):
            shares = model("PUMA", one, other)
            assert shares.sum(axis=2) == pytest.approx(true.shares("PUMA", one), abs=1e-9)
            assert shares.sum(axis=1) == pytest.approx(true.shares("PUMA", other), abs=1e-9)
        exact += np.allclose(tree("PUMA", one, other), truth)
    assert exact >= len(true.others) - 1
    assert Codes(excerpt.con).score(star) < Codes(excerpt.con).score(tree) < 1000


def test_a_release_has_a_score(excerpt, monkeypatch):
    few = mwem_sql.Workload.from_rows({"group_by": [name]} for name in excerpt.columns)
    monkeypatch.setattr(nist_table.Excerpt, "workload", lambda *_: few)
    found = nist.released(excerpt, Codes(excerpt.con), "puma", (10.0, 0.0), 1)
    assert 0 < found["score"].mean < 1000
    assert found["any"].mean >= max(found[name].mean for name in excerpt.impossible)
    assert len(nist.shown(found)) == len(nist.HEAD) - 3
    assert all(name in excerpt.impossible for name in [line[12:] for line in nist.rules(found).splitlines()])


def test_codes_of_the_domain_come_back_as_rows_of_the_same_bins(excerpt):
    table = excerpt.coded
    assert (table.codes < np.array(table.shape)).all()
    name = excerpt.decoded(table.codes, np.random.default_rng(0))
    excerpt.con.execute(f"DELETE FROM private; INSERT INTO private FROM {name}")
    del excerpt.__dict__["coded"]
    assert (excerpt.coded.codes == table.codes).all()


def test_independent_one_ways_are_below_a_model_that_knows_the_area(excerpt):
    codes = Codes(excerpt.con)
    assert nist.independent(excerpt, codes, 1e6, 1)["score"].mean < codes.score(nist_score.star(codes.true))
