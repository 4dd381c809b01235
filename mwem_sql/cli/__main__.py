"""`python -m mwem_sql.cli` is `mwem-sql`."""

from mwem_sql.cli import main

raise SystemExit(main())
