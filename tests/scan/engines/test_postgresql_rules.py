"""Node trees are read exactly, and what is none is refused."""

from __future__ import annotations

import pytest

from mwem_sql.scan.engines.postgresql_rules import Node, NotATreeError, parsed

CONSTANT = "{CONST :consttype 23 :constisnull false :constvalue 4 [ -1 0 127 -128 ]}"


def test_a_tree_is_read() -> None:
    tree = parsed("{OPEXPR :opno 96 :args ({VAR :varno 1 :varattno 2} " + CONSTANT + ") :nothing <> :bits (b 8 9)}")
    assert isinstance(tree, Node)
    assert tree.number("opno") == 96
    assert [node.tag for node in tree.nodes("args")] == ["VAR", "CONST"]
    assert tree.nodes("args")[1].fields["constvalue"] == bytes([255, 0, 127, 128])
    assert tree.nodes("nothing") == []


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r":resname", ":resname"), (r"\<>", "<>"), (r"a\ b", "a b"), (r"\}\ {VAR", None), (r"x\}\ \{", "x} {"),
        (r"\\", "\\"), ("é\\\n", "é\n"),
    ],
)  # fmt: skip
def test_no_name_of_a_column_is_taken_for_something_else(written: str, name: str | None) -> None:
    text = "{TARGETENTRY :resname " + written + " :resno 1}"
    if name is None:
        with pytest.raises(NotATreeError):
            parsed(text)
        return
    tree = parsed(text)
    assert isinstance(tree, Node)
    assert tree.fields == {"resname": name, "resno": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "}", "{A :b", "{A b 1}", "{A :b 1 :b 2}", "{A} {B}", "(1", "{C :v 4 [ 1 2", "{A :b [ x ]}",
        "{A :b 4 [ x ]}", "{A :b 4 [ 1-2 ]}", "(" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused(text: str) -> None:
    with pytest.raises(NotATreeError):
        parsed(text)


def test_a_field_that_is_not_there_is_no_number() -> None:
    tree = parsed("{A :list (1 2) :node {B :c 1}}")
    assert isinstance(tree, Node)
    for name in ("list", "node", "missing"):
        with pytest.raises(NotATreeError):
            tree.number(name)
    with pytest.raises(NotATreeError):
        tree.nodes("list")
