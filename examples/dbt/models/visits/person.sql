-- A person is a row here, and what they did is in visit. The contract in visits.yml gives both their keys.
SELECT i::INTEGER AS pid, i % 3 = 0 AS old FROM range(2000) AS t(i)
