"""Messages of Quack's that no client would send: `python tests/server/bytes.py [bytes to change]`, where Quack is.

Forged connections, other users' results and tables, other paths, and real messages cut off or changed byte by byte.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import wire
from walls import OTHER, World, forged, leaks, served

REFUSED = 100
"""The kind of an answer that is an error."""


def check(world: World, changes: int) -> list[str]:
    """What went wrong."""
    wrong, port = list[str](), world.port
    anna = wire.send(port, wire.connect(world.tokens["anna"])).connection
    bert = wire.send(port, wire.connect(world.tokens[OTHER])).connection
    wire.send(port, wire.prepare(anna, "CREATE TABLE mine(i BIGINT)"))
    wire.send(port, wire.prepare(bert, "CREATE TABLE his(i BIGINT)"))
    result = wire.send(port, wire.prepare(bert, "SELECT 'CANARY_result', i FROM range(100000) t(i)")).result

    refused = {
        "a forged token": wire.connect(forged(world.tokens["anna"])),
        "a token of nobody's": wire.connect("nobody.x"),
        "no token": wire.connect(""),
        "another version": wire.connect(world.tokens["anna"], version=9),
        "another's result": wire.fetch(anna, result),
    }
    for name in ("", "x", "0" * 32, anna.lower(), anna[:-1], anna + "0", "x" * 100_000):
        refused |= {f"a query as {name:.40}": wire.prepare(name, "SELECT 1"),
                    f"a fetch as {name:.40}": wire.fetch(name, result),
                    f"rows as {name:.40}": wire.append(name, "main", "his")}  # fmt: skip
    places = [
        ("main", "his"), ("", "his"), ("MAIN", "HIS"), ("published", "his"), ("published.main", "his"),
        ('"main"', "his"),
        ("main", '"his"'), ("main", 'his" VALUES (1) --'), ("mwem_server", "owners"), ("mwem", "schema_version"),
        ("temp", "his"), ("main", "his\0"), ("main", ""), ("", ""), ("__mwem_results", "x"), ("", "main.his"),
    ]  # fmt: skip
    refused |= {f"rows for {place}": wire.append(anna, *place) for place in places}
    for name, body in refused.items():
        answer = wire.send(port, body)
        if answer.kind != REFUSED or leaks(answer.body.decode(errors="replace")):
            wrong.append(f"{name}: {answer}")
    rows = wire.send(port, wire.prepare(bert, "SELECT count(*)::VARCHAR || ' rows' FROM his")).body
    if b"0 rows" not in rows:
        wrong.append(f"rows are in another's table: {rows!r}")
    if wire.send(port, wire.append(anna, "main", "mine")).kind == REFUSED:
        wrong.append("rows for a table of one's own are refused, so that the other refusals say nothing")
    if wire.send(port, wire.message(wire.CONNECT, wire.connect(world.tokens[OTHER])[20:], connection=anna)).kind == 2:
        wrong.append("a connection's name was chosen by its client")
    wire.send(port, wire.disconnect(anna))
    if wire.send(port, wire.prepare(anna, "SELECT 1")).kind != REFUSED:
        wrong.append("a connection that was left is open")
    for path in ("/", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/metrics", "//quack", "/quack/../x"):
        for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"):
            answer = wire.send(port, b"", path=path, method=method)
            if leaks(answer.body.decode(errors="replace")) or b"root:" in answer.body:
                wrong.append(f"{method} {path}: {answer}")
    wrong += _changed(world, changes, result)
    if not world.is_up():
        wrong.append("the server is down")
    return wrong


def _changed(world: World, changes: int, result: bytes) -> list[str]:
    """Real messages, cut off and changed."""
    wrong, chance = list[str](), random.Random(0)
    anna = wire.send(world.port, wire.connect(world.tokens["anna"])).connection
    messages = [
        wire.connect(world.tokens["anna"]), wire.prepare(anna, "SELECT 42"), wire.fetch(anna, result),
        wire.append(anna, "main", "mine"), wire.disconnect("0" * 32),
    ]  # fmt: skip
    bodies = [each[:k] for each in messages for k in range(len(each))]
    for _ in range(changes):
        body = bytearray(chance.choice(messages[1:]))
        for _ in range(chance.randrange(1, 4)):
            body[chance.randrange(len(body))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        bodies.append(bytes(body))
    for body in bodies:
        answer = wire.send(world.port, body)
        if leaks(answer.body.decode(errors="replace")):
            wrong.append(f"{body!r}: {answer}")
    return wrong


def main(changes: int = 2000) -> int:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "served") as world:
        wrong = check(world, changes)
    print(*wrong, sep="\n")
    print(f"{changes} changed messages, {len(wrong)} went wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
