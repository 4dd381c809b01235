"""What a release says of rows that were left out because their unit has more rows than are used.

From released values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mwem_sql.algebra.chance import SUMMARY, Chance
from mwem_sql.algebra.measurement import NoisyValues
from mwem_sql.kernel.scales import within

FEWEST: Final = 0.01
"""The share of the units from which on the summary warns."""
LEAST_KNOWN: Final = 0.25
"""A share that may be off by more than this is not told."""


def facts(units: NoisyValues | None) -> dict[str, float | None]:
    """The share of the units of which rows were left out, and how far it is off at most, 95 times in 100."""
    if units is None:
        return {"units_cut": None, "units_cut_within": None}
    # Each of the two counts may fail with half of the chance; the share grows with one and falls with the other.
    off = within(units.scale, units.kind, 1 - Chance(SUMMARY).take("a count", 1 / 2))
    whole, cut = (max(0.0, float(count)) for count in units.values)
    least, share, most = _share(cut - off, whole + off), _share(cut, whole), _share(cut + off, whole - off)
    return {"units_cut": share, "units_cut_within": max(share - least, most - share)}


def _share(cut: float, whole: float) -> float:
    cut, whole = max(0.0, cut), max(0.0, whole)
    return cut / (cut + whole) if cut + whole > 0 else 0.0


def sentence(facts: Mapping[str, Any]) -> str | None:
    """How many rows of a unit were used, and how many units have more; None where rows are protected one by one."""
    unit, most = facts["unit"], facts["rows_per_unit"]
    if unit is None:
        return None
    used = "1 row of each {} was used" if most == 1 else f"at most {most:,} rows of each {{}} were used"
    return f"{used.format(unit)}, and all counts are of these rows: {_have_more(facts)}"


def _have_more(facts: Mapping[str, Any]) -> str:
    share, off = facts.get("units_cut"), facts.get("units_cut_within")
    if share is None or off is None:  # made before it was measured
        return "others were left out"
    if share + off < FEWEST:
        return "fewer than 1 in 100 have more"
    if off > LEAST_KNOWN:
        return "the budget was too small to tell how many have more"
    return f"about {100 * share:.0f} in 100 have more (within {max(1, round(100 * off))})"


def warning(facts: Mapping[str, Any]) -> str | None:
    """The same for the summary, unless hardly any unit seems to have more rows than were used."""
    share, off = facts.get("units_cut"), facts.get("units_cut_within") or 0.0
    return sentence(facts) if share is not None and (share >= FEWEST or off > LEAST_KNOWN) else None
