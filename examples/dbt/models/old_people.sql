-- Reads the synthetic rows. depends_on: {{ ref('people_release') }}
SELECT city, count(*) AS people FROM people_synthetic WHERE age >= 65 GROUP BY city
