"""Dot commands: `.tables`, `.schema`, `.mode`, `.help`, `.quit`; from the shell, a script or `-c`. Owns their words; what they show goes through the console."""

from __future__ import annotations

from mwem_sql.cli.console import STYLES, Console

HELP = """\
A statement ends with ; and may take several lines. Ctrl-C drops or stops it. Tab completes names and options.

  .tables          tables and views         .mode [NAME]     how rows are shown: box, record, csv, json
  .schema [NAME]   how they were declared   .help            this text
  .quit  Ctrl-D    leave

  CALL mwem_release('t', workload, 0.5);           makes t_synthetic, privately
  FROM mwem_plan('t', workload, 0.5);              what that would run and cost
  SELECT mwem_count('t_synthetic', 'age > 40');    an answer, free of charge
  FROM mwem_ledger();                              what was spent
"""
TABLES = "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY ALL"
SCHEMA = "SELECT sql FROM sqlite_master WHERE $name::VARCHAR IS NULL OR name = $name::VARCHAR ORDER BY name"


def obey(console: Console, line: str) -> bool:
    """Do what a line that starts with a dot says. EOFError: leave."""
    words = line.rstrip("; \n").split()
    if words in ([".quit"], [".exit"]):
        raise EOFError
    if words == [".help"]:
        print(HELP)
    elif words == [".tables"]:
        return console.run(TABLES)
    elif words[0] == ".schema" and len(words) <= 2:
        declared = console.con.execute(SCHEMA, {"name": words[1] if words[1:] else None}).fetchall()
        if words[1:] and not declared:
            return console.fail(f".schema: no table or view has this name ({words[1]}). Hint: .tables lists them")
        print(*(sql for (sql,) in declared), sep="\n")
    elif words[0] == ".mode" and len(words) <= 2:
        if not words[1:]:
            print(console.style)
        elif words[1] in STYLES:
            console.style = words[1]
        else:
            return console.fail(f".mode: rows cannot be shown as this ({words[1]}). Hint: {', '.join(STYLES)}")
    else:
        return console.fail(f"{line.strip()}: this is no command. Hint: .help lists them")
    return True
