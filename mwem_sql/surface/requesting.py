"""Bodies of the functions that ask for more than a user's caps allow, and of those that decide about it."""

from __future__ import annotations

from mwem_sql.accounting import requests as accounting
from mwem_sql.errors import spoken_by
from mwem_sql.explain.explain import plan_rows
from mwem_sql.releases import asking
from mwem_sql.releases.withdrawal import read_reason
from mwem_sql.surface import bodies
from mwem_sql.surface.bodies import Arguments, Rows


def request(call: Arguments) -> Rows:
    """A release that is asked for, with the plan that mwem_plan shows."""
    with spoken_by(call.function):
        whole = bodies.request(call)
        plan = [f"{row['item']}: {row['value']}" for row in plan_rows(call.session, whole)]
        return [asking.ask(call.session, whole, plan)]


def requests(call: Arguments) -> Rows:
    return accounting.listed(call.session.private.cursor(), call.session.user)


def approve(call: Arguments) -> Rows:
    return _decided(call, "approved")


def refuse(call: Arguments) -> Rows:
    return _decided(call, "refused", read_reason(call["reason"], call.function))


def withdraw_request(call: Arguments) -> Rows:
    return _decided(call, "withdrawn")


def _decided(call: Arguments, status: str, reason: str | None = None) -> Rows:
    session, request = call.session, call.name("request", "request", "3f9a61c0...")
    con = session.private.cursor()
    return [accounting.decide(con, request.strip(), status, call.function, reason=reason, user=session.user)]
