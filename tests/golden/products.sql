Pairs by a streamed product: the codes alone, as narrow as they come.

-- ddl
CREATE TABLE t (a BOOLEAN NOT NULL, b ENUM('x', 'y', 'z'), n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 9), s VARCHAR CHECK (s IN ('p', 'q')));
INSERT INTO t VALUES (true, 'x', 3, 'p'), (true, 'z', 9, 'q'), (false, NULL, 9, NULL), (true, 'x', 5, NULL);

-- workload
SELECT NULL AS predicate, ['a', 'b'] AS group_by UNION ALL SELECT NULL, ['a'] UNION ALL SELECT NULL, ['s', 'a']
UNION ALL SELECT 'a AND n >= 5', NULL UNION ALL SELECT 'b = ''x'' AND s IS NULL', NULL UNION ALL SELECT 'true', NULL

-- force
product

-- plan
a streamed pairwise product of 4 columns (a, b, n, s) for 6 one- and two-way queries

-- scan
SELECT
  CAST("a" AS UTINYINT) AS c0,
  ENUM_CODE("b") AS c1,
  CAST(CASE
    WHEN "n" IS NULL
    THEN NULL
    ELSE CASE WHEN "n" >= CAST('5' AS INT) THEN 1 ELSE 0 END
  END AS UTINYINT) AS c2,
  ENUM_CODE(TRY_CAST(CAST("s" AS TEXT) COLLATE "C" AS ENUM('p', 'q'))) AS c3
FROM "memory"."main"."t"

-- answers
[0, 0, 0, 1, 2, 0, 1, 0]
[1, 3]
[0, 0, 1, 1, 1, 1]
[2]
[1]
[4]
