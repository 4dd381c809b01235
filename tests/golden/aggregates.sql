Scalar queries as aggregates of their own: intervals of classes by comparison, others and joint conditions from a list, measures as sums.

-- ddl
CREATE TABLE t (e ENUM('u', 'v', 'w', 'x', 'y'), n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 9), m INTEGER NOT NULL CHECK (m BETWEEN 0 AND 9));
INSERT INTO t VALUES ('u', 0, 9), ('w', 3, 4), ('y', 4, 4), (NULL, 9, 0), ('v', 9, 1);

-- workload
SELECT unnest(['e IN (''u'', ''w'', ''y'')', 'e IN (''v'', ''w'') AND n >= 3', 'n > m', 'e = ''u''', 'e > ''w''', 'false', 'true', NULL]) AS predicate,
       unnest([NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'CASE WHEN n >= 4 THEN 1 ELSE -1 END * CASE WHEN e = ''v'' THEN -1 WHEN e IS NULL THEN 0 ELSE 1 END']) AS measure

-- force
aggregates

-- plan
aggregates of their own for scalar queries, up to 256 in a SELECT

-- scan
SELECT
  CAST(COALESCE(COUNT_IF(FALSE), 0) AS BIGINT) AS c0,
  COUNT(*) AS c1,
  CAST(COALESCE(
    COUNT_IF(
      LIST_EXTRACT(CAST('[1,0,1,0,1,0]' AS UTINYINT[]), CAST(__codes.v0 AS BIGINT) + 1) = 1
    ),
    0
  ) AS BIGINT) AS c2,
  CAST(COALESCE(COUNT_IF(__codes.v0 = 0), 0) AS BIGINT) AS c3,
  CAST(COALESCE(COUNT_IF(__codes.v0 BETWEEN 3 AND 4), 0) AS BIGINT) AS c4,
  CAST(COALESCE(COUNT_IF(__codes.v0 BETWEEN 1 AND 2 AND __codes.v1 >= 3), 0) AS BIGINT) AS c5,
  CAST(GREATEST(
    LEAST(
      COALESCE(
        SUM(
          CASE
            WHEN __codes.v0 <= 4
            THEN LIST_EXTRACT(CAST('[1,-1,1,1,1,0]' AS BIGINT[]), CAST(__codes.v0 AS BIGINT) + 1) * LIST_EXTRACT(CAST('[-1,-1,-1,-1,1,1,1,1,1,1]' AS BIGINT[]), CAST(__codes.v1 AS BIGINT) + 1)
            ELSE 0
          END
        ),
        0
      ),
      9223372036854775807
    ),
    -9223372036854775807
  ) AS BIGINT) AS c6,
  CAST(COALESCE(
    COUNT_IF(
      LIST_EXTRACT(
        CAST('[0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,1,1,0,0,0,0,0,0,0,0,1,1,1,0,0,0,0,0,0,0,1,1,1,1,0,0,0,0,0,0,1,1,1,1,1,0,0,0,0,0,1,1,1,1,1,1,0,0,0,0,1,1,1,1,1,1,1,0,0,0,1,1,1,1,1,1,1,1,0,0,1,1,1,1,1,1,1,1,1,0]' AS UTINYINT[]),
        CAST((
          CAST(__codes.v1 AS BIGINT)
        ) * 10 + __codes.v2 AS BIGINT) + 1
      ) = 1
    ),
    0
  ) AS BIGINT) AS c7
FROM (
  SELECT
    COALESCE(ENUM_CODE("e"), 5) AS v0,
    COALESCE(
      CAST(TRY_CAST(CASE
        WHEN "n" BETWEEN CAST('0' AS INT) AND CAST('9' AS INT)
        THEN "n"
        WHEN "n" < CAST('0' AS INT)
        THEN CAST('0' AS INT)
        WHEN "n" > CAST('9' AS INT)
        THEN CAST('9' AS INT)
      END AS BIGINT) AS UTINYINT),
      0
    ) AS v1,
    COALESCE(
      CAST(TRY_CAST(CASE
        WHEN "m" BETWEEN CAST('0' AS INT) AND CAST('9' AS INT)
        THEN "m"
        WHEN "m" < CAST('0' AS INT)
        THEN CAST('0' AS INT)
        WHEN "m" > CAST('9' AS INT)
        THEN CAST('9' AS INT)
      END AS BIGINT) AS UTINYINT),
      0
    ) AS v2
  FROM "memory"."main"."t"
) AS __codes

-- answers
[3]
[2]
[2]
[1]
[1]
[0]
[5]
[-2]
