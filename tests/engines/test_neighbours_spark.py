"""Neighbours of Spark's files: a call shows the same before its debit, and answers move within the sensitivity.

`pytest -m campaign -n0 -s tests/engines/test_neighbours_spark.py` asks 5,000 pairs; `spark_worlds.py` says what they
are. The same rows under another spelling have a name in common, whatever the spelling.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import servers
from neighbours import Seen
from spark_worlds import World, configured, look, neighbours, random_rows, world

pytest.importorskip("pyspark", reason=servers.MISSING)

from pyspark.errors import PySparkException

from mwem_sql.scan.engines import spark as spark_engine
from mwem_sql.scan.engines import spark_catalog, spark_files
from mwem_sql.scan.engines.spark import Spark
from mwem_sql.scan.engines.spark_catalog import SparkRelation
from mwem_sql.scan.engines.spark_files import DataFiles

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.mark.parametrize(
    ("worlds", "each"),
    [
        pytest.param(5, 1, marks=pytest.mark.engines),
        pytest.param(12, 1, marks=[pytest.mark.engines, pytest.mark.thorough]),
        pytest.param(1000, 6, marks=[pytest.mark.engines, pytest.mark.campaign]),
    ],
)
def test_neighbours_of_files_and_tables(spark: Any, worlds: int, each: int, tmp_path: Path) -> None:
    met: Counter[str] = Counter()
    reached = 0.0
    for seed in range(worlds):
        reached = max(reached, _world(spark, seed, each, tmp_path, met))
        if seed % 50 == 49:
            print(f"{seed + 1} sources: {dict(met)}, {reached:.3f}", flush=True)
    pairs = met["released"] + met["refused"]
    print(
        f"\n{worlds} sources, {pairs} pairs: {dict(met)}; answers move by at most {reached:.3f} of what the noise is "
        f"made for"
    )
    assert met["released"] > pairs / 6 and met["refused"] > pairs / 6


def _world(session: Any, seed: int, each: int, folder: Path, met: Counter[str]) -> float:
    chance = random.Random(seed)
    made, rows, reached = world(chance), random_rows(chance), 0.0
    with configured(session, made):
        engine = Spark.of_session(session, None)
        try:
            made.build(session, rows, folder / "rows")
        except PySparkException:  # not a table that Spark knows
            met["not made"] += 1
            return reached
        whole = _look(engine, made, folder / "rows", seed)
        for fewer in neighbours(chance, made, rows, each):
            made.build(session, fewer, folder / "rows")
            part = _look(engine, made, folder / "rows", seed)
            assert part.public == whole.public, (seed, made)
            if whole.answers is None or part.answers is None:
                assert isinstance(whole.public, str), (seed, made, "charged, and then failed")
                met["refused"] += 1
                continue
            met["released"] += 1
            for one, other, bound in zip(whole.answers, part.answers, whole.bounds, strict=True):
                moved = sum(abs(x - y) for x, y in zip(one, other, strict=True))
                assert moved <= bound * made.rows_per_unit, (seed, made, moved)
                reached = max(reached, moved / (bound * made.rows_per_unit))
    return reached


def _look(engine: Spark, made: World, folder: Path, seed: int) -> Seen:
    """What is seen; and that its files' own names, as any engine has them, are among those that it is known by."""
    seen, facts = look(engine, made, folder)
    assert not str(seen.public).startswith("not described"), (seed, made, seen.public)
    if facts is not None:
        own = {key for path in folder.rglob(f"[!._]*.{made.kind}") for key in spark_files.files.keys_of(str(path))}
        assert own & set(facts.keys[0]), (seed, made)
        assert all(column.id for column in facts.columns)
    return seen


def _by_inference(cls: type[SparkRelation], session: Any, kind: str, text: str) -> SparkRelation:
    """As it was: types from the names of folders."""
    files = DataFiles.under(session, text)
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "true")
    schema = session.read.format(kind).load(files.path).schema
    partitions = ["k"] if any(files.folders) else []
    name = (kind, files.path)
    return cls(session=session, name=name, kind=kind, files=files, schema=schema, partitions=partitions)


def _unescaped(patch: pytest.MonkeyPatch) -> None:
    for module in (spark_files, spark_catalog):
        patch.setattr(module, "escaped", lambda path: path)


def _typed(self: SparkRelation) -> Any:
    """Partition columns by the types that the catalog declares."""
    return (
        spark_catalog._reader(self.session, self.kind)
        .schema(self.schema)
        .option("basePath", self.files.path)
        .load(list(map(spark_files.escaped, self.files.paths)))
    )


BROKEN: dict[str, tuple[Callable[[pytest.MonkeyPatch], object], Callable[[World], bool]]] = {
    "types of folders": (
        lambda patch: patch.setattr(SparkRelation, "_of_path", classmethod(_by_inference)),
        lambda made: made.is_partitioned and not made.is_table and made.spelling in SAME and made.step == "none",
    ),
    "one spelling": (
        lambda patch: patch.setattr(DataFiles, "keys", lambda self: (((self.path, "", ""),),)),
        lambda made: not made.is_partitioned and not made.is_table and made.spelling in SAME,
    ),
    "no file twice": (
        lambda patch: patch.setattr(DataFiles, "checked", lambda self, _: self),
        lambda made: made.step.endswith(" link") and (made.is_table or made.spelling in SAME) and not made.options,
    ),
    "settings": (
        lambda patch: patch.setattr(spark_engine, "SETTINGS", {}),
        lambda made: made.is_table and made.is_partitioned and made.declared != "STRING" and not made.options,
    ),
    "the active session": (
        lambda patch: patch.setattr(spark_engine, "active", lambda _: nullcontext()),
        lambda made: made.is_table and made.is_partitioned and made.declared != "STRING" and not made.options,
    ),
    "partitions as texts": (
        lambda patch: patch.setattr(SparkRelation, "_rows", _typed),
        lambda made: made.is_table and made.is_partitioned and made.declared == "DECIMAL(3,1)" and not made.options,
    ),
    "no patterns": (_unescaped,
        lambda made: made.is_table and made.is_partitioned and made.declared == "STRING" and not made.options),
    "footers": (
        lambda patch: patch.setattr(SparkRelation, "_check_footers", lambda *_: None),
        lambda made: made.is_table and made.step == "other types" and not made.options,
    ),
}  # fmt: skip
SAME = {"plain", "slash", "dots", "doubled", "scheme", "three slashes", "capital", "link", "relative"}
"""Spellings under which the folder is found."""


@pytest.mark.engines
@pytest.mark.campaign
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_boundary_is_caught(spark: Any, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of its rules, some pair of neighbours is told apart, fails, or has no name in common."""
    act, concerns = BROKEN[broken]
    act(monkeypatch)
    for seed in range(4000):
        if not concerns(world(random.Random(seed))):
            continue
        try:
            _world(spark, seed, 2, tmp_path, Counter())
        except AssertionError:
            print(f"\n{broken}: caught at source {seed + 1}")
            return
    pytest.fail(f"{broken}: not caught")
