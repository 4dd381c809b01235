Two-way marginals of an ENUM and a BOOLEAN: one scan, grouped by the raw values.

-- ddl
CREATE TABLE t (sex ENUM('F', 'M') NOT NULL, member BOOLEAN);
INSERT INTO t VALUES ('F', true), ('F', true), ('F', NULL), ('M', false);

-- workload
SELECT ['sex', 'member'] AS group_by UNION ALL SELECT ['sex']

-- plan
one GROUP BY of all touched columns, 2 columns (sex, member), rolled up to 2 attribute sets

-- scan
SELECT
  ENUM_CODE("sex") AS c0,
  CAST("member" AS UTINYINT) AS c1,
  COUNT(*) AS __count
FROM "memory"."main"."t"
GROUP BY ALL

-- answers
[0, 2, 1, 1, 0, 0]
[3, 1]
