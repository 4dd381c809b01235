"""`mwem-sql serve`, `mwem-sql user` and `mwem-sql curator`: a server's life, its users, and what the curator says.

Owns signals: SIGTERM and SIGINT stop it once releases have come to their end, SIGHUP lets it read users and setup
again. Must not know how a statement is checked.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import threading
from dataclasses import fields
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import duckdb

from mwem_sql.errors import MwemError
from mwem_sql.server import door
from mwem_sql.server.limits import ServerLimits
from mwem_sql.server.serve import LISTEN, Server, serve
from mwem_sql.server.users import Users

USERS = "users.toml"
WAITING = "SELECT * EXCLUDE (plan) FROM mwem_requests() WHERE state IN ('open', 'approved')"
"""What the curator reads first."""


def run(arguments: list[str]) -> int:
    """Serve until a signal says that it is enough."""
    parser = argparse.ArgumentParser(
        prog="mwem-sql serve",
        description="Serve releases of a private database to users with tokens, who need nothing but DuckDB.",
        epilog="A table is served once it has a cap: CALL mwem_budget('census', 3.0) in --setup. SIGHUP reads users "
        "and setup again; SIGTERM lets releases come to their end.",
    )
    add = parser.add_argument
    add("--private", metavar="PATH", help="the curator's DuckDB file, with the rows or at least with the ledger")
    add("--public", metavar="PATH", help="the DuckDB file of releases and analysts' tables; made if it is not there")
    add("--users", metavar="PATH", default=USERS, help=f"who may connect ({USERS}); mwem-sql user add makes it")
    add("--listen", metavar="URI", default=LISTEN, help=f"where ({LISTEN})")
    add("--setup", metavar="FILE", help="SQL for the private side, at the start and at SIGHUP: caps, sources")
    add("--allow-other-hosts", action="store_true", help="listen on an address that is not this machine's own")
    add("--health", action="store_true", help="say whether a server answers at --listen, and leave: 0 or 1")
    for each in fields(ServerLimits):
        add(f"--{each.name.replace('_', '-')}", type=type(each.default), default=each.default, help=f"({each.default})")
    options = parser.parse_args(arguments)
    if options.health:
        return health(options.listen)
    for name in ("private", "public"):
        if getattr(options, name) is None:
            parser.error(f"the following arguments are required: --{name}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    setup = Path(options.setup).read_text(encoding="utf-8") if options.setup else ""
    limits = ServerLimits(**{each.name: getattr(options, each.name) for each in fields(ServerLimits)})
    with serve(
        options.private, options.public, options.users, listen=options.listen, setup=setup, limits=limits,
        allow_other_hosts=options.allow_other_hosts,
    ) as server:  # fmt: skip
        return wait(server, options.setup)


def wait(server: Server, setup: str | None) -> int:
    """Act on signals until one of them stops the server."""
    wanted = {number: threading.Event() for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    woken = threading.Event()

    def note(number: int, _: object) -> None:
        wanted[signal.Signals(number)].set()
        woken.set()

    for number in wanted:
        signal.signal(number, note)
    print(pasted(server), flush=True)
    notify("READY=1")
    while True:
        woken.wait()
        woken.clear()
        if wanted[signal.SIGTERM].is_set() or wanted[signal.SIGINT].is_set():
            break
        wanted[signal.SIGHUP].clear()
        try:
            server.reload(Path(setup).read_text(encoding="utf-8") if setup else "")
            print(f"read again: {len(server.users)} users", flush=True)
        except (MwemError, duckdb.Error, OSError) as error:  # what held before holds on
            print(error, file=sys.stderr, flush=True)
    print("stopping: releases come to their end", flush=True)
    notify("STOPPING=1")
    is_done = server.stop()
    print("stopped" if is_done else "stopped, and a statement was left running", flush=True)
    return 0 if is_done else 1


def pasted(server: Server) -> str:
    """What an analyst pastes into any DuckDB."""
    lines = [
        f"serving {server.listen} to {len(server.users)} users. An analyst pastes into any DuckDB:",
        "",
        "  INSTALL quack; LOAD quack;",
        f"  ATTACH '{server.listen}' AS curator (TYPE quack, TOKEN '<their token>');",
        "  FROM curator.query('CALL mwem_domain(''<table>'')');",
        "",
    ]
    return "\n".join(lines)


def notify(state: str) -> None:
    """Tell systemd, where it listens (sd_notify)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as con:
            con.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            con.sendall(state.encode())


def health(listen: str) -> int:
    """Whether something that speaks Quack answers."""
    address = listen.removeprefix("quack:")
    host, _, port = address.rpartition(":") if ":" in address else (address, "", "9494")
    try:
        with urlopen(f"http://{host}:{port}/", timeout=5) as answer:
            is_well = b"Quack" in answer.read(1000)
    except (URLError, OSError, ValueError) as error:
        print(f"{listen} does not answer: {error}", file=sys.stderr)
        return 1
    print(f"{listen} answers" if is_well else f"{listen} is something else")
    return 0 if is_well else 1


def users(arguments: list[str]) -> int:
    """Add, remove and list users."""
    parser = argparse.ArgumentParser(
        prog="mwem-sql user", description="Users of mwem-sql serve. A token is shown once, when it is made."
    )
    parser.add_argument("--users", metavar="PATH", default=USERS, help=f"the users file ({USERS})")
    commands = parser.add_subparsers(dest="command", required=True)
    for command, words in (("add", "a user, or a new token for one"), ("remove", "a user"), ("list", "all users")):
        sub = commands.add_parser(command, help=words)
        sub.add_argument("--users", metavar="PATH", default=argparse.SUPPRESS, help=f"the users file ({USERS})")
        if command != "list":
            sub.add_argument("name", help="lower-case letters, digits and _")
    options = parser.parse_args(arguments)
    file = Users(options.users)
    if options.command == "add":
        print(file.add(options.name))
    elif options.command == "remove":
        file.remove(options.name)
    else:
        file.reload()
        print(*file.names, sep="\n")
    if options.command != "list":
        print("A server that runs reads the file again on SIGHUP: kill -HUP its process.", file=sys.stderr)
    return 0


def curator(arguments: list[str]) -> int:
    """Run SQL on the private side of a server that runs; a line of JSON for each row."""
    parser = argparse.ArgumentParser(
        prog="mwem-sql curator",
        description="Run SQL on the private side of a server that runs, as the owner of its private file.",
        epilog="mwem-sql curator census.duckdb -c \"CALL mwem_approve('3f9a61c0...')\"",
    )
    parser.add_argument("private", metavar="PATH", help="the private file that the server was started with")
    words = "what to run, instead of listing what waits for a decision"
    parser.add_argument("-c", dest="text", metavar="SQL", default=WAITING, help=words)
    options = parser.parse_args(arguments)
    columns, rows = door.ask(options.private, options.text)
    for row in rows:
        print(json.dumps(dict(zip(columns, row, strict=True))))
    return 0
