-- The release of both tables: one summary row. It writes person_synthetic and visit_synthetic, whose keys join.
SELECT * FROM mwem_release(
    ['{{ ref("person") }}', '{{ ref("visit") }}'], {{ ref("visit_workload") }}, 1.0,
    rows_per_unit := 3, version := '{{ var("version", "1") }}'
)
