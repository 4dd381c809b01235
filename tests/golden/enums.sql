Two-way marginals of an ENUM and a BOOLEAN: one scan, grouped by the raw values.

-- ddl
CREATE TABLE t (sex ENUM('F', 'M') NOT NULL, member BOOLEAN);
INSERT INTO t VALUES ('F', true), ('F', true), ('F', NULL), ('M', false);

-- workload
SELECT ['sex', 'member'] AS group_by UNION ALL SELECT ['sex']

-- scan
SELECT
  COALESCE(CAST(ENUM_CODE(TRY_CAST(CAST(v0 AS TEXT) AS ENUM('F', 'M'))) AS BIGINT), 0) AS c0,
  COALESCE(CAST(ENUM_CODE(TRY_CAST(CAST(v1 AS TEXT) AS ENUM('false', 'true'))) AS BIGINT), 2) AS c1,
  CAST(SUM(__count) AS BIGINT) AS __count
FROM (
  SELECT
    "sex" AS v0,
    "member" AS v1,
    COUNT(*) AS __count
  FROM "memory"."main"."t"
  GROUP BY ALL
) AS __groups
GROUP BY ALL

-- answers
[0, 2, 1, 1, 0, 0]
[3, 1]
