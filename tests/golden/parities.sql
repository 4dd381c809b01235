Parities of two attributes need one scan over both; the signs are applied outside.

-- ddl
CREATE TABLE t (a BOOLEAN NOT NULL, b INTEGER NOT NULL CHECK (b BETWEEN 0 AND 1));
INSERT INTO t VALUES (true, 0), (true, 1), (true, 1), (false, 0), (false, 1);

-- workload
SELECT unnest(['CASE WHEN a THEN 1 ELSE -1 END', 'CASE WHEN a THEN 1 ELSE -1 END * CASE WHEN b = 0 THEN 1 ELSE -1 END']) AS measure

-- plan
one GROUP BY of all touched columns, 2 columns (a, b), rolled up to 2 attribute sets

-- scan
SELECT
  CAST("a" AS UTINYINT) AS c0,
  CAST(CASE
    WHEN "b" IS NULL
    THEN NULL
    ELSE CASE WHEN "b" >= CAST('1' AS INT) THEN 1 ELSE 0 END
  END AS UTINYINT) AS c1,
  COUNT(*) AS __count
FROM "memory"."main"."t"
GROUP BY ALL

-- answers
[1]
[-1]
