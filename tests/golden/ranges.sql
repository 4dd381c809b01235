Comparisons with constants: the values between them are one class, and those beyond the bounds are clamped.

-- ddl
CREATE TABLE people (age INTEGER, income DOUBLE);
INSERT INTO people VALUES (17, 0), (30, 99.5), (31, 100), (40, 100.5), (41, 1e9), (200, 'nan'), (-5, '-inf'), (NULL, NULL);
CREATE VIEW t AS SELECT * FROM people;
CREATE TABLE t_domain AS SELECT * FROM (VALUES ('age', 17, 90), ('income', 0, 1000)) AS d(attribute, low, high);

-- workload
SELECT unnest(['age BETWEEN 31 AND 40', 'income > 100', 'age IS NULL', 'income <= 100 AND age > 30', 'true']) AS predicate

-- plan
one GROUP BY of all touched columns, 2 columns (age, income), rolled up to 3 attribute sets

-- scan
SELECT
  CAST(CASE
    WHEN "age" IS NULL
    THEN NULL
    ELSE CASE
      WHEN "age" >= CAST('31' AS INT)
      THEN CASE WHEN "age" >= CAST('41' AS INT) THEN 2 ELSE 1 END
      ELSE 0
    END
  END AS UTINYINT) AS c0,
  CAST(CASE
    WHEN "income" IS NULL
    THEN NULL
    ELSE CASE WHEN "income" >= CAST('100.00000000000001' AS DOUBLE) THEN 1 ELSE 0 END
  END AS UTINYINT) AS c1,
  COUNT(*) AS __count
FROM "memory"."main"."t"
GROUP BY ALL

-- answers
[2]
[3]
[1]
[1]
[8]
