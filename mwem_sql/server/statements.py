"""What an analyst's statement is, decided by DuckDB's own parser: an allow-list of statements and of functions.

A SELECT is read by DuckDB and walked as its tree: every function in it must be on the list. Other statements have a
short head that is read token by token, and a rest that must be such a SELECT by itself; what runs has a head that we
wrote. The columns of a CREATE TABLE are what DuckDB makes of them in an empty instance. Nothing here is decided by
searching a text. Runs nothing.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import duckdb
from sqlglot import exp

from mwem_sql.errors import MwemError, OptionError, TableError, did_you_mean, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.surface.spec import FUNCTIONS

SERVER = "server"
"""What refusals of a statement begin with."""
RESULTS = "__mwem_results"
"""The hidden database that results wait in until their client has fetched them."""
OWNERS_SCHEMA = "mwem_server"
"""The schema of what the server notes about its users."""
LONGEST = 4_000_000
"""Characters of a statement. Larger: more time to read one."""
PARSE_SECONDS = 2.0
"""Seconds that DuckDB may take to make the columns of a CREATE TABLE in an empty instance."""
DEPTH = 250
"""How deep an expression may be. Larger: more of a thread's stack."""
DOUBLES = {"->": 8, "lambda": 2}
"""How deep these may stand in each other (`x -> y` is read as both). One more: twice the time, for DuckDB binds what
is left of an arrow twice; or a list's length times as much, for a function runs on all elements of all lists."""
MOST_REFERENCES = 10_000
"""Tables that a SELECT refers to, the queries of its WITH written out. Larger: more time to plan it."""
GROWING = {
    "range", "generate_series", "repeat", "lpad", "rpad", "list_resize", "array_resize", "bitstring", "format",
    "printf",
}  # fmt: skip
"""What is as long as a value says: refused in a lambda, that is for each element of a list, before anything ends it."""
FILL = re.compile(r'INSERT INTO (?:"(?:[^"]|"")*"|\w+)\.(?:"(?:[^"]|"")*"|\w+) VALUES \(NULL\)')
"""What Quack asks for before rows that a client sends are written to a table. It is never run then."""
FILL_END = " VALUES (NULL)"
"""How all of these texts end, also of names that are not as `FILL` has them: `.t`, without a schema."""

# DuckDB's own functions that are not pure functions of their arguments, and are harmless.
_VOLATILE = {"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "error"}
# Functions of DuckDB's that are left out: they read settings, variables and plans, or take time.
_LEFT_OUT = {
    "getvariable", "current_setting", "json_serialize_plan", "pg_sleep", "get_block_size", "duckdb_logs_parsed",
    "duckdb_profiling_settings", "txid_current",
    # Without an end that an interrupt reaches, or with an end that is the process's: time squared, and recursion.
    "levenshtein", "editdist3", "damerau_levenshtein", "json_structure", "json_group_structure",
}  # fmt: skip
# What the binder knows under a name that the catalog does not list.
_BINDERS = {
    "unnest", "unlist", "columns", "grouping", "grouping_id", "if", "ifnull", "coalesce", "not", "in", "between", "try",
    "nullif", "list_comprehension", "->", "->>", "operator",
}  # fmt: skip
_TABLE_FUNCTIONS = {
    "range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "summary",
    "duckdb_tables", "duckdb_columns", "duckdb_views", "duckdb_schemas", "duckdb_databases", "duckdb_constraints",
    "duckdb_types", "duckdb_functions", "duckdb_indexes", "duckdb_sequences", "duckdb_keywords", "pragma_table_info",
    "pragma_version", "pg_timezone_names", "icu_calendar_names", "regexp_split_to_table",
}  # fmt: skip
# Views of DuckDB's over functions that are not on the list.
_VIEWS = {"duckdb_logs", "pg_settings", "pg_prepared_statements", "pragma_database_list", "duckdb_secrets"}

_Kind = Literal["query", "show", "explain", "table", "view", "insert", "delete", "columns", "drop", "transaction"]
_TABLES: dict[str, _Kind] = {"INSERT": "insert", "DELETE": "delete", "DROP": "drop"}
_WORD = re.compile(r"\w+")
_IDENTIFIER = re.compile(r'"((?:[^"]|"")*)"|(\w+)')


@dataclass(frozen=True, kw_only=True)
class ClientStatement:
    """A statement that may run. `text` is all of it, but for a CREATE TABLE AS only the SELECT.

    `target` is the table of `main` that it writes, `calls` the functions of ours in it. `replaces`: CREATE OR REPLACE.
    """

    kind: _Kind
    text: str
    target: str | None = None
    replaces: bool = False
    calls: frozenset[str] = frozenset()


class StatementReader:
    """Reads statements with an instance of its own, in which there is nothing."""

    def __init__(self, database: str, seconds: float = PARSE_SECONDS) -> None:
        self._database, self._seconds = database, seconds
        self._con = duckdb.connect(":memory:", config={"threads": 1, "temp_directory": "", "memory_limit": "512MB"})
        self._con.execute(
            """SET enable_external_access = false; SET autoload_known_extensions = false;
               SET autoinstall_known_extensions = false; SET python_enable_replacements = false;
               SET max_expression_depth = 250; SET lock_configuration = true"""
        )
        self._lock = threading.Lock()

    def close(self) -> None:
        self._con.close()

    def read(self, text: str) -> ClientStatement:
        """What a text is; refused if it is no statement that an analyst may run."""
        if len(text) > LONGEST:
            what = f"the statement has {len(text):,} characters, more than {LONGEST:,}"
            raise refuse(OptionError, SERVER, what, "put what is long into a table of yours, row by row")
        if "\0" in text:  # some of DuckDB's functions end there
            raise refuse(OptionError, SERVER, "the statement has a NUL character", "leave it out")
        con = self._con.cursor()
        try:
            statements = con.extract_statements(text)
        except duckdb.Error as error:
            raise refuse(OptionError, SERVER, str(error).splitlines()[0], "mend the statement") from None
        if len(statements) != 1:
            what = f"{len(statements)} statements came together, and PIVOT is two"
            raise refuse(OptionError, SERVER, what, "send one at a time")
        kind = str(statements[0].type).removeprefix("StatementType.")
        head = _Head(text)
        if kind == "SELECT":
            return self._select(con, text)
        if kind == "CALL":
            head.expect("CALL")
            return self._select(con, f"FROM {head.rest}")
        if kind == "EXPLAIN":
            head.expect("EXPLAIN")
            head.skips("ANALYZE")
            inner = self._select(con, head.rest)
            return ClientStatement(kind="explain", text=text, calls=inner.calls)
        if kind == "TRANSACTION":
            return self._transaction(head)
        if kind == "CREATE":
            return self._create(con, head)
        if kind == "INSERT":
            return self._insert(con, head, text)
        if kind == "DELETE":
            return self._delete(con, head)
        if kind == "DROP":
            return self._drop(head)
        raise _refused(kind)

    def _select(self, con: duckdb.DuckDBPyConnection, text: str) -> ClientStatement:
        """A SELECT whose functions are all on the list."""
        rows = con.execute("SELECT json_serialize_sql($1)", [text]).fetchall()
        try:
            tree = json.loads(rows[0][0])
            if not tree["error"] and _references(tree["statements"], {}) > MOST_REFERENCES:
                what = f"its WITH queries refer to tables more than {MOST_REFERENCES:,} times, written out"
                raise refuse(OptionError, SERVER, what, "write it in steps: CREATE TABLE ... AS, then the rest")
            calls = frozenset() if tree["error"] else frozenset(_check(tree["statements"]))
        except RecursionError:
            raise refuse(OptionError, SERVER, "the statement is nested too deeply", "write it in steps") from None
        if tree["error"] or len(tree["statements"]) != 1:
            raise refuse(OptionError, SERVER, "this kind of statement is not run here", "write a plain SELECT")
        node = tree["statements"][0]["node"]
        is_show = (node.get("from_table") or {}).get("type") == "SHOW_REF"
        return ClientStatement(kind="show" if is_show else "query", text=text, calls=calls)

    def _transaction(self, head: _Head) -> ClientStatement:
        word = head.word()
        head.skips("TRANSACTION")
        if word not in {"BEGIN", "COMMIT", "ROLLBACK", "START", "ABORT", "END"} or head.rest.strip(" ;\n\t"):
            raise _refused("TRANSACTION")
        return ClientStatement(
            kind="transaction", text={"START": "BEGIN", "END": "COMMIT", "ABORT": "ROLLBACK"}.get(word, word)
        )

    def _create(self, con: duckdb.DuckDBPyConnection, head: _Head) -> ClientStatement:
        head.expect("CREATE")
        replaces = head.skips("OR") and head.expect("REPLACE")
        kind = head.word()
        if kind not in {"TABLE", "VIEW"}:
            raise refuse(
                OptionError, SERVER, f"CREATE {kind} is not for analysts", "make a table, or a view of published tables"
            )
        if head.skips("IF"):
            head.expect("NOT")
            head.expect("EXISTS")
        target = self._target(head)
        if head.skips("AS"):
            select = self._select(con, head.rest)
            if select.kind == "show":
                raise _refused("CREATE ... AS DESCRIBE")
            if kind == "VIEW" and select.calls:
                what = f"view ({target!r}) calls {min(select.calls)}"
                raise refuse(OptionError, SERVER, what, "make a table of its result: CREATE TABLE ... AS")
            made: _Kind = "view" if kind == "VIEW" else "table"
            return ClientStatement(kind=made, text=head.rest, target=target, replaces=replaces, calls=select.calls)
        if kind == "VIEW":
            raise refuse(OptionError, SERVER, "a view's columns cannot be named here", "CREATE VIEW name AS SELECT ...")
        return ClientStatement(kind="columns", text=self._columns(head.rest, target, replaces=replaces), target=target)

    def _columns(self, rest: str, target: str, *, replaces: bool) -> str:
        """A CREATE TABLE with the columns that DuckDB makes of what follows its name. Defaults are left out."""
        with self._lock, duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "128MB"}) as con:
            con.execute("SET python_enable_replacements = false; SET enable_external_access = false")
            timer = threading.Timer(self._seconds, con.interrupt)
            timer.start()
            try:
                con.execute(created("TABLE", f"made {rest}"))
                rows = con.execute(
                    "SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE NOT internal"
                ).fetchall()
            except duckdb.Error as error:
                raise refuse(OptionError, SERVER, str(error).splitlines()[0], "name columns and types") from None
            finally:
                timer.cancel()
        if any("VARIANT" in kind for _, kind, _ in rows):
            raise _variant()
        columns = ", ".join(
            f"{exp.to_identifier(name, quoted=True).sql('duckdb')} {kind}{'' if nullable else ' NOT NULL'}"
            for name, kind, nullable in rows
        )
        return created("TABLE", f"{_main(target)} ({columns})", replaces=replaces)

    def _insert(self, con: duckdb.DuckDBPyConnection, head: _Head, text: str) -> ClientStatement:
        head.expect("INSERT")
        head.expect("INTO")
        target = self._target(head)
        if FILL.fullmatch(text):
            return ClientStatement(kind="insert", text="", target=target)
        into = _main(target)
        if head.next() == "(" and head.names_follow():
            into = f"{into} ({', '.join(exp.to_identifier(name, quoted=True).sql('duckdb') for name in head.names())})"
        select = self._select(con, head.rest)
        return ClientStatement(
            kind="insert", text=f"INSERT INTO {into}\n{head.rest}", target=target, calls=select.calls
        )

    def _delete(self, con: duckdb.DuckDBPyConnection, head: _Head) -> ClientStatement:
        head.expect("DELETE")
        head.expect("FROM")
        target = self._target(head)
        rest = head.rest.strip(" ;\n\t")
        if rest and head.next() != "WHERE":
            raise refuse(OptionError, SERVER, "DELETE takes a condition and nothing else", "DELETE FROM t WHERE ...")
        select = self._select(con, f"FROM {_main(target)}\n{rest}")
        delete = "\n".join((exp.delete(exp.table_(target, db="main", quoted=True)).sql("duckdb"), rest))
        return ClientStatement(kind="delete", text=delete, target=target, calls=select.calls)

    def _drop(self, head: _Head) -> ClientStatement:
        head.expect("DROP")
        kind = head.word()
        if kind not in {"TABLE", "VIEW"}:
            raise _refused(f"DROP {kind}")
        exists = head.skips("IF") and head.expect("EXISTS")
        target = self._target(head)
        if head.rest.strip(" ;\n\t"):
            raise refuse(OptionError, SERVER, "DROP takes one name and nothing else", "DROP TABLE name")
        return ClientStatement(
            kind="drop", text=f"DROP {kind} {'IF EXISTS ' if exists else ''}{_main(target)}", target=target
        )

    def _target(self, head: _Head) -> str:
        """The table that is written: one of `main`, where analysts' own tables are."""
        parts = head.dotted()
        schema = parts[-2] if len(parts) > 1 else "main"
        databases = {fold(self._database)} if len(parts) == 3 else {fold(self._database), "main"}
        where = parts[0] if len(parts) == 3 else "main"
        if fold(schema) not in ({"main"} if len(parts) != 2 else databases) or fold(where) not in databases:
            what = f"table ({'.'.join(parts)}) is not in the schema main, where tables of analysts are"
            raise refuse(TableError, SERVER, what, f"leave the schema out: {parts[-1]}")
        return parts[-1]


def created(kind: str, target: str, select: str = "", *, replaces: bool = False) -> str:
    """A CREATE with a head of ours: of a table or view that is quoted, as a SELECT that was read by itself."""
    head = ("CREATE", *(["OR REPLACE"] if replaces else []), kind, target)
    return "\n".join((*head, "AS", select) if select else head)


def _main(table: str) -> str:
    return exp.table_(table, db="main", quoted=True).sql("duckdb")


def _variant() -> MwemError:
    """A cast to VARIANT of JSON that is nested deeply ends the process."""
    return refuse(OptionError, SERVER, "the type VARIANT is not for analysts", "keep JSON as JSON")


def _refused(kind: str) -> MwemError:
    what = f"{kind} is not for analysts"
    hint = "SELECT, CALL, CREATE TABLE, CREATE VIEW, INSERT, DELETE and DROP of tables of your own are"
    return refuse(OptionError, SERVER, what, hint)


class _Head:
    """The tokens at the beginning of a statement, as DuckDB's tokenizer has them."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._starts = [offset for offset, kind in duckdb.tokenize(text) if not str(kind).endswith("comment")]
        self._place = 0

    @property
    def rest(self) -> str:
        """All that was not taken yet."""
        return "" if self._place >= len(self._starts) else self._data[self._starts[self._place] :].decode()

    def next(self) -> str:
        """The next token, in capitals; not taken."""
        match = _WORD.match(self.rest)
        return match[0].upper() if match else self.rest[:1]

    def word(self) -> str:
        word = self.next()
        self._place += 1
        return word

    def skips(self, word: str) -> bool:
        if self.next() != word:
            return False
        self._place += 1
        return True

    def expect(self, word: str) -> bool:
        if not self.skips(word):
            what = f"the statement has {self.next() or 'nothing'} where {word} is expected"
            raise refuse(OptionError, SERVER, what, "write it in its plain form")
        return True

    def identifier(self) -> str:
        match = _IDENTIFIER.match(self.rest)
        if match is None:
            what = f"the statement has {self.next() or 'nothing'} where a name is expected"
            raise refuse(OptionError, SERVER, what, "write it in its plain form")
        self._place += 1
        return match[1].replace('""', '"') if match[1] is not None else match[2]

    def dotted(self) -> list[str]:
        parts = [self.identifier()]
        while len(parts) < 3 and self.skips("."):
            parts.append(self.identifier())
        return parts

    def names_follow(self) -> bool:
        """Whether names in parentheses follow, and no SELECT."""
        self._place += 1
        follows = self.next() not in {"SELECT", "FROM", "VALUES", "WITH", "(", "TABLE"}
        self._place -= 1
        return follows

    def names(self) -> list[str]:
        self.expect("(")
        names = [self.identifier()]
        while self.skips(","):
            names.append(self.identifier())
        self.expect(")")
        return names


def _check(node: Any, *, is_table: bool = False, within: tuple[str, ...] = ()) -> Iterator[str]:
    """The functions of ours that a tree calls; refused if it calls or reads what is not on a list.

    `within`: the arrows and lambdas that a node stands in.
    """
    if isinstance(node, list):
        for each in node:
            yield from _check(each, within=within)
        return
    if not isinstance(node, dict):
        return
    name = node.get("function_name")
    for kind, most in DOUBLES.items():
        if within.count(kind) > most:
            what = f"{within.count(kind)} times {kind} within each other"
            raise refuse(OptionError, SERVER, what, "write it in steps: CREATE TABLE ... AS, then the rest")
    if "VARIANT" in {str(node.get(each)).upper() for each in ("id", "type_name")}:
        raise _variant()
    if isinstance(name, str):
        if "lambda" in within and fold(name) in GROWING:
            what = f"function ({name!r}) in a lambda makes a result of any length for each element"
            raise refuse(OptionError, SERVER, what, "write it in steps: CREATE TABLE ... AS, then the rest")
        yield from _check_function(name, is_table=is_table)
    if node.get("type") == "BASE_TABLE":
        _check_table(node)
    for key, value in node.items():
        inner = {"lhs": ("->",), "expr": ("lambda",)}.get(key, ()) if node.get("type") == "LAMBDA" else ()
        is_name = key == "function" and node.get("type") == "TABLE_FUNCTION"
        yield from _check(value, is_table=is_name, within=(*within, *inner))


def _references(node: Any, names: Mapping[str, int]) -> int:
    """How many tables a tree refers to if the queries of its WITH, `names`, are written out."""
    if isinstance(node, list):
        return sum(_references(each, names) for each in node)
    if not isinstance(node, dict):
        return 0
    if node.get("type") == "BASE_TABLE":
        return names.get(fold(node["table_name"]), 1)
    for entry in (node.get("cte_map") or {}).get("map", []):
        names = {**names, fold(entry["key"]): 1 + _references(entry["value"], names)}
    return sum(_references(value, names) for key, value in node.items() if key != "cte_map")


def _check_function(name: str, *, is_table: bool) -> Iterator[str]:
    declared = FUNCTIONS.get(fold(name))
    if declared is not None:
        if declared.is_curators:
            raise for_curators(declared.name)
        yield declared.name
        return
    if fold(name) not in (_TABLE_FUNCTIONS if is_table else scalars()):
        what = f"function ({name!r}) is not one that is run here"
        ours = [each.name for each in FUNCTIONS.values() if not each.is_curators]
        hint = f"{did_you_mean(name, ours)}DuckDB's functions of values are, and those of mwem_sql"
        raise refuse(OptionError, SERVER, what, hint)


def _check_table(node: dict[str, Any]) -> None:
    catalog, schema = fold(node.get("catalog_name", "")), fold(node.get("schema_name", ""))
    if RESULTS in {catalog, schema}:
        raise refuse(TableError, SERVER, "results of others are not read", "run the query yourself")
    if schema == OWNERS_SCHEMA:
        what = f"table ({node['table_name']!r}) is the server's, and says who its users are"
        raise refuse(TableError, SERVER, what, "FROM duckdb_tables() lists what is published")
    if fold(node.get("table_name", "")) in _VIEWS:
        what = f"view ({node['table_name']!r}) shows the server itself"
        raise refuse(TableError, SERVER, what, "FROM duckdb_tables() lists what is published")


def for_curators(function: str) -> MwemError:
    """A refusal of what only the curator may do."""
    what = f"{function} is the curator's alone, and is not run for users of a server"
    return refuse(OptionError, function, what, "ask the curator")


@cache
def scalars() -> frozenset[str]:
    """DuckDB's own functions of values, by folded name; of those that are not pure, the harmless ones."""
    with duckdb.connect(":memory:") as con:
        rows = con.execute(
            """SELECT function_name, function_type, stability FROM duckdb_functions()
               WHERE function_type IN ('scalar', 'aggregate', 'macro')"""
        ).fetchall()
    rows = [row for row in rows if "variant" not in row[0]]
    volatile = {name for name, _, stability in rows if stability == "VOLATILE"} - _VOLATILE
    return frozenset(map(fold, {name for name, _, _ in rows} - volatile - _LEFT_OUT | _BINDERS))
