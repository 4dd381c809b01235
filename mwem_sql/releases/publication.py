"""When a release is good enough to be published: a condition on the certificate's figures, its noise counted.

A figure stands for the largest that the truth may be, 95 times in 100, and a condition only asks for small figures: so
what meets it meets it 95 times in 100 in truth. Must not see anything but released figures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.errors import RELEASE, MwemError, OptionError, did_you_mean, refuse
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold

_FIGURES: Final[Mapping[str, Callable[[float, float], float]]] = {
    "mean_share": lambda mean, within: min(1.0, mean + within),
    "mean_error": lambda mean, within: min(1.0, mean + within),
    "mean_error_within": lambda _, within: within,
}
"""What a name stands for, by mean_error and mean_error_within of the summary. Two are one figure under two names."""
_EXAMPLE: Final = "publish_if := 'mean_share < 0.1'"


@dataclass(frozen=True)
class PublicationCondition:
    """Comparisons `figure < number` and `figure <= number`, joined by AND and OR."""

    text: str
    tree: exp.Expr

    @classmethod
    def parse(cls, text: str) -> PublicationCondition:
        """Read a condition; refused if it says anything else, or can never be met: noise is never 0."""
        try:
            tree = dialect.expression(text)
        except SqlglotError:
            raise _refused(text, "is not an SQL condition", f"write {_EXAMPLE}") from None
        condition = cls(text, tree)
        if not condition._holds(tree, 0.0, sys.float_info.min):
            raise _refused(text, "can never be met: no figure is below 0, and noise is never 0", f"write {_EXAMPLE}")
        return condition

    def holds(self, mean: float | None, within: float | None) -> bool:
        """Whether a release with these figures may be published; without figures it may not."""
        return mean is not None and within is not None and self._holds(self.tree, mean, within)

    def _holds(self, node: exp.Expr, mean: float, within: float) -> bool:
        if isinstance(node, exp.Paren):
            return self._holds(node.this, mean, within)
        if isinstance(node, (exp.And, exp.Or)):
            both = [self._holds(side, mean, within) for side in (node.left, node.right)]  # both are read, and checked
            return all(both) if isinstance(node, exp.And) else any(both)
        if not isinstance(node, (exp.LT, exp.LTE, exp.GT, exp.GTE)):
            what = f"has {dialect.sql(node)!r}, and may only say that figures are below numbers, with AND and OR"
            raise _refused(self.text, what, f"write {_EXAMPLE}")
        small, large = (node.left, node.right) if isinstance(node, (exp.LT, exp.LTE)) else (node.right, node.left)
        figure, most = self._figure(small, mean, within), self._number(large)
        return figure < most if isinstance(node, (exp.LT, exp.GT)) else figure <= most

    def _figure(self, node: exp.Expr, mean: float, within: float) -> float:
        if not isinstance(node, exp.Column) or node.table:
            what = f"has {dialect.sql(node)!r} on the smaller side, where a figure must be"
            raise _refused(self.text, what, f"the figures are {', '.join(_FIGURES)}: {_EXAMPLE}")
        figure = _FIGURES.get(fold(node.name))
        if figure is None:
            hint = f"{did_you_mean(node.name, _FIGURES, shown=str)}the figures are {', '.join(_FIGURES)}"
            raise _refused(self.text, f"names {node.name!r}, which is no figure of the certificate", hint)
        return figure(mean, within)

    def _number(self, node: exp.Expr) -> float:
        negative = isinstance(node, exp.Neg)
        literal = node.this if negative else node
        if not isinstance(literal, exp.Literal) or literal.is_string:
            what = f"has {dialect.sql(node)!r} on the larger side, where a number must be"
            raise _refused(self.text, what, f"write {_EXAMPLE}")
        return -float(literal.this) if negative else float(literal.this)


def _refused(text: str, what: str, hint: str) -> MwemError:
    return refuse(OptionError, RELEASE, f"publish_if ({text!r}) {what}", hint)
