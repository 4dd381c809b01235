"""Real servers for the tests: PostgreSQL and Spark, started here, on loopback, in folders of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MISSING = "this test starts servers: apt-get install postgresql openjdk-17-jre-headless, and pip install '.[engines]'"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def postgresql_folder() -> Path | None:
    """Where the server's programs are."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")) or [
        Path(name) for name in [shutil.which("pg_ctl")] if name
    ]
    try:
        import adbc_driver_postgresql  # noqa: F401, PLC0415
    except ImportError:
        return None
    return found[-1].parent if found else None


def has_spark() -> bool:
    try:
        import pyspark  # noqa: F401, PLC0415
    except ImportError:
        return False
    return shutil.which("java") is not None


@contextmanager
def postgresql() -> Iterator[int]:
    """A server with the superuser postgres and nothing in it; its port."""
    programs = postgresql_folder()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="mwem-postgresql-"))
    is_root = os.geteuid() == 0
    if is_root:  # the server refuses to run as root
        shutil.chown(folder, "postgres")
    as_owner = ["runuser", "-u", "postgres", "--"] if is_root else []

    def run(*command: str) -> None:
        nowhere = subprocess.DEVNULL
        subprocess.run([*as_owner, *command], check=True, cwd="/", stdout=nowhere, stderr=nowhere, timeout=120)

    port = free_port()
    data = str(folder / "data")
    control = str(programs / "pg_ctl")
    run(str(programs / "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-N")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -c log_statement=all -k {folder}"
    run(control, "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield port
    finally:
        run(control, "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def spark(folder: Path, **settings: str) -> Iterator[Any]:
    """A classic session in this process, with its JVM beside it and three cores."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "3")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).config("spark.driver.memory", "1g")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def spark_connect(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Spark Connect server in a process of its own: its address, and the process."""
    import pyspark  # noqa: PLC0415

    port = free_port()
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.port": str(port), "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.connect.grpc.binding.address": "127.0.0.1",
    }  # fmt: skip
    listed = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [
        str(home / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[3]", "--driver-memory", "1g", *listed, "spark-internal",
    ]  # fmt: skip
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, cwd=folder, stdout=nowhere, stderr=nowhere)
    try:
        _wait_for(port, process)
        yield f"sc://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with socket.socket() as found:
            if found.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, "the server ended"
        time.sleep(0.5)
    raise AssertionError("the server did not come up")


SETUP = (
    "CREATE TYPE kind AS ENUM ('low', 'mid', 'high', 'Mid', 'n/a')",
    "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
    "CREATE ROLE reader LOGIN",
)  # fmt: skip


def superuser(port: int) -> Any:
    from adbc_driver_postgresql import dbapi  # noqa: PLC0415

    return dbapi.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres", autocommit=True)
