"""What was asked of a stored release, in short, and how another request differs from it: public facts, for a person who meets a taken name.

Owns what is stored of a request beside its hash. Must not decide whether a release is reused: the hash does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from fractions import Fraction
from typing import Any

from mwem_sql.workload import Query

SHOWN = 3
"""Queries that are named as new."""
LONGEST = 80
"""Characters of them that are shown."""
MOST_QUERIES = 10_000
"""Of a longer workload one hash is stored for all queries, and nobody can tell which of them changed."""
_HASHED = 12  # characters of a hash


def in_short(asked: Mapping[str, Any]) -> str:
    """A request as JSON: options as they are, a hash for each query and for the domain table. A seed is not told."""
    short = dict(asked)
    if "seed" in short:
        short["seed"] = "given"
    queries = short["workload"]
    short["workload"] = list(map(_hash, queries)) if len(queries) <= MOST_QUERIES else [_hash(queries)]
    short["table"] = _hash(short["table"])  # it may be the path of a private file
    short["declared"] = None if short["declared"] is None else _hash(short["declared"])
    return json.dumps(short, sort_keys=True)


def changes(before: object, now: str, queries: Sequence[Query]) -> str:
    """In what a request differs from a stored one, as a sentence; empty where that is not known."""
    try:
        old, new = json.loads(str(before)), json.loads(now)
        names = sorted((old.keys() | new.keys()) - {"workload"})
        found = [_option(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
        found += _queries(old["workload"], new["workload"], queries)
    except (ValueError, LookupError, TypeError, AttributeError):  # older than this, or changed by hand
        return ""
    return f". What changed: {'; '.join(found or ['the seed'])}"


def _option(name: str, old: object, new: object) -> str:
    if name == "declared":
        return "the domain table"
    if name == "table":
        return "the private table"
    if isinstance(old, dict) and isinstance(new, dict):  # settings of the connection
        return "; ".join(
            _option(own, old.get(own), new.get(own)) for own in sorted(old) if old.get(own) != new.get(own)
        )
    return f"{name} ({_shown(name, old)}, now {_shown(name, new)})"


def _shown(name: str, value: object) -> str:
    if value is None:
        return "left out"
    return f"{float(Fraction(str(value))):g}" if name in {"epsilon", "delta"} else str(value)


def _queries(old: Sequence[str], new: Sequence[str], queries: Sequence[Query]) -> list[str]:
    """Which queries are new, by number and text; and how many of the old ones are gone."""
    if old == new:
        return []
    if len(new) != len(queries) or len(new) + len(old) > MOST_QUERIES:
        return [f"the workload, of {len(queries):,} rows now"]
    steps = [step for step in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if step[0] != "equal"]
    fresh = [k for _, _, _, begin, end in steps for k in range(begin, end)]
    gone = sum(end - begin for _, begin, end, _, _ in steps)
    out = [f"query {k + 1} ({queries[k].label[:LONGEST]!r})" for k in fresh[:SHOWN]]
    if len(fresh) > SHOWN:
        out.append(f"{len(fresh) - SHOWN:,} more queries")
    return [*out, *([f"{gone:,} queries of before are not in it"] if gone else [])]


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_HASHED]
