"""What a relation of Spark may be, from its catalog, listings and the footers of files. Reads no row.

    relation  a table of the catalog, or files by their path: alias.parquet."/data/people"
    table     managed or external, in Parquet or ORC, with no option that decides how or which files are read, every partition in its own folder
    path      one Parquet or ORC file, or a folder with such files in it and no folders

Types are declared: by the catalog, or by the footers of all files, which must agree. None is inferred from the names of folders, which are values of
rows. The partition columns of a table are read as texts and cast to their types by a cast that gives NULL where there is no such value.
All that a scan needs is made here, and made before a debit: what is refused is refused free of charge.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from sqlglot import exp

from mwem_sql.boundary.sources import Facts
from mwem_sql.errors import RELEASE, TableError, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform.catalog import Column
from mwem_sql.scan.engines.spark_files import DataFiles, escaped, identity
from mwem_sql.scan.engines.spark_settings import OPTIONS

ACCOUNT = "mwem.account"
"""The property of a table that carries its account, through every ALTER and rename."""

_FORMATS = ("parquet", "orc")
_TYPES = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "boolean": "BOOLEAN", "string": "VARCHAR", "date": "DATE", "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark keeps that a string is a CHAR or VARCHAR
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TEXT = re.compile(r"varchar\(\d+\)|string collate \w+")
# Options of a table that only writers read.
_WRITERS = {"path", "serialization.format", "compression", "parquet.compression", "orc.compress"}
_BY_POSITION = "_col"  # how Hive names columns of ORC files that have none: Spark reads those by their place
_CURE = 'release a table in Parquet or ORC files, or such files by alias.parquet."/path"'


class Relation:
    """A relation, with its files and all that reads them."""

    def __init__(self, session: Any, name: tuple[str, str], kind: str, files: DataFiles, function: str) -> None:
        self._session = session
        self._name = name
        self._kind = kind
        self._function = function
        self._partitions: list[str] = []
        self._mark: str | None = None
        self._is_table = False
        self.files = files
        self.schema: Any = None

    @classmethod
    def of(cls, session: Any, parts: Sequence[str], function: str) -> Relation:
        if _is_path(parts):
            return cls._of_path(session, parts[0].lower(), parts[1], function)
        if len(parts) > 2:
            raise refuse(
                TableError, function, f"table ({'.'.join(parts)}) has too many parts",
                "write alias.schema.table; another catalog is made the session's current one before it is attached",
            )  # fmt: skip
        return cls._of_table(session, parts, function)

    @classmethod
    def _of_path(cls, session: Any, kind: str, text: str, function: str) -> Relation:
        files = DataFiles.under(session, text, function)
        name = f"file:{files.path}" if files.is_local and not text.startswith("/") else files.path
        found = cls(session, (kind, name), kind, files, function)
        found.schema = found._footers()
        folders = next((folders for folders in files.folders if folders), None)
        if folders is not None:
            raise refuse(
                TableError, function, f"files ({text!r}) are in folders, whose names are values of private rows and have no types",
                f"declare it as a table in Spark, each column with its type, and release that: {found._statements(folders)}",
            )  # fmt: skip
        found._check_names(found.schema)
        return found

    @classmethod
    def _of_table(cls, session: Any, parts: Sequence[str], function: str) -> Relation:
        shown = ".".join(parts)
        name = _table(parts).sql("spark")
        try:
            info = json.loads(session.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").collect()[0][0])
        except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
            raise refuse(
                TableError, function, f"table ({shown}) does not exist in the source", "name it as alias.schema.table"
            ) from None
        kind, type_text = str(info.get("provider", "")).lower(), info.get("type", "")
        if type_text not in {"MANAGED", "EXTERNAL"} or kind not in _FORMATS or not info.get("location"):
            what = f"is of type {type_text}" + (f" in {kind}" if kind else "")
            raise refuse(TableError, function, f"table ({shown}) {what}, whose rows may be computed or change", _CURE)
        for option in sorted(info.get("storage_properties", {})):
            if option.lower() not in _WRITERS:
                raise refuse(
                    TableError, function, f"table ({shown}) has the option {option!r}, which may decide how or which files are read",
                    "make the table without it, over the same LOCATION",
                )  # fmt: skip
        frame = session.table(name)
        files = DataFiles.of_table(session, str(info["location"]), frame.inputFiles(), function)
        found = cls(session, (fold(info["namespace"][-1]), fold(info["table_name"])), kind, files, function)
        found.schema = frame.schema
        found._is_table = True
        found._partitions = [fold(column) for column in info.get("partition_columns", [])]
        found._mark = info.get("table_properties", {}).get(ACCOUNT)
        found._check_folders(shown)
        if files.listed:
            found._check_footers(shown)
        return found

    def facts(self, source: str) -> Facts:
        """What the boundary is told; `source` is what the application is known by."""
        columns = tuple(
            Column(field.name, kind, field.nullable, id=f"name:{fold(field.name)}")
            for field in self.schema
            if (kind := self._type(field)) is not None
        )
        names = (((source, *self._name),),) if self._is_table else ()
        return Facts(
            *self._name, columns, exp.table_(self._view(source), quoted=True), (*self.files.keys(), *names), (), {column.name: column for column in columns},
            (self._kind, self.files.path, self.schema.json(), tuple(self._partitions)), self._mark,
        )  # fmt: skip

    def show(self, source: str) -> None:
        """Let the view's name stand for these files, in the session that they were listed in."""
        self._rows().createOrReplaceTempView(self._view(source))

    def _view(self, source: str) -> str:
        """The name of the temporary view: the same in every session."""
        return "__mwem_" + hashlib.sha256("\n".join([source, *self._name]).encode()).hexdigest()[:16]

    def _type(self, field: Any) -> str | None:
        """DuckDB's type; None for a column that is not seen. The name of a folder has no time zone."""
        kind = _type(field.metadata.get(_DECLARED) or field.dataType.simpleString())
        return None if kind == "TIMESTAMP WITH TIME ZONE" and fold(field.name) in self._partitions else kind

    def _rows(self) -> Any:
        """The rows of the files, partition columns as texts that are cast."""
        if not self.files.listed:
            return self._session.createDataFrame([], self.schema)
        physical = type(self.schema)()
        for field in self.schema:
            text = "string" if fold(field.name) in self._partitions else field.dataType
            physical = physical.add(field.name, text, True, None if text == "string" else field.metadata)
        reader = self._reader().schema(physical)
        if self._partitions:
            reader = reader.option("basePath", self.files.path)
        rows = reader.load([escaped(path) for path in self.files.paths])
        return rows.selectExpr(*(self._item(field).sql("spark") for field in self.schema)) if self._partitions else rows

    def _item(self, field: Any) -> exp.Expr:
        column = exp.column(field.name, quoted=True)
        if fold(field.name) not in self._partitions or field.dataType.typeName() == "string":
            return column
        to = exp.DataType.build(field.dataType.simpleString(), dialect="spark", udt=True)
        return exp.alias_(exp.TryCast(this=column, to=to), field.name, quoted=True)

    def _reader(self) -> Any:
        """A reader with every option written out. The last one keeps Spark from taking what somebody has cached for what is in the files."""
        return self._session.read.format(self._kind).options(**OPTIONS).option("mwem", uuid.uuid4().hex)

    def _footers(self) -> Any:
        """The schema of all files together; refused where they do not agree."""
        try:
            schema = self._reader().load([escaped(path) for path in self.files.paths]).schema
        except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
            raise refuse(
                TableError, self._function, f"files ({self.files.path!r}) are not all {self._kind}, or not of one schema",
                "write them again with the same columns and types",
            ) from None  # fmt: skip
        return schema

    def _check_names(self, schema: Any) -> None:
        if self._kind == "orc" and any(field.name.startswith(_BY_POSITION) for field in schema):
            raise refuse(
                TableError, self._function, f"files ({self.files.path!r}) have ORC columns without names, which are known by their place only",
                "write them again with names: INSERT INTO a table USING parquet",
            )  # fmt: skip

    def _check_folders(self, shown: str) -> None:
        """Every file is in the folders that its partition columns name, by names alone: values are private."""
        for folders in self.files.folders:
            names = [fold(unquote(folder.partition("=")[0])) for folder in folders if "=" in folder]
            if len(folders) != len(names) or names != self._partitions:
                raise refuse(
                    TableError, self._function, f"table ({shown}) has a partition that is not in the folder of its name below the table's",
                    "move the partition there: ALTER TABLE ... PARTITION (...) SET LOCATION, or write the table again",
                )  # fmt: skip

    def _check_footers(self, shown: str) -> None:
        """The files have the types that the catalog declares: a scan would fail on a file that has others, or read it by place."""
        found = self._footers()
        self._check_names(found)
        written = {fold(field.name): field.dataType for field in found}
        for field in self.schema:
            other = written.get(fold(field.name))
            if other is None or fold(field.name) in self._partitions or self._type(field) is None:
                continue
            is_text = field.dataType.typeName() == other.typeName() == "string"  # a collation changes no byte
            if other != field.dataType and not is_text:
                raise refuse(
                    TableError, self._function,
                    f"table ({shown}) declares {field.name} as {field.dataType.simpleString()}, and its files have {other.simpleString()}",
                    "declare the type that the files have, or write the table again",
                )  # fmt: skip

    def _statements(self, folders: Sequence[str]) -> str:
        """What declares a folder with partitions as a table. From names of columns and footers: no value of a row is in it."""
        keys = [unquote(folder.partition("=")[0]) for folder in folders]
        written = [
            (field.name, field.dataType.simpleString()) for field in self.schema if self._type(field) is not None
        ]
        columns = [
            exp.ColumnDef(this=exp.to_identifier(name, quoted=True), kind=exp.DataType.build(kind, dialect="spark", udt=True))
            for name, kind in [*(item for item in written if fold(item[0]) not in map(fold, keys)), *((key, "string") for key in keys)]
        ]  # fmt: skip
        name = re.sub(r"\W", "_", PurePosixPath(self.files.path).name)
        properties: list[exp.Expr] = [
            exp.FileFormatProperty(this=exp.var(self._kind)),
            exp.PartitionedByProperty(
                this=exp.Schema(expressions=[exp.to_identifier(key, quoted=True) for key in keys])
            ),
            exp.LocationProperty(this=exp.Literal.string(self.files.path)),
        ]
        table = exp.table_(name, quoted=True)
        made = exp.Create(
            this=exp.Schema(this=table.copy(), expressions=columns), kind="TABLE", properties=exp.Properties(expressions=properties)
        )  # fmt: skip
        return f"{made.sql('spark')}; MSCK REPAIR TABLE {table.sql('spark')}"


def _table(parts: Sequence[str]) -> exp.Table:
    return exp.table_(parts[-1], db=parts[0] if len(parts) > 1 else None, quoted=True)


def _is_path(parts: Sequence[str]) -> bool:
    return len(parts) == 2 and parts[0].lower() in _FORMATS and ("/" in parts[1] or "\\" in parts[1])


def mark(session: Any, parts: Sequence[str], account: str) -> None:
    """Let a table carry an account. Files by their path have nothing that could: they are known by themselves."""
    if _is_path(parts):
        return
    carried = exp.Property(this=exp.Literal.string(ACCOUNT), value=exp.Literal.string(account))
    action = exp.AlterSet(expressions=[exp.Properties(expressions=[carried])])
    statement = exp.Alter(this=_table(parts), kind="TABLE", actions=[action]).sql("spark")
    try:
        session.sql(statement).collect()
    except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
        raise refuse(
            TableError, RELEASE, f"table ({'.'.join(parts)}) cannot be marked with its account, and without it a rename would change the account",
            f"the role needs ALTER on the table; or its owner runs {statement}",
        ) from None  # fmt: skip


def source_identity(session: Any) -> str:
    """What the tables of an application are known by: its warehouse, and its catalog if it is not Spark's own."""
    catalog = str(session.catalog.currentCatalog())
    warehouse = identity(str(session.conf.get("spark.sql.warehouse.dir")))
    return f"spark:{warehouse}" + ("" if catalog == "spark_catalog" else f"/{catalog}")


def _type(text: str) -> str | None:
    """DuckDB's type for one of Spark's; None where there is none with the same values. CHAR(n) is padded, and left out."""
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return f"DECIMAL({decimal[1]},{decimal[2]})"
    return "VARCHAR" if _TEXT.fullmatch(text) else _TYPES.get(text)
