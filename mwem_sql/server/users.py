"""The users of a server: their tokens, hashed, in a file that the curator keeps.

A token is the user's name, a dot, and 256 random bits. The file has a salted scrypt hash of each, so that who reads it
cannot log in. Must not know what a user may do.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mwem_sql.errors import OptionError, did_you_mean, refuse

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COST = 2**14
"""Of scrypt: memory and time of one hash, 16 MB and about 50 ms. Larger: slower to guess, and slower to log in."""
_SHARE = {"n": COST, "r": 8, "p": 1}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_HASH = re.compile(r"scrypt\$([0-9a-f]{32})\$([0-9a-f]{64})")
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class User:
    """A user as the file has them. `token` is `scrypt$salt$hash`."""

    name: str
    token: str

    def has(self, token: str) -> bool:
        match = _HASH.fullmatch(self.token)
        assert match is not None
        return hmac.compare_digest(_hashed(token, bytes.fromhex(match[1])), match[2])


class Users:
    """A users file, as it was last read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._users: Mapping[str, User] = {}

    @classmethod
    def of(cls, path: str | Path) -> Users:
        users = cls(path)
        users.reload()
        return users

    def reload(self) -> None:
        """Read the file again; where it cannot be read, what was read before stays."""
        self._users = _read(self.path)

    @property
    def names(self) -> list[str]:
        return sorted(self._users)

    def named(self, name: str) -> User | None:
        return self._users.get(name)

    def with_token(self, token: str) -> User | None:
        """Whose token this is. One hash is made whoever it is, or is not: time does not tell which names there are."""
        user = self._users.get(token.partition(".")[0])
        with _ONE_AT_A_TIME:  # guesses take turns: memory is bounded, and so is how many there are in a second
            is_theirs = (user or _nobody()).has(token)
        return user if is_theirs else None

    def add(self, name: str) -> str:
        """A new user, or a new token for one; the token, which is nowhere else."""
        if not _NAME.fullmatch(name):
            what = f"user ({name!r}) must be a lower-case letter, then letters, digits and _, 63 at most"
            raise refuse(OptionError, "mwem-sql user", what, "mwem-sql user add anna")
        token = f"{name}.{secrets.token_urlsafe(32)}"
        self._write({**self._present(), name: _made(name, token)})
        return token

    def remove(self, name: str) -> None:
        users = dict(self._present())
        if users.pop(name, None) is None:
            what = f"user ({name!r}) is not in {self.path}"
            raise refuse(OptionError, "mwem-sql user", what, f"{did_you_mean(name, users)}mwem-sql user list shows all")
        self._write(users)

    def _present(self) -> Mapping[str, User]:
        return _read(self.path) if self.path.exists() else {}

    def _write(self, users: Mapping[str, User]) -> None:
        """As a whole or not at all, readable by the owner only."""
        lines = ["# Users of mwem-sql serve: names, and hashes of their tokens. mwem-sql user add, remove, list.\n"]
        lines += [f'\n[{user.name}]\ntoken = "{user.token}"\n' for _, user in sorted(users.items())]
        handle, draft = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(lines)
        Path(draft).chmod(stat.S_IRUSR | stat.S_IWUSR)
        Path(draft).replace(self.path)
        self._users = dict(users)


def _hashed(token: str, salt: bytes) -> str:
    return hashlib.scrypt(token.encode(), salt=salt, maxmem=2**26, **_SHARE, dklen=32).hex()


def _made(name: str, token: str) -> User:
    salt = secrets.token_bytes(16)
    return User(name=name, token=f"scrypt${salt.hex()}${_hashed(token, salt)}")


@cache
def _nobody() -> User:
    return _made("", secrets.token_urlsafe(32))


def _read(path: Path) -> Mapping[str, User]:
    cure = f"mwem-sql user add anna --users {path} makes it, with a first user"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        what = f"users file ({str(path)!r}) cannot be read: {error.strerror}"
        raise refuse(OptionError, "mwem-sql serve", what, cure) from None
    try:
        users = {name: User(name=name, token=entry["token"]) for name, entry in tomllib.loads(text).items()}
        is_right = all(_NAME.fullmatch(name) and _HASH.fullmatch(user.token) for name, user in users.items())
    except (ValueError, LookupError, TypeError, AttributeError):
        is_right = False
    if not is_right:
        what = f"users file ({str(path)!r}) must have [name] and token = 'scrypt$...' for each user, and nothing else"
        raise refuse(OptionError, "mwem-sql serve", what, cure)
    return users
