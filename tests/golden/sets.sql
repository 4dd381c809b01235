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
  CAST(TRY_CAST(CASE
    WHEN "a" BETWEEN CAST('1' AS SMALLINT) AND CAST('100' AS SMALLINT)
    THEN "a"
    WHEN "a" < CAST('1' AS SMALLINT)
    THEN CAST('0' AS SMALLINT)
    WHEN "a" > CAST('100' AS SMALLINT)
    THEN CAST('101' AS SMALLINT)
  END AS BIGINT) AS UTINYINT) AS c0,
  CAST(TRY_CAST(CASE
    WHEN "b" BETWEEN CAST('0' AS USMALLINT) AND CAST('99' AS USMALLINT)
    THEN "b"
    WHEN "b" < CAST('0' AS USMALLINT)
    THEN CAST('0' AS USMALLINT)
    WHEN "b" > CAST('99' AS USMALLINT)
    THEN CAST('100' AS USMALLINT)
  END AS BIGINT) AS UTINYINT) AS c1,
  COUNT(*) AS __count
FROM "memory"."main"."t"
GROUP BY ALL

-- plan
a GROUP BY of 2 columns (c, d), rolled up to 1 attribute set

-- scan
SELECT
  CAST(TRY_CAST(CASE
    WHEN "c" BETWEEN CAST('0' AS INT) AND CAST('99' AS INT)
    THEN "c"
    WHEN "c" < CAST('0' AS INT)
    THEN CAST('-1' AS INT)
    WHEN "c" > CAST('99' AS INT)
    THEN CAST('100' AS INT)
  END AS BIGINT) - -1 AS UTINYINT) AS c0,
  CAST(CAST(CASE
    WHEN "d" BETWEEN CAST('2020-01-01' AS DATE) AND CAST('2020-04-09' AS DATE)
    THEN "d"
    WHEN "d" < CAST('2020-01-01' AS DATE)
    THEN CAST('2019-12-31' AS DATE)
    WHEN "d" > CAST('2020-04-09' AS DATE)
    THEN CAST('2020-04-10' AS DATE)
  END - CAST('1970-01-01' AS DATE) AS BIGINT) - 18261 AS UTINYINT) AS c1,
  COUNT(*) AS __count
FROM "memory"."main"."t"
GROUP BY ALL

-- answers
[1]
[2]
[2]
[3]
[4]
