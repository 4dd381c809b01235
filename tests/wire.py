"""Quack's messages as bytes, so that a test can send what no client of DuckDB's would.

A message is a header and a body, objects of DuckDB's binary format: fields by number, then 0xffff. Written after what a
real client sends; `tests/server/test_wire.py` compares both.
"""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass

END = b"\xff\xff"
CONNECT, PREPARE, FETCH, APPEND, DISCONNECT = 1, 3, 7, 9, 11
_CONNECTION = re.compile(rb"\x02\x00\x20([0-9A-F]{32})")
_RESULT = re.compile(rb"\x05\x00([\x80-\xff]*[\x00-\x7f][\x80-\xff]*[\x00-\x7f])\xff\xff$")


def number(value: int) -> bytes:
    """An unsigned number, seven bits at a time."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return number(len(data)) + data


def field(place: int, value: bytes) -> bytes:
    return place.to_bytes(2, "little") + value


def message(kind: int, body: bytes = b"", connection: str | bytes | None = None, query: int = 2**64 - 1) -> bytes:
    head = field(1, number(kind))
    if connection is not None:
        head += field(2, text(connection))
    return head + field(3, number(query)) + END + body + END


def connect(token: str, version: int = 1) -> bytes:
    body = field(1, text(token)) + field(2, text("v1.5.5")) + field(3, text("linux_amd64"))
    return message(CONNECT, body + field(4, number(version)) + field(5, number(version)), query=5)


def prepare(connection: str | bytes, sql: str, query: int = 6) -> bytes:
    return message(PREPARE, field(1, text(sql)), connection, query)


def fetch(connection: str | bytes, result: bytes, query: int = 6) -> bytes:
    return message(FETCH, field(1, result), connection, query)


def append(connection: str | bytes, schema: str, table: str, value: int = 7, rows: int = 1) -> bytes:
    """Rows of one BIGINT."""
    vector = field(100, number(0)) + field(102, text(value.to_bytes(8, "little") * rows)) + END
    types = field(100, number(14)) + END
    chunk = field(100, number(rows)) + field(101, number(1) + types) + field(102, number(1) + vector) + END
    place = (field(1, text(schema)) if schema else b"") + field(2, text(table))
    return message(APPEND, place + field(3, number(1) + field(300, chunk)[0:2] + chunk + END), connection, 7)


def disconnect(connection: str | bytes) -> bytes:
    return message(DISCONNECT, b"", connection)


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    body: bytes

    @property
    def kind(self) -> int | None:
        """The number of the message; None if it is none."""
        return self.body[2] if self.status == 200 and self.body[:2] == b"\x01\x00" else None

    @property
    def connection(self) -> str:
        match = _CONNECTION.search(self.body)
        assert match is not None, self
        return match[1].decode()

    @property
    def result(self) -> bytes:
        """The id of a result, as a fetch wants it."""
        match = _RESULT.search(self.body)
        assert match is not None, self
        return match[1]


def send(port: int, body: bytes, *, path: str = "/quack", method: str = "POST", seconds: float = 60) -> Answer:
    con = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        con.request(method, path, body, {"Content-Type": "application/octet-stream"})
        answer = con.getresponse()
        return Answer(status=answer.status, body=answer.read())
    finally:
        con.close()
