"""Messages say of attributes behind a clique what the joint distribution says."""

from __future__ import annotations

import numpy as np

from mwem_sql.algebra.factor import Factor
from mwem_sql.model.messages import Side, grouped, joint, merged, message, passed


def known(through: tuple[str, ...], given: np.ndarray, number: int) -> Side:
    places = 10 * number + np.arange(len(given))
    return Side(through, given, np.array([number]), places, np.ones(1, dtype=np.bool_))


GENERATOR = np.random.default_rng(5)
WEIGHTS = GENERATOR.uniform(1, 2, (2, 3, 4))
CLIQUE = Factor(("a", "b", "c"), WEIGHTS.shape, WEIGHTS.reshape(-1), 0.0)
# An attribute d of two values behind a and b, another one e of three values behind c.
D = GENERATOR.uniform(1, 2, (2, 2, 3))
D /= D.sum(axis=0)
E = GENERATOR.uniform(1, 2, (3, 4))
E /= E.sum(axis=0)
BEHIND_AB = known(("a", "b"), D.reshape(2, -1), 7)
BEHIND_C = known(("c",), E, 8)


def test_values_are_passed_through_a_clique() -> None:
    both = np.einsum("dab,abc->dcb", D, WEIGHTS) / WEIGHTS.sum(axis=0).T
    found = passed(CLIQUE, BEHIND_AB, ("c", "b"))
    np.testing.assert_allclose(found.given, both.reshape(2, -1))
    assert found.through == ("c", "b")
    assert found.places.tolist() == [70, 71]


def test_two_sides_meet_in_a_clique_for_each_cell_beside() -> None:
    np.testing.assert_allclose(joint(CLIQUE, BEHIND_AB, BEHIND_C), np.einsum("dab,abc,ec->de", D, WEIGHTS, E))
    behind_b = known(("b",), GENERATOR.uniform(1, 2, (2, 3)), 9)
    found = joint(CLIQUE, behind_b, BEHIND_C, beside=("a",)).reshape(2, 2, 3)
    np.testing.assert_allclose(found, np.einsum("db,abc,ec->ade", behind_b.given, WEIGHTS, E))


def test_a_message_has_all_sides_once() -> None:
    other = known(("c",), E[::-1], 9)
    assert [len(group) for group in grouped([BEHIND_C, BEHIND_AB, other])] == [2, 1]
    found = message(CLIQUE, [BEHIND_C, BEHIND_AB, other], ("a",))
    assert found.attributes.tolist() == [8, 9, 7]
    assert found.places.tolist() == [80, 81, 82, 90, 91, 92, 70, 71]
    np.testing.assert_allclose(found.given[:3], passed(CLIQUE, BEHIND_C, ("a",)).given)
    np.testing.assert_allclose(found.given[6:], passed(CLIQUE, BEHIND_AB, ("a",)).given)
    assert merged([other]) is other
