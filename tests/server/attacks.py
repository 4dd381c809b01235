"""What attacks.txt says is tried against a real server: `python tests/server/attacks.py` prints what became of all.

After each statement all that came back is searched for markers; after each group another user is still served; at the
end the other user's tables, results and ledger are as they were, and no file is new.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from walls import OTHER, Client, World, leaks, served

FILE = Path(__file__).with_name("attacks.txt")
_LINE = re.compile(r"(here )?(refused|works|may) (.*)")
_ESCAPE = re.compile(r"\\(n|u[0-9a-f]{4}|\\)")


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A statement, where it runs, and what must become of it."""

    group: str
    line: int
    is_here: bool
    outcome: str
    text: str


@dataclass
class Result:
    """What went wrong, by line; and how often which outcome was there."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")


def attacks() -> Iterator[Attack]:
    group = ""
    for number, line in enumerate(FILE.read_text().splitlines(), 1):
        if line.startswith("== "):
            group = line[3:]
        elif match := _LINE.fullmatch(line):
            text = _ESCAPE.sub(_unescaped, match[3])
            yield Attack(group=group, line=number, is_here=bool(match[1]), outcome=match[2], text=text)
        else:
            assert not line or line.startswith("#"), line


def _unescaped(match: re.Match[str]) -> str:
    return {"n": "\n", "\\": "\\"}.get(match[1]) or chr(int(match[1][1:], 16))


def prepare(anna: Client, bert: Client) -> None:
    """Tables and a release of both users."""
    anna.run("CREATE TABLE w AS SELECT 'age > 40' AS predicate, ['sex', 'city'] AS group_by")
    anna.run("CREATE TABLE mine AS SELECT i FROM range(3) t(i)")
    anna.run("CALL mwem_release('census', w, 0.5, rounds := 1, rows := 50, output := 'rel')")
    bert.run("CREATE TABLE other AS SELECT i FROM range(5) t(i)")
    bert.run("CALL mwem_release('census', w, 0.25, rounds := 1, rows := 50, output := 'his')")
    assert leaks(repr(bert.run("SELECT user_name FROM mwem_ledger()"))), "the markers would be seen"


def state(bert: Client) -> list[object]:
    """All that an analyst must not change."""
    texts = (
        "SELECT * FROM other ORDER BY ALL", "SELECT * FROM rel ORDER BY ALL", "SELECT * FROM his ORDER BY ALL",
        "SELECT * FROM mwem.releases WHERE release <= 2 ORDER BY ALL", "SELECT count(*) FROM census",
        "SELECT COLUMNS(* EXCLUDE (epsilon_left)) FROM mwem_ledger()",
        "SELECT table_name, comment FROM duckdb_tables() WHERE schema_name <> 'main' OR table_name = 'rel' ORDER BY 1",
        "SELECT view_name, sql, comment FROM duckdb_views() WHERE view_name = 'census'",
        "SELECT COLUMNS('name|param|definition') FROM duckdb_functions() WHERE function_name LIKE 'mwem%' ORDER BY 1",
    )  # fmt: skip
    return [bert.run(text) for text in texts]


def run(world: World, chosen: Sequence[Attack]) -> Result:
    """Try statements against a server on which `prepare` was run."""
    result, files = Result(), world.files()
    places = {name: str(getattr(world, name)) for name in ("outside", "private", "public", "setup", "port")}
    places |= {
        "users": str(world.users.path), "deep": " INTEGER" + "[]" * 5000,
        "deep_parentheses": "(" * 20000 + "1" + ")" * 20000, "many_functions": "abs(" * 3000 + "1" + ")" * 3000,
        "many_operators": " + ".join("1" * 5000), "arrows": "->'a'" * 30,
        "doubling": "WITH a0 AS (SELECT 1 AS x), "
        + ", ".join(f"a{k + 1} AS NOT MATERIALIZED (SELECT a.x FROM a{k} a, a{k} b)" for k in range(40))
        + " SELECT count(*) FROM a40",
    }  # fmt: skip
    with world.client(OTHER) as bert:
        before = state(bert)
        held = bert.con.cursor().execute("FROM curator.query('SELECT ''CANARY_result'', i FROM range(300000) t(i)')")
        first = held.fetchmany(5)
        for group in dict.fromkeys(each.group for each in chosen):
            with world.client("anna") as anna:
                for each in (each for each in chosen if each.group == group):
                    text = each.text
                    for name, value in places.items():
                        text = text.replace(f"{{{name}}}", value)
                    _try(result, anna, each, text)
            if not world.is_up():
                result.wrong.append(f"after {group}: the server is down")
                return result
        if len(first) + len(held.fetchall()) != 300_000:
            result.wrong.append("the other user's result has lost rows")
        for old, new in zip(before, state(bert), strict=True):
            if old != new:
                result.wrong.append(f"the other user has {new!r:.300} where there was {old!r:.300}")
    fresh = world.files() - files
    if fresh:
        result.wrong.append(f"new files: {sorted(fresh)}")
    return result


def _try(result: Result, anna: Client, attack: Attack, text: str) -> None:
    where = f"line {attack.line}: {text:.300}"
    started = time.monotonic()
    try:
        came = repr((anna.here if attack.is_here else anna.run)(text))
        outcome = "works"
    except (duckdb.Error, UnicodeError) as error:
        came, outcome = str(error), "refused"
    result.counts[outcome] += 1
    result.slowest = max(result.slowest, (time.monotonic() - started, where))
    if attack.outcome not in {"may", outcome}:
        result.wrong.append(f"{where}\n    {outcome}: {came:.300}")
    found = [each for each in leaks(came.replace(text, "")) if each not in text]
    if found:
        result.wrong.append(f"{where}\n    {found[:5]} came out")
    if outcome == "refused" and "Authorization failed" in came and "INSERT" not in text:
        result.wrong.append(f"{where}\n    refused without a word")
    if "Invalid connection id" in came or "Could not connect" in came:
        result.wrong.append(f"{where}\n    the connection is gone: {came:.200}")


def main(every: int = 1) -> int:
    """All attacks, or those of every so many lines; what sets up tables is always run."""
    chosen = [each for k, each in enumerate(attacks()) if k % every == 0 or each.outcome == "works"]
    if every > 1:
        chosen = [each for each in chosen if each.group != "resources" and "mwem_release" not in each.text]
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), cap=5.0, statement_seconds=10) as world:
        with world.client("anna") as anna, world.client(OTHER) as bert:
            prepare(anna, bert)
        result = run(world, chosen)
        log = [each for each in leaks(world.log.read_text()) if each != OTHER]
    print(*result.wrong, sep="\n")
    print(f"slowest: {result.slowest[0]:.1f} s, {result.slowest[1]:.150}")
    print(
        f"{sum(result.counts.values())} statements, {dict(result.counts)}, {len(result.wrong)} went wrong; log: {log}"
    )
    return bool(result.wrong)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
