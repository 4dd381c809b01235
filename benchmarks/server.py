"""What a server carries: `python benchmarks/server.py crowd|answers|gone|soak [minutes]`, where DuckDB has Quack.

crowd: 64 clients at once against a cap for 10 releases. answers: `mwem_count` a second, by clients. gone: clients that
go away while their release is made. soak: mixed calls of four clients; the server's memory in the first and the last
third of the time.
"""

from __future__ import annotations

import random
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import wire
from walls import Client, World, connected, served

USERS = [f"user{k}" for k in range(8)]
SMALL = "CALL mwem_release('census', w, {epsilon}, rounds := 1, rows := 50, output := '{output}')"
LATER = ("are being made already", "of yours run already")
"""What a client is told that had better ask again in a while."""


def workload(world: World) -> None:
    with world.client(USERS[0]) as one:
        one.run("CREATE TABLE w AS SELECT 'age > 40' AS predicate, ['sex', 'city'] AS group_by")


def crowd(folder: Path, clients: int = 64, releases: int = 10) -> None:
    with served(folder, users=USERS, cap=0.1 * releases) as world:
        workload(world)
        gate, counts = threading.Barrier(clients), Counter[str]()

        def ask(k: int) -> None:
            with world.client(USERS[k % len(USERS)]) as client:
                gate.wait(120)
                while True:
                    try:
                        client.run(SMALL.format(epsilon=0.1, output=f"o{k}"))
                        counts["made"] += 1
                        return  # noqa: TRY300
                    except duckdb.Error as error:
                        if not any(each in str(error) for each in LATER):
                            counts["over the cap" if "does not fit the cap" in str(error) else str(error)] += 1
                            return
                        counts["asked to call again"] += 1
                        time.sleep(random.uniform(0.1, 0.5))

        started = time.monotonic()
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(ask, range(clients)))
        seconds = time.monotonic() - started
    ledger = world.ledger()
    print(f"crowd: {clients} clients, a cap for {releases}: {dict(counts)} in {seconds:.0f} s")
    print(f"       ledger: {len(ledger)} debits, epsilon {sum(row[2] for row in ledger):.3g}, "
          f"{len({row[0] for row in ledger})} users")  # fmt: skip


COUNT, ROWS = "SELECT mwem_count('rel', 'age > {}')", "SELECT count(*) FROM rel WHERE age > {}"


def _statements(text: str, uri: str, token: str, seconds: float) -> int:
    """How many statements a client gets answered, one after the other."""
    with connected() as con:
        con.execute(f"ATTACH '{uri}' AS curator (TYPE quack, TOKEN '{token}')")
        client, done, end = Client(con), 0, time.monotonic() + seconds
        while time.monotonic() < end:
            client.run(text.format(done % 90))
            done += 1
        return done


def answers(folder: Path, seconds: float = 10) -> None:
    with served(folder, users=USERS) as world:
        workload(world)
        with world.client(USERS[0]) as one:
            one.run(SMALL.format(epsilon=0.5, output="rel"))
            started = time.monotonic()
            one.run("SELECT mwem_count('rel', 'age > ' || (i % 90)) FROM range(2000) t(i)")
            print(f"answers: {2000 / (time.monotonic() - started):.0f} a second, 2000 in one statement")
        for name, text in (("mwem_count", COUNT), ("a SELECT of rows", ROWS)):
            for clients in (1, 2, 4):
                with ProcessPoolExecutor(clients) as pool:
                    users = [(text, world.uri, world.tokens[USERS[k]], seconds) for k in range(clients)]
                    done = sum(each.result() for each in [pool.submit(_statements, *user) for user in users])
                rate = f"{done / seconds:.0f} a second, one each statement"
                print(f"answers: {rate} ({name}, {clients} clients)", flush=True)


def gone(folder: Path, trials: int = 10) -> None:
    """A client that goes away: its release is made and charged once, and the same CALL returns it."""
    with served(folder, users=USERS, cap=10.0) as world:
        workload(world)
        counts = Counter[str]()
        for k in range(trials):
            call = SMALL.format(epsilon=0.1, output=f"o{k}").replace("rows", "version := 'a', rows")
            name = wire.send(world.port, wire.connect(world.tokens[USERS[0]])).connection
            body = wire.prepare(name, call)
            with socket.create_connection(("127.0.0.1", world.port)) as con:
                con.sendall(b"POST /quack HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                time.sleep(0.1 * k)
            counts[_again(world, call)] += 1
    ledger = world.ledger()
    print(
        f"gone: {trials} clients went away; the same call by another afterwards: {dict(counts)}; {len(ledger)} debits"
    )


def _again(world: World, call: str) -> str:
    with world.client(USERS[0]) as client:
        for _ in range(100):
            try:
                return "stored" if client.one(call)["reused"] else "made"
            except duckdb.Error as error:
                if not any(each in str(error) for each in LATER):
                    return str(error)
                time.sleep(0.2)
    return "never"


def soak(folder: Path, minutes: float = 20) -> None:
    with served(folder, users=USERS, cap=1000.0, releases_at_once=4, tables_per_user=10_000) as world:
        workload(world)
        with world.client(USERS[0]) as one:
            one.run(SMALL.format(epsilon=0.5, output="rel"))
        end, counts, sizes = time.monotonic() + 60 * minutes, Counter[str](), list[tuple[float, int]]()

        def work(k: int) -> None:
            chance = random.Random(k)
            while time.monotonic() < end:
                with world.client(USERS[k]) as client:
                    for _ in range(200):
                        _one(client, chance, counts, k)
                        if time.monotonic() > end:
                            break

        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(work, k) for k in range(4)]
            while time.monotonic() < end:
                time.sleep(2)
                sizes.append((time.monotonic(), world.memory()))
            for job in jobs:
                job.result()
        third = len(sizes) // 3
        first, last = ([size / 2**20 for _, size in part] for part in (sizes[:third], sizes[-third:]))
    print(f"soak: {minutes:g} minutes, {sum(counts.values()):,} calls: {dict(counts)}")
    for name, part in (("first third", first), ("last third", last)):
        print(f"      {name}: median {statistics.median(part):.0f} MB, {min(part):.0f} to {max(part):.0f}")
    every = max(1, len(sizes) // 12)
    print("      MB over time:", *(f"{size / 2**20:.0f}" for _, size in sizes[::every]))


def _one(client: Client, chance: random.Random, counts: Counter[str], k: int) -> None:
    number = chance.randrange(10**9)
    calls: dict[str, Callable[[], object]] = {
        "count": lambda: client.run(f"SELECT mwem_count('rel', 'age > {number % 90}')"),
        "rows": lambda: client.run("SELECT city, count(*) FROM census GROUP BY city"),
        "large": lambda: client.run("SELECT i FROM range(100000) t(i)"),
        "answer": lambda: client.run("FROM mwem_answer('rel', w)"),
        "sample": lambda: client.run("FROM mwem_sample('rel', 100)"),
        "plan": lambda: client.run("FROM mwem_plan('census', w, 0.1)"),
        "refused": lambda: client.run("FROM read_text('/etc/passwd')"),
        "table": lambda: client.here(f"CREATE TABLE curator.t{k}_{number} AS SELECT i FROM range(1000) t(i)"),
        "ledger": lambda: client.run("FROM mwem_ledger()"),
        "release": lambda: client.run(SMALL.format(epsilon=0.001, output=f"o{number % 50}_{k}")),
    }  # fmt: skip
    name = chance.choices(list(calls), [20, 20, 5, 10, 5, 3, 10, 2, 2, 0.5])[0]
    client.seen.clear()
    try:
        calls[name]()
        if name == "table":
            client.run(f"DROP TABLE t{k}_{number}")
    except duckdb.Error as error:
        name = "refused" if name == "refused" or any(each in str(error) for each in LATER) else f"{name} {error!s:.200}"
    counts[name] += 1


if __name__ == "__main__":
    what, *rest = sys.argv[1:] or ["crowd"]
    run = {"crowd": crowd, "answers": answers, "gone": gone, "soak": soak}[what]
    with tempfile.TemporaryDirectory() as place:
        run(Path(place) / "served", *map(float if what in {"soak", "answers"} else int, rest))
