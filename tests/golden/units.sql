At most two rows of each person, chosen by their own content; rows of nobody are left out.

-- ddl
CREATE TABLE t (person INTEGER, visit BOOLEAN NOT NULL, price DECIMAL(4,1) CHECK (price BETWEEN 0 AND 99.9));
INSERT INTO t VALUES (1, true, 5), (1, true, 5), (1, true, 5), (2, false, 99.9), (NULL, true, 1), (3, true, 0), (3, false, 50);

-- workload
SELECT unnest(['visit', 'price < 50', 'NOT visit AND price >= 50']) AS predicate

-- unit
person 2

-- scan
SELECT
  COALESCE(CAST(ENUM_CODE(TRY_CAST(CAST(v0 AS TEXT) AS ENUM('false', 'true'))) AS BIGINT), 0) AS c0,
  v1 AS c1,
  CAST(SUM(__count) AS BIGINT) AS __count
FROM (
  SELECT
    "visit" AS v0,
    CASE
      WHEN "price" IS NULL
      THEN 2
      ELSE CASE WHEN "price" >= CAST('50.0' AS DECIMAL(4, 1)) THEN 1 ELSE 0 END
    END AS v1,
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
) AS __groups
GROUP BY ALL

-- answers
[3]
[3]
[2]
