"""What Spark's catalog, or the footers of files, say of a relation, in DuckDB's words; and the view of its files.

    relation  a table of the catalog that is kept in Parquet or ORC files, or such files by their path:
              alias.parquet."/data/people"
    table     managed or external, in Parquet or ORC, with no option that decides how or which files are read, every
              partition in a folder of its name
    path      one Parquet or ORC file, or a folder with such files in it and no folders

Types are declared: by the catalog, or by the footers of all files, which must agree. None is inferred from the names of
folders, which are values of rows. The partition columns of a table are read as texts and cast to their types by a cast
that gives NULL where there is no such value. All that a scan needs is made here, and made before a debit: what is
refused is refused free of charge.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

from sqlglot import exp

from mwem_sql.boundary.sources import Facts, Mark
from mwem_sql.language.dialect import fold
from mwem_sql.platform.catalog import Column
from mwem_sql.scan.engines.protocol import refuse_relation
from mwem_sql.scan.engines.spark_files import DataFiles, escaped, identity

MARKS: Final[dict[Mark, str]] = {"account": "mwem.account", "unit": "mwem.unit"}
"""The properties of a table that carry its marks, through every ALTER and rename."""
READ_OPTIONS = {
    "mergeSchema": "true",  # every footer is read, and must agree, before anything is charged
    "recursiveFileLookup": "false",
    "pathGlobFilter": "*",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",  # EXCEPTION would fail on an old date
    "int96RebaseMode": "CORRECTED",
    "orc.force.positional.evolution": "false",
}
"""Every option of a reader of files."""

_FORMATS = ("parquet", "orc")
_TYPES = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT",
    "double": "DOUBLE", "boolean": "BOOLEAN", "string": "VARCHAR", "date": "DATE", "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class SparkRelation:
    """A relation with its files and all that reads them. `account` and `unit` are the marks that a table carries."""

    session: Any
    name: tuple[str, str]
    kind: str
    files: DataFiles
    schema: Any
    partitions: Sequence[str] = ()
    is_table: bool = False
    account: str | None = None
    unit: str | None = None

    @classmethod
    def of(cls, session: Any, parts: Sequence[str]) -> SparkRelation:
        if _is_path(parts):
            return cls._of_path(session, parts[0].lower(), parts[1])
        if len(parts) > 2:
            raise refuse_relation(
                f"table ({'.'.join(parts)}) has too many parts",
                "write alias.schema.table; another catalog is made the session's current one before it is attached",
            )
        return cls._of_table(session, parts)

    @classmethod
    def _of_path(cls, session: Any, kind: str, text: str) -> SparkRelation:
        files = DataFiles.under(session, text)
        name = f"file:{files.path}" if files.is_local and not text.startswith("/") else files.path
        schema = _footers(session, kind, files)
        relation = cls(session=session, name=(kind, name), kind=kind, files=files, schema=schema)
        folders = next((folders for folders in files.folders if folders), None)
        if folders is not None:
            rule = "are in folders, whose names are values of private rows and have no types"
            cure = "declare it as a table in Spark, each column with its type, and release that"
            raise refuse_relation(f"files ({text!r}) {rule}", f"{cure}: {relation._declaration(folders)}")
        return relation

    @classmethod
    def _of_table(cls, session: Any, parts: Sequence[str]) -> SparkRelation:
        shown, name = ".".join(parts), _table(parts).sql("spark")
        try:
            info = json.loads(session.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").collect()[0][0])
        except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
            what = f"table ({shown}) does not exist in the source"
            raise refuse_relation(what, "name it as alias.schema.table") from None
        kind, type_text = str(info.get("provider", "")).lower(), info.get("type", "")
        if type_text not in {"MANAGED", "EXTERNAL"} or kind not in _FORMATS or not info.get("location"):
            what = f"is of type {type_text}" + (f" in {kind}" if kind else "")
            cure = 'release a table in Parquet or ORC files, or such files by alias.parquet."/path"'
            raise refuse_relation(f"table ({shown}) {what}, whose rows may be computed or change", cure)
        writers = {"path", "serialization.format", "compression", "parquet.compression", "orc.compress"}
        for option in sorted(info.get("storage_properties", {})):
            if option.lower() not in writers:
                rule = "which may decide how or which files are read"
                cure = "make the table without it, over the same LOCATION"
                raise refuse_relation(f"table ({shown}) has the option {option!r}, {rule}", cure)
        frame, carried = session.table(name), info.get("table_properties", {})
        relation = cls(
            session=session,
            name=(fold(info["namespace"][-1]), fold(info["table_name"])),
            kind=kind,
            files=DataFiles.of_table(session, str(info["location"]), frame.inputFiles()),
            schema=frame.schema,
            partitions=[fold(column) for column in info.get("partition_columns", [])],
            is_table=True,
            account=carried.get(MARKS["account"]),
            unit=carried.get(MARKS["unit"]),
        )
        relation._check_folders(shown)
        if relation.files.listed:
            relation._check_footers(shown)
        return relation

    def facts(self, source: str) -> Facts:
        """What the boundary reads of it; `source` is the identity of the application."""
        columns = tuple(
            Column(field.name, kind, field.nullable, id=f"name:{fold(field.name)}")
            for field in self.schema
            if (kind := self._type(field)) is not None
        )
        names = (((source, *self.name),),) if self.is_table else ()
        schema, table = self.name
        return Facts(
            schema=schema,
            table=table,
            columns=columns,
            rows=exp.table_(self._view(source), quoted=True),
            keys=(*self.files.keys(), *names),
            declared={column.name: column for column in columns},
            definition=(self.kind, self.files.path, self.schema.json(), tuple(self.partitions)),
            mark=self.account,
            base=self.name if self.is_table else (),
            id=self.unit or "",
        )

    def show(self, source: str) -> None:
        """Let the view's name stand for these files, in the session that they were listed in."""
        self._rows().createOrReplaceTempView(self._view(source))

    def _view(self, source: str) -> str:
        """The name of the temporary view: the same in every session."""
        return "__mwem_" + hashlib.sha256("\n".join([source, *self.name]).encode()).hexdigest()[:16]

    def _type(self, field: Any) -> str | None:
        """DuckDB's type; None for a column that is not seen. The name of a folder has no time zone."""
        kind = _type(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING") or field.dataType.simpleString())
        return None if kind == "TIMESTAMP WITH TIME ZONE" and fold(field.name) in self.partitions else kind

    def _rows(self) -> Any:
        """The rows of the files, partition columns as texts that are cast."""
        if not self.files.listed:
            return self.session.createDataFrame([], self.schema)
        physical = type(self.schema)()
        for field in self.schema:
            text = "string" if fold(field.name) in self.partitions else field.dataType
            physical = physical.add(field.name, text, True, None if text == "string" else field.metadata)
        reader = _reader(self.session, self.kind).schema(physical)
        if self.partitions:
            reader = reader.option("basePath", self.files.path)
        rows = reader.load([escaped(path) for path in self.files.paths])
        return rows.selectExpr(*(self._item(field).sql("spark") for field in self.schema)) if self.partitions else rows

    def _item(self, field: Any) -> exp.Expr:
        column = exp.column(field.name, quoted=True)
        if fold(field.name) not in self.partitions or field.dataType.typeName() == "string":
            return column
        to = _data_type(field.dataType.simpleString())
        return exp.alias_(exp.TryCast(this=column, to=to), field.name, quoted=True)

    def _check_folders(self, shown: str) -> None:
        """Every file is in the folders that its partition columns name, by names alone: values are private."""
        for folders in self.files.folders:
            names = [fold(unquote(folder.partition("=")[0])) for folder in folders if "=" in folder]
            if len(folders) != len(names) or names != self.partitions:
                raise refuse_relation(
                    f"table ({shown}) has a partition that is not in the folder of its name below the table's",
                    "move the partition there: ALTER TABLE ... PARTITION (...) SET LOCATION, or write the table again",
                )

    def _check_footers(self, shown: str) -> None:
        """The files have the types that the catalog declares: a scan would fail on another, or read it by position."""
        types = {fold(field.name): field.dataType for field in _footers(self.session, self.kind, self.files)}
        for field in self.schema:
            other = types.get(fold(field.name))
            if other is None or fold(field.name) in self.partitions or self._type(field) is None:
                continue
            is_text = field.dataType.typeName() == other.typeName() == "string"  # a collation changes no byte
            if other != field.dataType and not is_text:
                declared = f"declares {field.name} as {field.dataType.simpleString()}"
                raise refuse_relation(
                    f"table ({shown}) {declared}, and its files have {other.simpleString()}",
                    "declare the type that the files have, or write the table again",
                )

    def _declaration(self, folders: Sequence[str]) -> str:
        """The DDL that makes a folder with partitions a table, from names of columns and footers: no value is in it."""
        keys = [unquote(folder.partition("=")[0]) for folder in folders]
        kinds = {field.name: field.dataType.simpleString() for field in self.schema if self._type(field) is not None}
        columns = [(name, kind) for name, kind in kinds.items() if fold(name) not in map(fold, keys)]
        definitions = [
            exp.ColumnDef(this=exp.to_identifier(name, quoted=True), kind=_data_type(kind))
            for name, kind in [*columns, *((key, "string") for key in keys)]
        ]
        table = exp.table_(re.sub(r"\W", "_", PurePosixPath(self.files.path).name), quoted=True)
        partitions = exp.Schema(expressions=[exp.to_identifier(key, quoted=True) for key in keys])
        properties: list[exp.Expr] = [
            exp.FileFormatProperty(this=exp.var(self.kind)),
            exp.PartitionedByProperty(this=partitions),
            exp.LocationProperty(this=exp.Literal.string(self.files.path)),
        ]
        ddl = exp.Create(
            this=exp.Schema(this=table.copy(), expressions=definitions),
            kind="TABLE",
            properties=exp.Properties(expressions=properties),
        )
        return f"{ddl.sql('spark')}; MSCK REPAIR TABLE {table.sql('spark')}"


def mark(session: Any, parts: Sequence[str], mark: Mark, value: str) -> None:
    """Let a table carry a mark. Files by their path have nothing that could: the files are the identity."""
    if _is_path(parts):
        return
    carried = exp.Property(this=exp.Literal.string(MARKS[mark]), value=exp.Literal.string(value))
    action = exp.AlterSet(expressions=[exp.Properties(expressions=[carried])])
    statement = exp.Alter(this=_table(parts), kind="TABLE", actions=[action]).sql("spark")
    try:
        session.sql(statement).collect()
    except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
        rule = f"cannot be marked with its {mark}, and without it a rename would change the {mark}"
        cure = f"the role needs ALTER on the table; or its owner runs {statement}"
        raise refuse_relation(f"table ({'.'.join(parts)}) {rule}", cure) from None


def source_identity(session: Any) -> str:
    """The identity of an application: its warehouse, and its catalog if that is not Spark's default."""
    catalog = str(session.catalog.currentCatalog())
    warehouse = identity(str(session.conf.get("spark.sql.warehouse.dir")))
    return f"spark:{warehouse}" + ("" if catalog == "spark_catalog" else f"/{catalog}")


def _is_path(parts: Sequence[str]) -> bool:
    return len(parts) == 2 and parts[0].lower() in _FORMATS and ("/" in parts[1] or "\\" in parts[1])


def _table(parts: Sequence[str]) -> exp.Table:
    return exp.table_(parts[-1], db=parts[0] if len(parts) > 1 else None, quoted=True)


def _reader(session: Any, kind: str) -> Any:
    """A reader with every option set. The last one keeps Spark from reading a cached frame instead of the files."""
    return session.read.format(kind).options(**READ_OPTIONS).option("mwem", uuid.uuid4().hex)


def _footers(session: Any, kind: str, files: DataFiles) -> Any:
    """The schema of all files together; refused where they do not agree, or have columns without names."""
    try:
        schema = _reader(session, kind).load([escaped(path) for path in files.paths]).schema
    except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's
        what = f"files ({files.path!r}) are not all {kind}, or not of one schema"
        raise refuse_relation(what, "write them again with the same columns and types") from None
    # Hive names columns of ORC files that have none _col0, _col1, ...: Spark reads those by their position.
    if kind == "orc" and any(field.name.startswith("_col") for field in schema):
        what = f"files ({files.path!r}) have ORC columns without names, which are known by their place only"
        raise refuse_relation(what, "write them again with names: INSERT INTO a table USING parquet")
    return schema


def _data_type(text: str) -> exp.DataType:
    return exp.DataType.build(text, dialect="spark", udt=True)


def _type(text: str) -> str | None:
    """DuckDB's type for one of Spark's; None where there is none with the same values. CHAR(n) is padded: left out."""
    if decimal := re.fullmatch(r"decimal\((\d+),(\d+)\)", text):
        return f"DECIMAL({decimal[1]},{decimal[2]})"
    return "VARCHAR" if re.fullmatch(r"varchar\(\d+\)|string collate \w+", text) else _TYPES.get(text)
