"""The private table of the examples, and the workload: made up, so that everybody can run them."""

PEOPLE = """
    CREATE TABLE people (
        age  INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99),
        sex  ENUM ('F', 'M') NOT NULL,
        city VARCHAR CHECK (city IN ('Bern', 'Basel', 'Genf'))
    )
"""
ROWS = """
    INSERT INTO people
    SELECT i * 7 % 100, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, ['Bern', 'Basel', 'Genf', NULL][1 + i % 4]
    FROM range(10000) AS t(i)
"""
WORKLOAD = {"predicate": ["age >= 65", "age BETWEEN 18 AND 64", None], "group_by": [None, "sex", "sex, city"]}
