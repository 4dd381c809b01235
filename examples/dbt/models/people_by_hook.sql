-- A release in a hook, after the model's own transaction: what a call reads must be committed. Inside it, the call would not find the table.
{{ config(post_hook={
    "sql": "CALL mwem_release('people_by_hook', workload, 0.5, domain := 'people_domain')", "transaction": false
}) }}
-- depends_on: {{ ref('workload') }}, {{ ref('people_domain') }}
SELECT * FROM {{ ref('people') }}
