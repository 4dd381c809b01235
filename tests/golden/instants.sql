Timestamps with a time zone: listed ones are printed in UTC, whatever the connection's zone; bounded ones are compared.

-- ddl
SET TimeZone = 'Asia/Tokyo';
CREATE TABLE t (shift TIMESTAMPTZ CHECK (shift IN ('2020-01-01 09:00:00', '2020-01-01 12:00:00+00')),
                seen TIMESTAMPTZ CHECK (seen BETWEEN '2020-01-01 00:00:00+00' AND '2021-01-01 00:00:00+00'));
INSERT INTO t VALUES ('2020-01-01 00:00:00+00', '2020-06-01 00:00:00+00'), ('2020-01-01 21:00:00', '2020-01-01 00:00:00+00'), (NULL, NULL);

-- workload
SELECT NULL AS predicate, ['shift'] AS group_by UNION ALL SELECT 'seen >= ''2020-06-01 00:00:00+00''', NULL

-- scan
SELECT
  COALESCE(
    CAST(ENUM_CODE(
      TRY_CAST(CAST(MAKE_TIMESTAMP(EPOCH_US(v0)) AS TEXT) || '+00' AS ENUM('2020-01-01 00:00:00+00', '2020-01-01 12:00:00+00'))
    ) AS BIGINT),
    2
  ) AS c0,
  v1 AS c1,
  CAST(SUM(__count) AS BIGINT) AS __count
FROM (
  SELECT
    "shift" AS v0,
    CASE
      WHEN "seen" IS NULL
      THEN 2
      ELSE CASE WHEN "seen" >= CAST('2020-06-01 00:00:00+00' AS TIMESTAMPTZ) THEN 1 ELSE 0 END
    END AS v1,
    COUNT(*) AS __count
  FROM "memory"."main"."t"
  GROUP BY ALL
) AS __groups
GROUP BY ALL

-- answers
[1, 1, 1]
[1]
