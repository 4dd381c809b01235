"""The servers, once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import servers


@pytest.fixture(scope="session")
def postgresql() -> Iterator[int]:
    """The port of a server with the collation "ci", under which case and accents do not matter, and the ENUM kind."""
    if servers.postgresql_folder() is None:
        pytest.skip(servers.MISSING)
    with servers.postgresql() as port:
        with servers.superuser(port) as connection, connection.cursor() as cursor:
            for statement in servers.SETUP:
                cursor.execute(statement)
        yield port


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not servers.has_spark():
        pytest.skip(servers.MISSING)
    folder: Path = tmp_path_factory.mktemp("spark")
    with servers.spark(folder) as session:
        yield session
