"""Who hears how far a call is, and what the log has of it."""

from __future__ import annotations

import logging

import pytest

from mwem_sql.platform.progress import News, heard_by, say


def test_listeners_hear_while_they_listen(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[News] = []
    news = News("people", "rounds", 2, 5, "sex, age")
    with caplog.at_level(logging.INFO, logger="mwem_sql"):
        say(news)
        with heard_by(heard.append):
            say(news)
        say(news)
    assert heard == [news]
    assert [record.message for record in caplog.records] == ["people: rounds 2 of 5"] * 3
    assert caplog.records[0].__dict__["mwem"] == {
        "table": "people",
        "phase": "rounds",
        "done": 2,
        "of": 5,
        "query": "sex, age",
    }


def test_a_listener_that_fails_costs_nothing() -> None:
    def fail(_: News) -> None:
        raise RuntimeError("no terminal")

    heard: list[News] = []
    with heard_by(fail), heard_by(heard.append):
        say(News("people", "reading"))
    assert len(heard) == 1
