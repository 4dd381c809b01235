-- depends_on: {{ ref('visits_release') }}
SELECT old, count(*) AS visits FROM visit_synthetic JOIN person_synthetic USING (pid) GROUP BY ALL
