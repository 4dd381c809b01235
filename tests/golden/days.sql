More runs of classes than comparisons are worth: a listed range is counted from its low end.

-- ddl
CREATE TABLE t (d DATE CHECK (d BETWEEN '2020-01-01' AND '2020-03-31'));
INSERT INTO t VALUES ('2020-01-01'), ('2020-02-29'), ('2020-02-29'), (NULL), ('2020-03-31');

-- workload
SELECT 'dayofyear(d) % 2 = 0' AS predicate UNION ALL SELECT 'd = ''2020-02-29''' UNION ALL SELECT 'd IS NULL OR month(d) = 3'

-- plan
one GROUP BY of all touched columns, 1 column (d), rolled up to 1 attribute set

-- scan
SELECT
  CAST(LIST_EXTRACT(
    CAST('[0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,2,3,4,3,4,3,4,3,4,3,4,3,4,3,4,3,4,3,4,3,4,3,4,3,4,3,4,3,4,3,4,3]' AS UTINYINT[]),
    CAST(CAST(CASE
      WHEN "d" BETWEEN CAST('2020-01-01' AS DATE) AND CAST('2020-03-31' AS DATE)
      THEN "d"
      WHEN "d" < CAST('2020-01-01' AS DATE)
      THEN CAST('2020-01-01' AS DATE)
      WHEN "d" > CAST('2020-03-31' AS DATE)
      THEN CAST('2020-03-31' AS DATE)
    END - CAST('1970-01-01' AS DATE) AS BIGINT) - 18262 AS BIGINT) + 1
  ) AS UTINYINT) AS c0,
  COUNT(*) AS __count
FROM "memory"."main"."t"
GROUP BY ALL

-- answers
[2]
[2]
[2]
