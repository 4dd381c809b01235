Parities of two attributes need one scan over both; the signs are applied outside.

-- ddl
CREATE TABLE t (a BOOLEAN NOT NULL, b INTEGER NOT NULL CHECK (b BETWEEN 0 AND 1));
INSERT INTO t VALUES (true, 0), (true, 1), (true, 1), (false, 0), (false, 1);

-- workload
SELECT unnest(['CASE WHEN a THEN 1 ELSE -1 END', 'CASE WHEN a THEN 1 ELSE -1 END * CASE WHEN b = 0 THEN 1 ELSE -1 END']) AS measure

-- scan
SELECT
  COALESCE(CAST(ENUM_CODE(TRY_CAST(CAST(v0 AS TEXT) AS ENUM('false', 'true'))) AS BIGINT), 0) AS c0,
  v1 AS c1,
  CAST(SUM(__count) AS BIGINT) AS __count
FROM (
  SELECT
    "a" AS v0,
    CASE
      WHEN "b" IS NULL
      THEN 2
      ELSE CASE WHEN "b" >= CAST('1' AS INT) THEN 1 ELSE 0 END
    END AS v1,
    COUNT(*) AS __count
  FROM "memory"."main"."t"
  GROUP BY ALL
) AS __groups
GROUP BY ALL

-- answers
[1]
[-1]
