"""Hints beside errors of DuckDB's own: an option of ours that is misspelt never reaches us, because DuckDB refuses the call before.

Owns what is read out of DuckDB's words. Says nothing where it does not know them.
"""

from __future__ import annotations

import re

from mwem_sql.errors import did_you_mean

# The signature is one line. DuckDB 1.4 and 1.5 quote the statement below it, where the misspelt option stands like one of the signature.
_ARGUMENTS = re.compile(
    r"Macro (mwem_\w+)\(\) does not support the supplied arguments[^\n]*\n[^\n]*\n\s*\1\(([^\n]*)\)"
)
_GIVEN = re.compile(r'\b(\w+)"?\s*(?::=|=>)')
_EQUALS = re.compile(r'Referenced column "(\w+)" (?:not found|was not found)')
_PARAMETER = re.compile(r"(?:^|, )(\w+)( := )?")


def with_hint(message: str, statement: str) -> str:
    """The message, and below it which option was meant, if that can be told."""
    refused = _ARGUMENTS.search(message)
    if refused is not None:
        parameters = _PARAMETER.findall(refused[2])
        options = [name for name, default in parameters if default]
        names = {name.lower() for name, _ in parameters}  # whichever has no default may be given by name, too
        for name in _GIVEN.findall(statement[max(0, statement.lower().find(refused[1])) :]):
            if name.lower() not in names:
                return f"{message.splitlines()[0]}\nHint: {refused[1]} has no option {name}; {did_you_mean(name, options, shown=str)}it has {', '.join(options) or 'none'}"
    written = _EQUALS.search(message)
    if written is not None and re.search(rf"\bmwem_\w+\(.*\b{written[1]}\s*=(?!=)", statement, re.DOTALL):
        return f"{message}\nHint: an option takes := and not =, {written[1]} := ..."
    if written is not None and re.search(rf"\bmwem_\w+\(\s*{written[1]}\s*[,)]", statement):
        return f"{message}\nHint: the first table is named as text, '{written[1]}'; a workload as it stands"
    return message
