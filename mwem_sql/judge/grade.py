"""How good a release is for its workload, in one word, and the sentences that say why. Owns the limits of the words.

From stored, released facts only: what was measured, the noise of that, and the certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

Word: TypeAlias = Literal["good", "fair", "poor"]

WRONG: Final[Mapping[Word, float]] = {"good": 0.05, "fair": 0.20}
"""Share of the rows in wrong cells of a question, on average over the workload, up to which a release has the word.
Larger: more releases have it."""
MEASURED_SHARE: Final = 0.5
"""Share of the workload's questions that a good release has measured."""
LITTLE: Final = 0.1
"""Share of the workload's questions below which a summary warns that little was measured."""


def wrong(measured: float, noise: float | None, everything: float | None, others: float | None) -> float:
    """Share of the rows in wrong cells of a question that is to be expected, on average over the workload.

    No more than 1. `measured` is the share of the questions that were measured and `noise` what their noise alone
    explains. `everything` and `others` are what the certificate says at most, of all questions and of those that were
    not measured; None without one. Noise on the certificate may be larger than all that it tells: the smaller of both
    ways counts.
    """
    of_parts = measured * (1.0 if noise is None else noise) + (1 - measured) * (1.0 if others is None else others)
    return min(1.0, of_parts, 1.0 if everything is None else everything)


def word(facts: Mapping[str, Any]) -> Word:
    """Good, fair or poor."""
    share = facts["wrong"]
    if share <= WRONG["good"] and facts["measured"] >= MEASURED_SHARE * facts["queries"]:
        return "good"
    return "fair" if share <= WRONG["fair"] else "poor"


def meaning(facts: Mapping[str, Any]) -> str:
    """Why it has that word, in a sentence or two."""
    share = facts["wrong"]
    expected = f"about {percent(share)} of the rows are to be expected in a wrong cell of a question"
    if share >= 1:
        expected = "nothing is known of how many rows are in a wrong cell of a question"
    return f"{measured(facts)}; {expected}, on average over the workload."


def limits() -> str:
    """What the words mean, for whoever reads one."""
    good, fair = (percent(WRONG[each]) for each in ("good", "fair"))
    return (
        f"good: at most {good} of the rows in wrong cells, and at least {percent(MEASURED_SHARE)} of the questions "
        "were measured; "
        f"fair: at most {fair}; poor: more, or not known."
    )


def measured(facts: Mapping[str, Any]) -> str:
    """How many of the questions were measured."""
    count, queries = facts["measured"], facts["queries"]
    return f"{count:,} of {queries:,} {'question was' if queries == 1 else 'questions were'} measured"


def warning(facts: Mapping[str, Any]) -> str | None:
    """What to know where nothing or little was measured."""
    count = facts["measured"]
    if count >= LITTLE * facts["queries"]:
        return None
    return f"{measured(facts)}; ask fewer, or spend more"


def mean_error(facts: Mapping[str, Any]) -> str | None:
    """The certified mean error, in words, with how sure it is; None without a certificate."""
    mean, within = facts.get("mean_error"), facts.get("mean_error_within")
    if mean is None or within is None:
        return None
    if within >= mean:
        return f"not known better than {percent(min(1.0, mean + within))} of the rows"
    return f"{percent(mean)} ± {percent(within)} of the rows"


def percent(share: float) -> str:
    """A share for people: three digits below 1%, two up to 10%."""
    value = 100 * share
    if value >= 10 or value == 0 or float(value).is_integer():
        return f"{value:.0f}%"
    return f"{value:.1f}%" if value >= 0.1 else f"{value:.2g}%"
