-- The private table. Stands for whatever your pipeline makes of your sources.
SELECT
    (i * 7 % 100)::INTEGER AS age,
    CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END AS sex,
    ['Bern', 'Basel', 'Genf', NULL][1 + i % 4] AS city
FROM range(10000) AS t(i)
