"""Users: tokens that only their owner has, in a file that says nothing of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mwem_sql.errors import OptionError
from mwem_sql.server.users import Users


@pytest.fixture
def users(tmp_path: Path) -> Users:
    return Users(tmp_path / "users.toml")


def test_a_token_is_its_users_and_nobody_elses(users: Users) -> None:
    anna, bert = users.add("anna"), users.add("bert")
    known = Users.of(users.path)
    assert known.names == ["anna", "bert"]
    assert [user.name for token in (anna, bert) if (user := known.with_token(token))] == ["anna", "bert"]
    for wrong in (f"anna{bert[4:]}", anna[:-1], anna + "x", "anna", "", "anna.", bert.replace("bert", "carl")):
        assert known.with_token(wrong) is None


def test_the_file_has_no_token_and_is_its_owners(users: Users) -> None:
    token = users.add("anna")
    text = users.path.read_text()
    assert token not in text and token.partition(".")[2] not in text
    assert users.path.stat().st_mode & 0o777 == 0o600


def test_a_new_token_takes_the_place_of_the_old_one(users: Users) -> None:
    first = users.add("anna")
    second = users.add("anna")
    known = Users.of(users.path)
    assert known.with_token(first) is None and known.with_token(second) is not None
    assert known.names == ["anna"]


def test_a_user_is_removed(users: Users) -> None:
    users.add("anna")
    token = users.add("bert")
    users.remove("bert")
    known = Users.of(users.path)
    assert known.names == ["anna"] and known.with_token(token) is None
    with pytest.raises(OptionError, match=r"user \('ana'\) is not in .*did you mean 'anna'\?"):
        users.remove("ana")


def test_who_is_not_there_costs_as_much_as_who_is(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash, so that time does not tell which names there are."""
    token, made = users.add("anna"), list[bytes]()
    users.with_token("nobody.first")  # what stands for nobody is made once
    scrypt = hashlib.scrypt
    monkeypatch.setattr(hashlib, "scrypt", lambda password, **more: made.append(password) or scrypt(password, **more))
    for each in (token, "anna.wrong", "nobody.wrong", ""):
        users.with_token(each)
    assert made == [each.encode() for each in (token, "anna.wrong", "nobody.wrong", "")]


@pytest.mark.parametrize("name", ["", "Anna", "a b", "1a", "a.b", "a" * 64, "ä"])
def test_a_name_that_could_be_mistaken_is_refused(users: Users, name: str) -> None:
    with pytest.raises(OptionError, match="must be a lower-case letter"):
        users.add(name)
    assert not users.path.exists()


@pytest.mark.parametrize(
    "text", ["[anna]\ntoken = 'plain'", "[anna]\n", "anna = 1", "[[", "[Anna]\ntoken = 'x'", "[anna]\ntoken = 3"]
)
def test_a_file_that_is_none_is_refused_and_what_was_read_stays(users: Users, text: str) -> None:
    token = users.add("anna")
    users.path.write_text(text)
    with pytest.raises(OptionError, match=r"users file .* must have \[name\] and token"):
        users.reload()
    assert users.with_token(token) is not None


def test_no_file_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot be read: .*mwem-sql user add anna --users .*none\.toml"):
        Users.of(tmp_path / "none.toml")
