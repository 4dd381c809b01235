"""Rules as counts that are 0, beside DuckDB's own word on every value combination."""

from __future__ import annotations

import itertools

import duckdb
import numpy as np
import pytest
from chance import examples
from compilers import DOMAIN
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.compile.rules import breaches, cuts
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.domains.rules import Computed, PublicRule
from mwem_sql.errors import DomainError, PredicateError
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Workload

SMALL = Domain(
    "t",
    ("a", "b", "s"),
    (
        Attribute("a", "INTEGER", nullable=True, low=0, high=7),
        Attribute("b", "INTEGER", nullable=False, low=0, high=5, bins=3),
        Attribute("s", "VARCHAR", nullable=True, values=("x", "y", "z")),
    ),
)
LEAVES = ("a < 3", "a = 5", "a IS NULL", "b >= 3", "b BETWEEN 1 AND 2", "s = 'x'", "s IN ('y', 'z')", "s IS NULL",
          "a <= b", "a + b > 6", "length(s) < a", "(a < 2) <> (s IS NULL)")  # fmt: skip
ASKED = ("a > 4", "a % 2 = 0", "b > 2", "b = 1", "s = 'y'", "s <> 'z'", "a = b")


def with_rules(domain: Domain, *texts: str, source: str = "rules table") -> Domain:
    return Domain(
        domain.table, domain.columns, domain.attributes, rules=tuple(PublicRule(text, source) for text in texts),
        computed=domain.computed,
    )  # fmt: skip


@settings(max_examples=examples(100))
@given(
    st.recursive(
        st.sampled_from(LEAVES),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
            inner.map(lambda text: f"NOT ({text})"),
        ),
        max_leaves=4,
    ),
    st.lists(st.sampled_from(ASKED), min_size=1, max_size=4),
)
def test_a_class_combination_is_forbidden_only_if_every_value_combination_in_it_breaks_the_rule(
    rule: str, asked: list[str]
) -> None:
    """And where classes are cut by the rule's columns one by one, whenever some value combination in it does."""
    domain = with_rules(SMALL, rule)
    workload = Workload.from_predicates([*asked, "a = 0 OR b = 0 OR s = 'x'"])
    with Sandbox() as sandbox:
        try:
            rules = breaches(domain, {"a", "b", "s"}, sandbox)
        except DomainError:
            return  # false everywhere
        compiled = compile_workload(domain, workload, sandbox, cuts=cuts(rules))
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER, s VARCHAR)")
        con.execute(
            "INSERT INTO t FROM (SELECT unnest([*range(8), NULL]) a), (SELECT unnest(range(6)) b), "
            "(SELECT unnest(['x', 'y', 'z', NULL]) s)".replace("[*range(8), NULL]", "[0,1,2,3,4,5,6,7,NULL]")
        )
        rows = con.execute(f"SELECT a, b, s, ({rule}) IS NOT FALSE FROM t").fetchall()
    codes = {
        "a": [int(compiled.classes["a"].codes[8 if a is None else a]) for a, *_ in rows],
        "b": [int(compiled.classes["b"].codes[compiled.classes["b"].pieces.holding(np.array([b]))[0]])
              for _, b, *_ in rows],
        "s": [int(compiled.classes["s"].codes[3 if s is None else "xyz".index(s)]) for _, _, s, _ in rows],
    }  # fmt: skip
    shape = [compiled.classes[name].count for name in "abs"]
    possible = np.zeros(shape, dtype=bool)
    broken = np.zeros(shape, dtype=bool)
    for *place, holds in zip(codes["a"], codes["b"], codes["s"], [row[-1] for row in rows], strict=True):
        possible[tuple(place)] |= holds
        broken[tuple(place)] |= not holds
    forbidden = np.zeros(shape, dtype=bool)
    for breach in rules:
        count = breach.on(compiled.classes)
        if count is not None:
            order = [count.attributes.index(name) for name in "abs" if name in count.attributes]
            flags = (count.spread(np.ones(1)) > 0).transpose(order)
            forbidden |= flags.reshape([shape[k] if name in count.attributes else 1 for k, name in enumerate("abs")])
    assert (forbidden == ~possible).all()
    if all(breach.by_column for breach in rules):
        assert not (possible & broken).any()


def test_a_rule_about_other_columns_is_left_alone_and_one_that_is_true_everywhere_says_nothing() -> None:
    with Sandbox() as sandbox:
        assert breaches(with_rules(SMALL, "a < 3 OR s = 'x'"), {"a", "b"}, sandbox) == []
        assert breaches(with_rules(SMALL, "a >= 0 OR s = 'x'"), {"a", "s"}, sandbox) == []


def test_what_joins_too_many_values_is_left_to_rows() -> None:
    with Sandbox() as sandbox:
        (breach,) = breaches(with_rules(DOMAIN, "w <= a * 100000"), {"a", "w"}, sandbox)
    assert breach.compiled is None
    assert breach.on({}) is None
    assert cuts([breach]) == ()


def test_a_rule_that_is_false_everywhere_or_fails_is_refused_but_a_check_that_fails_says_nothing() -> None:
    failing = "CAST(s AS INTEGER) > a"
    with Sandbox() as sandbox:
        with pytest.raises(DomainError, match=r"rule .'a > 100'. is false for every value of the public domain"):
            breaches(with_rules(Domain("t", ("a",), (Attribute("a", "INTEGER", nullable=False, low=0, high=9),)),
                                "a > 100"), {"a"}, sandbox)  # fmt: skip
        with pytest.raises(PredicateError, match="cannot be evaluated on the public domain"):
            breaches(with_rules(SMALL, failing), {"a", "s"}, sandbox)
        (breach,) = breaches(with_rules(SMALL, failing, source="CHECK"), {"a", "s"}, sandbox)
    assert breach.compiled is None


def test_values_off_the_domain_break_no_rule_for_sure() -> None:
    """What a function says of their stand-in is not what it says of all of them."""
    domain = Domain("t", ("a", "s"), (
        Attribute("a", "INTEGER", nullable=False, low=0, high=3, open=True),
        Attribute("s", "VARCHAR", nullable=False, values=("x", "yy"), open=True),
    ))  # fmt: skip
    domain = with_rules(domain, "length(s) < 3 OR a = 7", "a > 1 OR s = 'x'")
    with Sandbox() as sandbox:
        rules = breaches(domain, {"a", "s"}, sandbox)
        compiled = compile_workload(domain, Workload.from_predicates(["s = 'x'", "a = 2", "a > 2"]), sandbox,
                                    cuts=cuts(rules))  # fmt: skip
    doubtful, sure = rules
    assert doubtful.on(compiled.classes) is None
    count = sure.on(compiled.classes)
    assert count is not None  # every other s is not 'x', and every a below 0 is not above 1
    below, other = compiled.classes["a"].codes[0], compiled.classes["s"].codes[2]
    flags = count.spread(np.ones(1)) > 0
    place = {"a": below, "s": other}
    assert flags[tuple(place[name] for name in count.attributes)]


def test_a_computed_column_is_asked_for_as_its_expression() -> None:
    domain = Domain(
        "t",
        (*SMALL.columns, "half"),
        SMALL.attributes,
        computed=(Computed("half", "VARCHAR", "CAST(CASE WHEN a < 4 THEN 'low' ELSE s END AS VARCHAR)", "GENERATED"),),
    )
    rows = [{"predicate": "half = 'low' AND b > 2"}, {"group_by": ["half"]}, {"group_by": "upper(half)"},
            {"measure": "CASE half WHEN 'x' THEN 3 ELSE 1 END"}]  # fmt: skip
    with Sandbox() as sandbox:
        compiled = compile_workload(domain, Workload.from_rows(rows), sandbox)
    assert set(compiled.classes) == {"a", "b", "s"}
    assert list(itertools.chain(*(cell or [] for cell in compiled.queries[1].cells()))) == ["low", "x", "y", "z", None]
    assert compiled.published.columns == ("a", "b", "s", "half")
