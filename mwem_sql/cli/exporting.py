"""`mwem-sql export adult_synthetic --to release.parquet`: a release as files to publish. Owns which database is meant; the work is `mwem_export`'s."""

from __future__ import annotations

import argparse
from pathlib import Path

from mwem_sql.cli.console import connection

EXPORT = "SELECT file, bytes FROM mwem_export($output, $path)"


def run(arguments: list[str]) -> int:
    """Write the files and print their names."""
    parser = argparse.ArgumentParser(
        prog="mwem-sql export",
        description="Write a release as a file to publish, and a data card beside it (.md for people, .json for programs).",
    )
    parser.add_argument("output", help="the output table of a release")
    parser.add_argument("--to", required=True, metavar="FILE", help="release.parquet, release.csv or release.duckdb")
    parser.add_argument(
        "--database", metavar="PATH", help="where the release is; without it, the only *.duckdb file of this folder"
    )
    options = parser.parse_args(arguments)
    found = [options.database] if options.database else sorted(map(str, Path().glob("*.duckdb")))
    if len(found) != 1:
        parser.error(f"there are {len(found)} *.duckdb files here; say which one: --database census.duckdb")
    if not Path(found[0]).is_file():
        parser.error(f"--database ({found[0]}) is not a file")
    with connection(parser, found[0], read_only=True) as con:
        for file, size in con.execute(EXPORT, {"output": options.output, "path": options.to}).fetchall():
            print(f"{size:>12,} bytes  {file}")
    return 0
