"""The word for a release: its limits, its sentences, and that it is about what is true of the table."""

from __future__ import annotations

import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.judge import grade


def facts(measured: int = 10, queries: int = 10, wrong: float | None = 0.01, **more: float) -> dict[str, float | None]:
    return {"measured": measured, "queries": queries, "wrong": wrong, **more}


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (facts(), "good"),
        (facts(wrong=0.05, measured=5), "good"),
        (facts(wrong=0.05, measured=4), "fair"),
        (facts(wrong=0.051), "fair"),
        (facts(wrong=0.2, measured=0), "fair"),
        (facts(wrong=0.201), "poor"),
        (facts(wrong=1.0, measured=0), "poor"),
    ],
)
def test_the_limits_of_the_words(given: dict[str, float | None], word: str | None) -> None:
    assert grade.word(given) == word


def test_the_limits_are_said() -> None:
    assert grade.limits() == (
        "good: at most 5% of the rows in wrong cells, and at least 50% of the questions were measured; "
        "fair: at most 20%; poor: more, or not known."
    )


@pytest.mark.parametrize(
    ("noise", "everything", "others", "share"),
    [
        (0.02, None, None, 0.25 * 0.02 + 0.75),  # no certificate: nothing is known of what was not measured
        (0.02, 0.9, 0.1, 0.25 * 0.02 + 0.75 * 0.1),
        (0.02, 0.03, 0.1, 0.03),  # the certificate of all says more
        (3.0, 5.0, 7.0, 1.0),  # no more than all rows
    ],
)
def test_the_smaller_of_what_noise_and_certificate_say(
    noise: float, everything: float | None, others: float | None, share: float
) -> None:
    assert grade.wrong(0.25, noise, everything, others) == pytest.approx(share)


@pytest.mark.parametrize(
    ("mean", "within", "text"),
    [
        (0.083, 0.02, "8.3% ± 2% of the rows"),
        (0.01, 0.03, "not known better than 4% of the rows"),
        (0.0, 0.5, "not known better than 50% of the rows"),
        (0.6, 1.0, "not known better than 100% of the rows"),
        (None, None, None),
    ],
)
def test_an_error_below_its_noise_is_not_known(mean: float | None, within: float | None, text: str | None) -> None:
    assert grade.mean_error({"mean_error": mean, "mean_error_within": within}) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.00042, "0.042%"), (0.0123, "1.2%"), (0.05, "5%"), (0.256, "26%"), (1, "100%")]
)
def test_a_share_for_people(share: float, text: str) -> None:
    assert grade.percent(share) == text


def test_a_summary_warns_when_little_was_measured() -> None:
    assert grade.warning(facts(0, 465)) == "0 of 465 questions were measured; ask fewer, or spend more"
    assert grade.warning(facts(9, 100)) == "9 of 100 questions were measured; ask fewer, or spend more"
    assert grade.warning(facts(10, 100)) is None
    assert grade.warning(facts(0, 1)) == "0 of 1 question was measured; ask fewer, or spend more"


NAMES = [f"c{k}" for k in range(12)]


@pytest.fixture
def wide(con: Connection) -> Connection:
    """Twelve columns that have to do with each other, and all their pairs: too many to measure with a small epsilon."""
    columns = ", ".join(f"{name} INTEGER NOT NULL CHECK ({name} BETWEEN 0 AND 19)" for name in NAMES)
    con.execute(f"CREATE TABLE wide ({columns})")
    values = ", ".join(f"(i * (i % {k + 2})) % 20" for k in range(12))
    con.execute(f"INSERT INTO wide SELECT {values} FROM range(500) t(i)")
    con.execute("CREATE TABLE pairs AS FROM mwem_marginals('wide', 2)")
    return con


def test_little_measured_is_poor_and_said_again_when_the_release_is_used_again(wide: Connection) -> None:
    made = [mwem_sql.release(wide, "wide", "pairs", 0.01, rows=20) for _ in range(2)]
    assert [release.reused for release in made] == [False, True]
    for release in made:
        assert release.measured <= 6 and release.quality == "poor"
        warning = f"{release.measured} of 66 questions were measured; ask fewer, or spend more"
        assert warning in (release.warning or "")
        assert release.mean_error is not None and 0 <= release.mean_error <= 1
        assert release.mean_error_within is not None and release.mean_error_within <= 1


@pytest.mark.parametrize(("epsilon", "word"), [(1.0, "good"), (0.005, "poor")])
def test_the_word_is_about_the_rows(con: Connection, epsilon: float, word: str) -> None:
    """What is to be expected is what comes out, but for chance: 9 cells of each of two questions that are measured."""
    columns = ", ".join(f"{name} INTEGER NOT NULL CHECK ({name} BETWEEN 0 AND 8)" for name in "ab")
    con.execute(f"CREATE TABLE t ({columns})")
    con.execute("INSERT INTO t SELECT i % 9, (i // 9) % 9 FROM range(1000) t(i)")
    con.execute("CREATE TABLE w AS SELECT unnest([['a'], ['b']]) AS group_by")
    expected, real, runs = 0.0, 0.0, 3
    for number in range(runs):
        made = mwem_sql.release(con, "t", "w", epsilon, output=f"o{number}", rows=20)
        assert (made.measured, made.queries, made.quality) == (2, 2, word)
        ((share,),) = con.execute("SELECT arg_max(wrong, release) FROM mwem.releases").fetchall()
        ((error,),) = con.execute(f"SELECT sum(error) FROM mwem_compare('t', 'o{number}', w)").fetchall()
        expected, real = expected + share / runs, real + error / (2 * 2 * 1000) / runs
    # The model is never below 0, which noise is: it errs less where noise is large.
    assert real / 3 < expected < 6 * real
