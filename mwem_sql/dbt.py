"""A plugin of dbt-duckdb: models, hooks and Python models find the SQL functions on every connection that dbt opens.

    plugins:
      - module: mwem_sql.dbt

Owns nothing: it registers. Needs dbt-duckdb, which nothing else here imports.
"""

from __future__ import annotations

import duckdb
from dbt.adapters.duckdb.plugins import BasePlugin

from mwem_sql.surface.register import register


class Plugin(BasePlugin):
    """What dbt-duckdb looks for in the module that a profile names."""

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Called once for each database that dbt opens, before anything else runs; its cursors find the functions."""
        register(conn)
