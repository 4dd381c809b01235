"""Classes finer than the workload's: parts of its classes, few where attributes are many."""

from __future__ import annotations

import numpy as np
import pytest

from mwem_sql.algebra.partition import Partition
from mwem_sql.domains import detail as details
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, cut_pieces, value_pieces

PAY = Attribute("pay", "DOUBLE", nullable=True, low=0.0, high=1000.0)


AGE = Attribute("age", "INTEGER", nullable=False, low=0, high=99)


def halves(attribute: Attribute, cut: float) -> Classes:
    pieces = cut_pieces(attribute, [cut]) if attribute is PAY else value_pieces(attribute)
    above = pieces.points > cut
    return Classes(pieces, np.append(above, [False] * attribute.nullable).astype(np.int32)).joined()


def test_cells_are_parts_of_classes_and_null_is_the_last() -> None:
    found = details.details_of({"pay": halves(PAY, 250.0), "age": halves(AGE, 39)}, parts=10)
    pay, age = found["pay"], found["age"]
    assert (pay.count, pay.has_null, pay.parents.tolist()) == (12, True, [0] * 3 + [1] * 8 + [0])
    assert pay.classes.pieces.lows[:3].tolist() == [0.0, 100.0, 200.0]
    assert (age.count, age.has_null, age.parents.tolist()) == (10, False, [0] * 4 + [1] * 6)
    assert age.cells.sizes.tolist() == [10.0] * 10


def test_classes_are_cut_where_bins_begin() -> None:
    """However narrow bins are: whoever lists edges says where values are."""
    skewed = Attribute("pay", "DOUBLE", nullable=False, low=0.0, high=1e9, edges=(10.0, 20.0, 50.0))
    pieces = cut_pieces(skewed, [30.0])
    found = details.details_of({"pay": Classes(pieces, (pieces.points > 30).astype(np.int32)).joined()})["pay"]
    assert found.classes.pieces.lows[:3].tolist() == [0.0, 10.0, 20.0]
    assert (found.count, found.parents.tolist()) == (5, [0, 0, 0, 1, 1])


def test_narrow_classes_are_not_cut() -> None:
    pieces = value_pieces(AGE)
    assert details.details_of({"age": Classes(pieces, (np.arange(100) // 10).astype(np.int32))}, parts=10) == {}
    lumped = np.minimum(np.arange(100) // 10, 7).astype(np.int32)
    found = details.details_of({"age": Classes(pieces, lumped)}, parts=10)["age"]
    assert found.parents.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]


def test_many_attributes_get_fewer_parts() -> None:
    found = details.details_of({f"a{k}": halves(PAY, 250.0) for k in range(20)}, most_parts=100)
    assert {own.count for own in found.values()} == {5 + 1 + 1}


def test_classes_are_weighed_by_what_was_measured() -> None:
    detail = details.details_of({"pay": halves(PAY, 250.0)})["pay"]
    rows = np.zeros(detail.count)
    rows[:4], rows[-1] = 25.0, 50.0
    labels = np.minimum(np.arange(detail.count), 4).astype(np.int32)
    labels[-1] = 5
    stored = detail.weigh(Partition.whole(2), labels, rows)
    assert stored.weights is not None
    assert stored.weights.sum() == pytest.approx(150)
    assert len(stored.pieces) < 10
    asked = Classes(cut_pieces(PAY, [1000 / 512]), np.zeros(0, dtype=np.int32)).pieces
    weights = stored.weigh(asked)
    assert weights[-1] == 50.0
    assert weights[:-1][asked.highs <= 1000 / 512].sum() == pytest.approx(12.5)
    assert weights.sum() == pytest.approx(150)


def test_classes_of_other_kinds_stay_pieces() -> None:
    """Two classes in one group of the state, which something measured distinguishes."""
    detail = details.details_of({"pay": halves(PAY, 250.0)})["pay"]
    rows, labels = np.ones(detail.count), np.zeros(detail.count, dtype=np.int32)
    group = Partition(np.zeros(2, dtype=np.int32), np.ones(2))
    assert detail.weigh(group, labels, rows).pieces.lows.tolist() == [0]
    stored = detail.weigh(group, labels, rows, np.array([0, 1], dtype=np.int32))
    assert stored.codes.tolist() == [0, 0, 0]
    assert stored.pieces.lows.tolist() == [0, pytest.approx(250)]
