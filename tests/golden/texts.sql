A list of texts: unknown values, and values that a collation takes for known ones, go to the NULL class.

-- ddl
CREATE TABLE t ("my zip" VARCHAR COLLATE NOCASE, state VARCHAR NOT NULL CHECK (state IN ('NY', 'it''s', '')));
INSERT INTO t VALUES ('94110', 'NY'), ('94111', ''), ('10001', 'it''s'), ('x', 'NY'), (NULL, 'NY'), ('X', '');
CREATE TABLE t_domain AS SELECT 'my zip' AS attribute, ['94110', '94111', '10001', 'x'] AS "values";

-- workload
SELECT '"my zip" LIKE ''94%''' AS predicate, NULL::VARCHAR[] AS group_by UNION ALL SELECT NULL, ['state'] UNION ALL SELECT '"my zip" IS NULL', ['state']

-- plan
one GROUP BY of all touched columns, 2 columns (my zip, state), rolled up to 3 attribute sets

-- scan
SELECT
  CAST(CASE
    WHEN __groups.c0 IS NULL
    THEN NULL
    ELSE COALESCE(
      LIST_EXTRACT(
        CAST('[0,0,1,1]' AS UTINYINT[]),
        CAST(ENUM_CODE(TRY_CAST(__groups.c0 AS ENUM('94110', '94111', '10001', 'x'))) AS BIGINT) + 1
      ),
      2
    )
  END AS UTINYINT) AS c0,
  ENUM_CODE(TRY_CAST(__groups.c1 AS ENUM('NY', 'it''s', ''))) AS c1,
  CAST(SUM(__groups.__count) AS BIGINT) AS __count
FROM (
  SELECT
    CAST("my zip" AS TEXT) COLLATE "C" AS c0,
    CAST("state" AS TEXT) COLLATE "C" AS c1,
    COUNT(*) AS __count
  FROM "memory"."main"."t"
  GROUP BY ALL
) AS __groups
GROUP BY ALL

-- answers
[2]
[3, 1, 2]
[1, 0, 0]
