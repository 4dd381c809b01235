"""SQL text that asks about one attribute, for the builders of workloads. Evaluates nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.domains.attribute import Attribute
from mwem_sql.errors import OptionError, refuse
from mwem_sql.language.dialect import quoted


def is_binary(attribute: Attribute) -> bool:
    return attribute.cells == 2 and not attribute.has_bins


def random_ranges(attribute: Attribute, count: int, generator: np.random.Generator) -> list[str]:
    """So many predicates: two values of the domain each, in order, both ends included."""
    if attribute.values is not None:
        raise refuse(
            OptionError,
            "mwem_ranges",
            f"attribute {attribute.name} has a list of values, not bounds",
            "ranges need numbers, dates or timestamps",
        )
    assert attribute.low is not None and attribute.high is not None
    scale = attribute.ordered
    if scale.discrete:
        ends: npt.NDArray[Any] = generator.integers(int(attribute.low), int(attribute.high), (count, 2), endpoint=True)
    else:
        ends = generator.uniform(attribute.low, attribute.high, (count, 2))
    ends.sort(axis=1)
    column = quoted(attribute.name)
    quote = "" if scale.family in {"integer", "decimal", "real"} else "'"
    return [
        f"{column} BETWEEN {quote}{scale.text(low)}{quote} AND {quote}{scale.text(high)}{quote}"
        for low, high in ends.tolist()
    ]


def sign(attribute: Attribute) -> str:
    """SQL that is 1 on the first of two values and -1 on the second."""
    first = attribute.values[0] if attribute.values is not None else attribute.text(attribute.low or 0)
    literal = exp.Literal.string(first).sql("duckdb")
    return f"CASE WHEN {quoted(attribute.name)} = {literal} THEN 1 ELSE -1 END"
