"""A real nginx in front of a real server: `python tests/server/tls.py`, in an environment that has Quack.

The configuration is the one of `examples/nginx.conf`, with other ports and paths.
"""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from walls import Client, World, connected, free_port, served

NGINX = "/usr/sbin/nginx"
_CONFIGURATION = Path(__file__).resolve().parents[2] / "examples" / "nginx.conf"
_AROUND = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{server}
}}
"""


def certificate(folder: Path) -> Path:
    """A certificate of localhost that signs itself."""
    command = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "c.pem",
    ]  # fmt: skip
    subprocess.run([*map(str, command)], check=True, capture_output=True)
    return folder / "c.pem"


@contextmanager
def proxy(world: World, folder: Path) -> Iterator[int]:
    """nginx with the example's configuration; its port."""
    folder.mkdir()
    port, pem = free_port(), certificate(folder)
    server = _CONFIGURATION.read_text()
    for old, new in (
        (r"listen 9443 ssl", f"listen 127.0.0.1:{port} ssl"), (r"127\.0\.0\.1:9494", f"127.0.0.1:{world.port}"),
        (r"/etc/ssl/mwem-sql\.pem", str(pem)), (r"/etc/ssl/private/mwem-sql\.key", str(folder / "key.pem")),
    ):  # fmt: skip
        server, count = re.subn(old, new, server)
        assert count == 1, old
    (folder / "nginx.conf").write_text(_AROUND.format(folder=folder, server=server))
    process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)
    try:
        context = ssl.create_default_context(cafile=str(pem))
        for _ in range(100):
            try:
                urllib.request.urlopen(f"https://localhost:{port}/", context=context, timeout=5)
            except urllib.error.HTTPError as error:
                assert error.code == 404  # noqa: PT017
                break
            except urllib.error.URLError:
                process.poll()
                assert process.returncode is None, (folder / "error.log").read_text()
                subprocess.run(["sleep", "0.1"], check=True)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def attach(con: duckdb.DuckDBPyConnection, port: int, token: str, *, tls: str = "DISABLE_SSL false") -> None:
    options = ", ".join(each for each in ("TYPE quack", f"TOKEN '{token}'", tls) if each)
    con.execute(f"ATTACH 'quack:localhost:{port}' AS curator ({options})")


def check(world: World, folder: Path) -> None:
    """From the domain to a release over TLS; refusals, rows of a client, a large result; and nothing without it."""
    with proxy(world, folder) as port:
        with connected() as con:
            con.execute(f"SET ca_cert_file = '{folder / 'c.pem'}'")
            attach(con, port, world.tokens["anna"])
            anna = Client(con)
            assert anna.run("CALL mwem_domain('census')")[0][:2] == ("age", "INTEGER")
            anna.here("CREATE TABLE curator.w AS SELECT ['sex', 'city'] AS group_by")
            made = anna.one("CALL mwem_release('census', w, 0.5, rounds := 1, rows := 50)")
            assert (made["rows"], made["reused"]) == (50, False)
            assert anna.run("SELECT count(*) FROM census") == [(50,)]
            anna.here("CREATE TABLE curator.long AS SELECT i, repeat('x', 100) AS s FROM range(100000) t(i)")
            rows = anna.run("FROM long")
            assert len(rows) == 100_000 and all(len(text) == 100 for _, text in rows)
            try:
                anna.run("FROM read_text('/etc/passwd')")
                raise AssertionError("not refused")
            except duckdb.Error as error:
                assert "read_text" in str(error) and "Hint:" in str(error), error  # noqa: PT017
        with connected() as con:  # who signed the certificate is asked
            _refused(con, port, world.tokens["anna"], r"(?i)certificat|ssl")
        with connected() as con:  # a host of this machine is spoken to without TLS unless told otherwise
            con.execute(f"SET ca_cert_file = '{folder / 'c.pem'}'")
            _refused(con, port, world.tokens["anna"], "Bad Request", tls="")
            _refused(con, port, world.tokens["anna"] + "x", "Authentication failed")
    with connected() as con:
        _refused(con, port, world.tokens["anna"], "(?i)connect")  # the proxy is gone
    assert world.is_up()
    seen = "".join(path.read_text() for path in folder.glob("*.log"))
    assert not any(token.partition(".")[2] in seen for token in world.tokens.values())


def _refused(con: duckdb.DuckDBPyConnection, port: int, token: str, words: str, **options: str) -> None:
    try:
        attach(con, port, token, **options)
    except duckdb.Error as error:
        assert re.search(words, str(error)), error  # noqa: PT017
        return
    raise AssertionError(f"attached: {words}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "served") as world:
        check(world, Path(folder) / "nginx")
    print("TLS: from the domain to a release through nginx, and refused without the certificate, and without TLS")


if __name__ == "__main__":
    main()
