"""A release as a notebook shows it. Owns words and rounding; must show the summary's public facts only."""

from __future__ import annotations

from html import escape

from mwem_sql.judge import grade
from mwem_sql.releases.summary import SUMMARY, Summary

_BOX = "max-width:44em;overflow-x:auto;font-family:sans-serif;font-size:90%;line-height:1.4"
_LEFT = "text-align:left;padding:1px 12px 1px 0;font-weight:normal;opacity:.7;white-space:nowrap;vertical-align:top"
_RIGHT = "text-align:left;padding:1px 0;overflow-wrap:anywhere"
_NOTE = "border-left:3px solid #c60;padding:2px 8px;margin:4px 0"


def rounded(value: float) -> str:
    """A number for people: thousands apart, and as many digits as tell something."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def release_html(summary: Summary) -> str:
    """What was released, what it promises and what it cost, in a box that fits a narrow column."""
    facts = {
        "promise": f"ε = {rounded(summary.epsilon)}"
        + (f", δ = {rounded(summary.delta)}" if summary.delta else "")
        + f", for {summary.protects}",
        "rows": rounded(summary.rows),
        "asked": f"{_several(summary.queries, 'query', 'queries')} about {_several(summary.attributes, 'attribute', 'attributes')}",
        "measured in": _several(summary.rounds, "round", "rounds"),
        **_errors(summary),
        "model": _several(summary.cells, "cell", "cells"),
        "this call": "returned the stored release, at no cost"
        if summary.reused
        else f"made release {summary.release} in {rounded(summary.seconds)} s",
    }
    notes = (
        []
        if summary.private
        else ["Not private: a seed was given, so the noise can be repeated. For experiments only."]
    )
    notes += [summary.warning] if summary.warning else []
    rows = "".join(
        f'<tr><th style="{_LEFT}">{name}</th><td style="{_RIGHT}">{escape(text)}</td></tr>'
        for name, text in facts.items()
    )
    said = "".join(f'<div style="{_NOTE}" role="note">{escape(note)}</div>' for note in notes)
    return (
        f'<div style="{_BOX}"><div>Synthetic table <code>{escape(summary.output)}</code></div>{said}'
        f'<table style="border-collapse:collapse">{rows}</table></div>'
    )


def _errors(summary: Summary) -> dict[str, str]:
    """How good it is for its workload, and how far off its answers are, if it was certified."""
    facts = {name: getattr(summary, name) for name in SUMMARY}
    word = {} if summary.quality is None else {"quality": f"{summary.quality}: {grade.measured(facts)}"}
    error = grade.mean_error(facts)
    return word if error is None else word | {"in wrong cells": f"{error}, for a query"}


def _several(number: int, one: str, many: str) -> str:
    return f"{rounded(number)} {one if number == 1 else many}"
