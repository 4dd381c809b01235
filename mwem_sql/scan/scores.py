"""Scores of synthetic rows beside true ones, as other products print them. Not private, on purpose.

`mwem_quality` shows them to the curator, and nothing else calls this. Owns the figures and their settings. scikit-learn
is the extra `quality`: it is imported when a score is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import duckdb
import numpy as np
from sqlglot import exp

from mwem_sql.algebra.arrays import Floats, Integers
from mwem_sql.errors import OptionError, refuse
from mwem_sql.language.ticks import as_text, cast, scale_of

MOST_ROWS: Final = 50_000
"""Rows of each table that scores are made of: of larger ones a sample. More: slower, and less chance in the figures."""
BINS: Final = 20
"""Even bins of a range, in which pairs of columns are compared."""
MOST_CLASSES: Final = 50
"""Values that a target may have."""
TESTED: Final = 0.3
"""Share of the true rows that a classifier is tested on."""
SEED: Final = 0
"""Of samples, splits and classifiers, so that the same tables have the same scores."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A figure, and what it means with which settings; None where it cannot be made."""

    name: str
    value: float | None
    note: str


@dataclass(frozen=True, kw_only=True)
class Field:
    """A column that both tables have: a list of texts, or all from `low` to `high`, in ticks of its type."""

    name: str
    type: str
    values: Sequence[str] | None
    low: float
    high: float


def check_library(function: str, what: str) -> None:
    """Refuse before anything is read or noted."""
    try:
        import sklearn.ensemble  # noqa: PLC0415
        import sklearn.linear_model  # noqa: F401, PLC0415
    except ImportError:
        raise refuse(
            OptionError,
            function,
            f"{what} needs scikit-learn, which is not installed",
            "pip install 'mwem-sql[quality]'",
        ) from None


def scores(
    con: duckdb.DuckDBPyConnection,
    true: exp.Expr,
    synthetic: exp.Expr,
    fields: Sequence[Field],
    target: str | None,
) -> list[Score]:
    """All scores of a table of synthetic rows.

    Privacy:
        None. This reads private rows, and its figures have no noise.
    """
    there, here = (
        [_FieldValues(field, values) for field, values in zip(fields, _fetched(con, tree, fields), strict=True)]
        for tree in (true, synthetic)
    )
    figures = [_pairs(there, here), _correlations(there, here), _propensity(there, here)]
    return figures if target is None else [*figures, *_classifier(there, here, target)]


class _FieldValues:
    """The values of a field in some rows: texts of a list, or numbers; None and NaN for NULL."""

    def __init__(self, field: Field, values: Any) -> None:
        self.field = field
        listed = field.values
        if listed is None:
            self.numbers: Floats | None = np.array([np.nan if value is None else value for value in values])
            low, high = field.low, field.high
            bins = np.floor((np.nan_to_num(self.numbers, nan=low) - low) / max(high - low, 1e-300) * BINS)
            self.codes: Integers = np.where(np.isnan(self.numbers), BINS, np.clip(bins, 0, BINS - 1)).astype(np.int64)
            self.count = BINS + 1
        else:
            self.numbers = None
            # Off the list, and NULL.
            code_of = {text: code for code, text in enumerate(listed)} | {None: len(listed) + 1}
            self.codes = np.array([code_of.get(value, len(listed)) for value in values], dtype=np.int64)
            self.count = len(listed) + 2


def _fetched(con: duckdb.DuckDBPyConnection, tree: exp.Expr, fields: Sequence[Field]) -> Iterator[list[Any]]:
    values: list[exp.Expr] = []
    for field in fields:
        column, scale = exp.column(field.name, quoted=True), scale_of(field.type)
        if field.values is not None or scale is None:
            value = as_text(column, field.type)
        else:
            value = cast(scale.measure(column), "DOUBLE")
        values.append(exp.alias_(value, f"c{len(values)}"))
    size, seed = exp.Literal.number(MOST_ROWS), exp.Literal.number(SEED)
    select = exp.select(*values).from_(tree.copy())
    select.set("sample", exp.TableSample(method=exp.var("RESERVOIR"), size=size, seed=seed))
    for column in con.sql(select.sql("duckdb")).to_arrow_table().columns:
        yield column.to_pylist()


def _pairs(true: Sequence[_FieldValues], synthetic: Sequence[_FieldValues]) -> Score:
    """The mean over pairs of columns."""
    name = "mean L1 distance of pairs"
    note = f"from 0, the best, to 2: shares of rows by pair of columns, numbers in {BINS} even bins"
    distances = [
        float(np.abs(_joint(*(true[k] for k in pair)) - _joint(*(synthetic[k] for k in pair))).sum())
        for pair in combinations(range(len(true)), 2)
    ]
    return Score(name=name, value=float(np.mean(distances)) if distances else None, note=note)


def _joint(first: _FieldValues, second: _FieldValues) -> Floats:
    counts = np.bincount(first.codes * second.count + second.codes, minlength=first.count * second.count)
    return np.asarray(counts / max(1, len(first.codes)))


def _correlations(true: Sequence[_FieldValues], synthetic: Sequence[_FieldValues]) -> Score:
    numeric = [k for k, column in enumerate(true) if column.numbers is not None]
    gaps = []
    for pair in combinations(numeric, 2):
        one, other = (_correlation(*(columns[k] for k in pair)) for columns in (true, synthetic))
        if one is not None and other is not None:
            gaps.append(abs(one - other))
    note = (
        "from 0, the best, to 2: Pearson's coefficient, mean over pairs of columns of numbers or dates, "
        "rows with NULL aside"
    )
    return Score(name="mean difference of correlations", value=float(np.mean(gaps)) if gaps else None, note=note)


def _correlation(first: _FieldValues, second: _FieldValues) -> float | None:
    assert first.numbers is not None and second.numbers is not None
    is_number = ~(np.isnan(first.numbers) | np.isnan(second.numbers))
    one, other = first.numbers[is_number], second.numbers[is_number]
    if len(one) < 2 or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def _features(columns: Sequence[_FieldValues], *, without: str | None = None) -> Floats:
    """A column of zeros and ones for each value of a list; numbers from 0 to 1, and whether they are NULL."""
    parts: list[Floats] = []
    for column in columns:
        if column.field.name == without:
            continue
        if column.numbers is None:
            parts.append(np.eye(column.count)[column.codes])
        else:
            low, high = column.field.low, column.field.high
            scaled = np.nan_to_num((column.numbers - low) / max(high - low, 1e-300))
            parts.append(np.stack([np.clip(scaled, 0, 1), np.isnan(column.numbers)], axis=1))
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(columns[0].codes), 1))


def _propensity(true: Sequence[_FieldValues], synthetic: Sequence[_FieldValues]) -> Score:
    """How well a classifier distinguishes true and synthetic rows."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    features = np.concatenate([_features(true), _features(synthetic)])
    labels = np.repeat([0, 1], [len(true[0].codes), len(synthetic[0].codes)])
    if not labels.any() or labels.all():  # one of the tables is empty
        return Score(name="pMSE", value=None, note="one of the tables has no rows")
    share = float(labels.mean())
    chance = LogisticRegression(max_iter=1000).fit(features, labels).predict_proba(features)[:, 1]
    note = (
        f"from 0, the best, to {share * (1 - share):.3g}: mean squared difference between {share:.3g}, the share of "
        "synthetic rows, and the chance that a logistic regression (scikit-learn, C = 1, each column by itself) gives "
        "a row of being synthetic"
    )
    return Score(name="pMSE", value=float(np.mean((chance - share) ** 2)), note=note)


def _classifier(true: Sequence[_FieldValues], synthetic: Sequence[_FieldValues], target: str) -> list[Score]:
    """How a classifier of one column does on true rows that it has not seen."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415

    rank = next(k for k, column in enumerate(true) if column.field.name == target)
    generator = np.random.default_rng(SEED)
    is_tested = generator.random(len(true[rank].codes)) < TESTED
    tested, labels = _features(true, without=target)[is_tested], true[rank].codes[is_tested]
    learned = [
        ("synthetic", _features(synthetic, without=target), synthetic[rank].codes),
        ("true", _features(true, without=target)[~is_tested], true[rank].codes[~is_tested]),
    ]
    settings = f"HistGradientBoostingClassifier of scikit-learn as it comes, random_state {SEED}"
    out = []
    for kind, features, codes in learned:
        value = None
        if len(labels) and len(np.unique(codes)) > 1:
            model = HistGradientBoostingClassifier(random_state=SEED).fit(features, codes)
            value = float((model.predict(tested) == labels).mean())
        note = f"share of {len(labels):,} true rows whose {target} is predicted right; {settings}"
        out.append(Score(name=f"accuracy for {target}, trained on {kind} rows", value=value, note=note))
    most = float(np.bincount(labels).max() / len(labels)) if len(labels) else None
    name = f"accuracy for {target}, always the most frequent"
    return [*out, Score(name=name, value=most, note="what any classifier should exceed")]
