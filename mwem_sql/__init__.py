"""Differentially private synthetic tables inside DuckDB: `CALL mwem_release('adult', workload, 0.5)`."""

from mwem_sql.database.calls import cancel
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import (
    BudgetError,
    CancelledError,
    CellsError,
    DomainError,
    EngineError,
    MwemError,
    OptionError,
    OutputError,
    PredicateError,
    TableError,
    WorkloadError,
)
from mwem_sql.surface.api import Release, attach, detach, release
from mwem_sql.surface.register import connect, register, unregister
from mwem_sql.workload import Query, Workload

__all__ = [
    "Attribute", "BudgetError", "CancelledError", "CellsError", "Domain", "DomainError", "EngineError", "MwemError", "OptionError", "OutputError",
    "PredicateError", "Query", "Release", "TableError", "Workload", "WorkloadError", "attach", "cancel", "connect", "detach", "register", "release",
    "unregister",
]  # fmt: skip
