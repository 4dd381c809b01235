Wide attributes that no query joins: a GROUP BY for each set, because one of all four would have 10^8 cells.

-- ddl
CREATE TABLE t (a SMALLINT NOT NULL, b USMALLINT NOT NULL, c INTEGER, d DATE);
CREATE TABLE t_domain AS SELECT 'a' AS attribute, '1' AS low, '100' AS high UNION ALL SELECT 'b', '0', '99' UNION ALL SELECT 'c', '0', '99' UNION ALL SELECT 'd', '2020-01-01', '2020-04-09';
INSERT INTO t VALUES (1, 0, 5, '2020-01-06'), (400, 399, NULL, NULL), (70, 30, -5, '2000-01-01'), (50, 50, 99, '2020-04-09');

-- workload
SELECT unnest(['a + b > 100', 'a + b = 100', 'c + 1 = dayofyear(d)', 'c < dayofyear(d)', 'true']) AS predicate

-- plan
a GROUP BY of 2 columns (a, b), rolled up to 1 attribute set

-- scan
SELECT
  CAST(CASE
    WHEN "a" IS NULL
    THEN NULL
    ELSE TRY_CAST(GREATEST(LEAST("a", CAST('100' AS SMALLINT)), CAST('1' AS SMALLINT)) AS BIGINT) - 1
  END AS UTINYINT) AS c0,
  CAST(CASE
    WHEN "b" IS NULL
    THEN NULL
    ELSE TRY_CAST(GREATEST(LEAST("b", CAST('99' AS USMALLINT)), CAST('0' AS USMALLINT)) AS BIGINT) - 0
  END AS UTINYINT) AS c1,
  COUNT(*) AS __count
FROM "memory"."main"."t"
GROUP BY ALL

-- plan
a GROUP BY of 2 columns (c, d), rolled up to 1 attribute set

-- scan
SELECT
  CAST(CASE
    WHEN "c" IS NULL
    THEN NULL
    ELSE TRY_CAST(GREATEST(LEAST("c", CAST('99' AS INT)), CAST('0' AS INT)) AS BIGINT) - 0
  END AS UTINYINT) AS c0,
  CAST(CASE
    WHEN "d" IS NULL
    THEN NULL
    ELSE CAST(GREATEST(LEAST("d", CAST('2020-04-09' AS DATE)), CAST('2020-01-01' AS DATE)) - CAST('1970-01-01' AS DATE) AS BIGINT) - 18262
  END AS UTINYINT) AS c1,
  COUNT(*) AS __count
FROM "memory"."main"."t"
GROUP BY ALL

-- answers
[1]
[2]
[3]
[3]
[4]
