"""Conditions on the certificate: what they may say, and that noise is counted against a release."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mwem_sql.errors import OptionError
from mwem_sql.releases.publication import PublicationCondition

Condition = PublicationCondition.parse
SHARES = st.floats(0, 1)
CONDITIONS = (
    "mean_share < 0.1", "0.1 > MEAN_SHARE", "mean_error <= 0.5 AND mean_error_within < 0.2",
    "(mean_share <= 1e-1 OR mean_error_within < .05) AND mean_share < 1", "mean_share < 0.3 OR mean_share <= -1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "mean", "within", "holds"),
    [
        ("mean_share < 0.5", 0.25, 0.125, True),
        ("mean_share < 0.5", 0.25, 0.25, False),  # the truth may be 0.5
        ("mean_share <= 0.5", 0.25, 0.25, True),
        ("0.5 > mean_share", 0.25, 0.25, False),
        ("0.5 >= mean_share", 0.25, 0.25, True),
        ("mean_error < 0.5", 0.25, 0.25, False),  # the same figure: noise is not left out under that name
        ("mean_error_within < 0.25", 0.9, 0.125, True),
        ("mean_error_within < 0.25", 0.0, 0.25, False),
        ("mean_share <= 1", 0.9, 0.9, True),  # no share is above 1
        ("mean_share < 0.5 AND mean_error_within < 0.1", 0.1, 0.2, False),
        ("mean_share < 0.5 OR mean_error_within < 0.1", 0.1, 0.2, True),
        ("mean_share < 0.2 AND (mean_share < 0.1 OR mean_error_within < 0.1)", 0.125, 0.0625, True),
        ("mean_share < 0.5", None, None, False),  # without a certificate nothing is known
    ],
)
def test_what_holds(text: str, mean: float | None, within: float | None, holds: bool) -> None:
    assert Condition(text).holds(mean, within) is holds


@given(st.sampled_from(CONDITIONS), SHARES, SHARES, SHARES, SHARES)
def test_what_a_worse_release_meets_a_better_one_meets(
    text: str, mean: float, within: float, better: float, surer: float
) -> None:
    """So whatever meets a condition at the upper end of what may be true meets it in truth."""
    condition = Condition(text)
    if condition.holds(mean, within):
        assert condition.holds(mean * better, within * surer)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("mean_share > 0.1", "on the smaller side, where a figure must be"),
        ("NOT mean_share < 0.1", "may only say that figures are below numbers"),
        ("mean_share = 0", "may only say that figures are below numbers"),
        ("mean_share < 0.1; DROP TABLE t", "is not an SQL condition|may only say"),
        ("mean_share < '0.1'", "on the larger side, where a number must be"),
        ("mean_share < 1 - 0.9", "on the larger side, where a number must be"),
        ("t.mean_share < 0.1", "on the smaller side, where a figure must be"),
        ("mean_share < 0.1 OR rows < 5", "names 'rows', which is no figure of the certificate"),
        ("mean_share < 0", "can never be met"),
        ("mean_error <= 0 AND mean_share < 1", "can never be met"),
        ("mean_error_within <= 0", "can never be met"),
        ("", "is not an SQL condition"),
    ],
)
def test_what_is_refused(text: str, refusal: str) -> None:
    with pytest.raises(OptionError, match=refusal):
        Condition(text)
