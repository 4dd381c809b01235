-- The release, as a model: one summary row. It writes people_synthetic, whose rows other models read.
-- people_domain is named here for dbt only, so that it is there first: {{ ref('people_domain') }}
-- A run on another day is another version, and charged: without one, every later run returns the first release.
SELECT * FROM mwem_release('{{ ref("people") }}', {{ ref("workload") }}, 0.5, version := '{{ var("version", "1") }}')
