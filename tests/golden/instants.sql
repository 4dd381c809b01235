Timestamps with a time zone: listed ones are printed in UTC, whatever the connection's zone; bounded ones are compared.

-- ddl
SET TimeZone = 'Asia/Tokyo';
CREATE TABLE t (shift TIMESTAMPTZ CHECK (shift IN ('2020-01-01 09:00:00', '2020-01-01 12:00:00+00')),
                seen TIMESTAMPTZ CHECK (seen BETWEEN '2020-01-01 00:00:00+00' AND '2021-01-01 00:00:00+00'));
INSERT INTO t VALUES ('2020-01-01 00:00:00+00', '2020-06-01 00:00:00+00'), ('2020-01-01 21:00:00', '2020-01-01 00:00:00+00'), (NULL, NULL);

-- workload
SELECT NULL AS predicate, ['shift'] AS group_by UNION ALL SELECT 'seen >= ''2020-06-01 00:00:00+00''', NULL

-- plan
one GROUP BY of all touched columns, 2 columns (shift, seen), rolled up to 2 attribute sets

-- scan
SELECT
  ENUM_CODE(
    TRY_CAST(CAST(MAKE_TIMESTAMP(EPOCH_US(__groups.c0)) AS TEXT) || '+00' AS ENUM('2020-01-01 00:00:00+00', '2020-01-01 12:00:00+00'))
  ) AS c0,
  __groups.c1 AS c1,
  CAST(SUM(__groups.__count) AS BIGINT) AS __count
FROM (
  SELECT
    "shift" AS c0,
    CAST(CASE
      WHEN "seen" IS NULL
      THEN NULL
      ELSE CASE WHEN "seen" >= CAST('2020-06-01 00:00:00+00' AS TIMESTAMPTZ) THEN 1 ELSE 0 END
    END AS UTINYINT) AS c1,
    COUNT(*) AS __count
  FROM "memory"."main"."t"
  GROUP BY ALL
) AS __groups
GROUP BY ALL

-- answers
[1, 1, 1]
[1]
