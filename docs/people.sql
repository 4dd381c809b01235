-- Purpose: the table of the examples in docs/. Nobody in it exists: every row is arithmetic on its number. Pay depends on age and city,
--   and more people joined in later years.
-- Example: mwem-sql people.duckdb -f docs/people.sql; then SELECT count(*) FROM people  ->  10000
-- Cost: a tenth of a second. No privacy cost: nothing here reads private data.

CREATE TABLE people (
    age    INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99),
    sex    ENUM ('F', 'M') NOT NULL,
    city   VARCHAR NOT NULL CHECK (city IN ('Basel', 'Bern', 'Genf')),
    pay    INTEGER NOT NULL CHECK (pay BETWEEN 0 AND 200000),
    joined DATE NOT NULL CHECK (joined BETWEEN DATE '2024-01-01' AND DATE '2025-12-31')
);

INSERT INTO people
WITH chance AS (
    SELECT [md5_number_lower(word || i) / 18446744073709551616.0 FOR word IN ['age', 'sex', 'city', 'pay', 'joined']] AS c
    FROM range(10000) AS t(i)
),
person AS (
    SELECT c, floor(100 * c[1] ** 1.4)::INTEGER AS age, ['Basel', 'Bern', 'Genf'][1 + floor(3 * c[3] ** 1.5)::INTEGER] AS city FROM chance
)
SELECT
    age,
    CASE WHEN c[2] < 0.51 THEN 'F' ELSE 'M' END,
    city,
    CASE WHEN age < 18 THEN 0 ELSE least(200000, 20000 + 900 * least(age, 60) + floor(60000 * c[4] ** 2) + CASE city WHEN 'Genf' THEN 8000 ELSE 0 END)::INTEGER END,
    DATE '2024-01-01' + floor(731 * c[5] ** 0.6)::INTEGER
FROM person;
