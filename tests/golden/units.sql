At most two rows of each person, chosen by their own content; rows of nobody are left out.

-- ddl
CREATE TABLE t (person INTEGER, visit BOOLEAN NOT NULL, price DECIMAL(4,1) CHECK (price BETWEEN 0 AND 99.9));
INSERT INTO t VALUES (1, true, 5), (1, true, 5), (1, true, 5), (2, false, 99.9), (NULL, true, 1), (3, true, 0), (3, false, 50);

-- workload
SELECT unnest(['visit', 'price < 50', 'NOT visit AND price >= 50']) AS predicate

-- unit
person 2

-- plan
one GROUP BY of all touched columns, 2 columns (visit, price), rolled up to 3 attribute sets

-- plan
a GROUP BY of the unit, to tell of how many of them rows are left out

-- scan
SELECT
  CAST("visit" AS UTINYINT) AS c0,
  CAST(CASE
    WHEN "price" IS NULL
    THEN NULL
    ELSE CASE WHEN "price" >= CAST('50.0' AS DECIMAL(4, 1)) THEN 1 ELSE 0 END
  END AS UTINYINT) AS c1,
  COUNT(*) AS __count
FROM (
  SELECT
    *
  FROM "memory"."main"."t"
  WHERE
    NOT "person" IS NULL
  QUALIFY
    ROW_NUMBER() OVER (PARTITION BY "person" ORDER BY HASH("person", "visit", "price"), "visit", "price") <= 2
) AS __bounded
GROUP BY ALL

-- scan
SELECT
  CAST(COALESCE(COUNT_IF(__units.__count <= 2), 0) AS BIGINT) AS c0,
  CAST(COALESCE(COUNT_IF(__units.__count > 2), 0) AS BIGINT) AS c1
FROM (
  SELECT
    COUNT(*) AS __count
  FROM "memory"."main"."t"
  WHERE
    NOT "person" IS NULL
  GROUP BY
    "person"
) AS __units

-- answers
[3]
[3]
[2]
[2, 1]
