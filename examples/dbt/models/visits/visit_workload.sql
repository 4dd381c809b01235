-- depends_on: {{ ref('mwem_keys') }}
SELECT * FROM mwem_marginals(['{{ ref("person") }}', '{{ ref("visit") }}'], 2)
