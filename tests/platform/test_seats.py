"""Seats: a call in a served instance is made for whom the server says, and for nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import duckdb
import pytest
from conftest import PEOPLE, Connection

import mwem_sql
from mwem_sql.platform import seats
from mwem_sql.platform.seats import Seat
from mwem_sql.platform.session import Session, cursors, instance


class Recorder:
    """Lets everything be, and writes down who called what."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    @contextmanager
    def running(self, user: str, function: str, values: Mapping[str, Any], rows: int) -> Iterator[None]:  # noqa: ARG002
        self.calls.append((user, function))
        yield


@pytest.fixture
def served() -> Iterator[tuple[Connection, Connection, Recorder]]:
    """A private and a public instance of their own, the latter served: for good."""
    with mwem_sql.connect() as private, mwem_sql.connect() as public:
        private.execute(PEOPLE)
        private.execute("CALL mwem_budget('people', 10)")
        public.execute("CREATE TABLE w AS SELECT ['sex'] AS group_by")
        key = instance(public)
        assert key is not None
        seats.serve(key)
        yield private, public, Recorder()


def seat(user: str, private: Connection, permits: Recorder) -> Seat:
    return Seat(user=user, inside=replace(Session.of(private), fresh=cursors(private)), permits=permits)


def test_no_call_without_a_seat(served: tuple[Connection, Connection, Recorder]) -> None:
    _, public, _ = served
    for text in (
        "CALL mwem_release('people', w, 1)", "FROM mwem_ledger()", "SELECT mwem_count('x', 'true')",
        "FROM mwem_sample('x')",
    ):  # fmt: skip
        for ticket in (None, "guessed"):
            cursor = public.cursor()
            cursor.execute("SET VARIABLE mwem_ticket = $1", [ticket])
            with pytest.raises(duckdb.Error, match="the call has no seat"):
                cursor.execute(text)


def test_a_ticket_is_good_while_its_statement_runs(served: tuple[Connection, Connection, Recorder]) -> None:
    private, public, permits = served
    cursor = public.cursor()
    with seats.taken(cursor, seat("anna", private, permits)):
        assert cursor.execute("SELECT count(*) FROM mwem_domain('people')").fetchall() == [(4,)]
        ((ticket,),) = cursor.execute("SELECT getvariable('mwem_ticket')").fetchall()
    other = public.cursor()
    other.execute("SET VARIABLE mwem_ticket = $1", [ticket])
    for each in (cursor, other):
        with pytest.raises(duckdb.Error, match="the call has no seat"):
            each.execute("FROM mwem_domain('people')")
    assert permits.calls == [("anna", "mwem_domain")]


def test_two_users_at_once_are_told_apart(served: tuple[Connection, Connection, Recorder]) -> None:
    """Each waits inside its call until the other is inside, so that all interleaves that could."""
    private, public, _ = served
    barrier, failures = threading.Barrier(2, timeout=60), list[BaseException]()

    class Meeting(Recorder):
        @contextmanager
        def running(self, user: str, function: str, values: Mapping[str, Any], rows: int) -> Iterator[None]:
            barrier.wait()
            with super().running(user, function, values, rows):
                yield

    permits, fresh = Meeting(), {user: [public.cursor() for _ in range(5)] for user in ("anna", "bert")}
    inside = seat("anna", private, permits).inside
    chairs = {user: Seat(user=user, inside=inside, permits=permits) for user in fresh}

    def ask(user: str) -> None:
        try:
            for k, cursor in enumerate(fresh[user]):
                with seats.taken(cursor, chairs[user]):
                    call = f"CALL mwem_release('people', w, 0.01, rounds := 1, rows := 5, output := '{user}_{k}')"
                    cursor.execute(call).fetchall()
        except BaseException as error:  # noqa: BLE001
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=ask, args=(user,)) for user in fresh]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    rows = private.execute("SELECT user_name, output FROM mwem.ledger WHERE output IS NOT NULL").fetchall()
    assert len(rows) == 10 and all(f".main.{user}_" in output for user, output in rows)
