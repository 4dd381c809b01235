-- Run against DuckDB by tests/engines.

-- a workload
SELECT
  __codes.v0 AS c0,
  __codes.v1 AS c1,
  __codes.v2 AS c2,
  __codes.v3 AS c3,
  __codes.v4 AS c4,
  __codes.v5 AS c5,
  __codes.v6 AS c6,
  CAST(SUM(__codes.n) AS BIGINT) AS __count
FROM (
  SELECT
    __groups.c0 AS v0,
    CAST(CASE
      WHEN CAST(ENUM_OUT(__groups.c1) AS TEXT) COLLATE "C" IS NULL
      THEN 0
      ELSE CASE
        WHEN CAST(ENUM_OUT(__groups.c1) AS TEXT) COLLATE "C" >= 'M'
        THEN CASE WHEN CAST(ENUM_OUT(__groups.c1) AS TEXT) COLLATE "C" = 'M' THEN 1 ELSE 0 END
        ELSE CASE WHEN CAST(ENUM_OUT(__groups.c1) AS TEXT) COLLATE "C" = 'F' THEN 0 ELSE 0 END
      END
    END AS SMALLINT) AS v1,
    CAST(CASE
      WHEN __groups.c2 IS NULL
      THEN 4
      ELSE CASE
        WHEN __groups.c2 >= 'Zürich'
        THEN CASE
          WHEN __groups.c2 >= 'it''s'
          THEN CASE WHEN __groups.c2 = 'it''s' THEN 2 ELSE 3 END
          ELSE CASE WHEN __groups.c2 = 'Zürich' THEN 1 ELSE 3 END
        END
        ELSE CASE WHEN __groups.c2 = 'Bern' THEN 0 ELSE 3 END
      END
    END AS SMALLINT) AS v2,
    CAST(CASE WHEN __groups.c3 = TRUE THEN 1 WHEN __groups.c3 = FALSE THEN 0 ELSE 0 END AS SMALLINT) AS v3,
    __groups.c4 AS v4,
    __groups.c5 AS v5,
    __groups.c6 AS v6,
    __groups.__count AS n
  FROM (
    SELECT
      __codes.v0 AS c0,
      __codes.v1 AS c1,
      __codes.v2 AS c2,
      __codes.v3 AS c3,
      __codes.v4 AS c4,
      __codes.v5 AS c5,
      __codes.v6 AS c6,
      COUNT(*) AS __count
    FROM (
      SELECT
        CAST(CASE
          WHEN "age" IS NULL
          THEN 0
          ELSE CASE WHEN "age" >= 18 THEN CASE WHEN "age" >= 65 THEN 0 ELSE 1 END ELSE 0 END
        END AS SMALLINT) AS v0,
        "sex" AS v1,
        CAST("city" AS TEXT) COLLATE "C" AS v2,
        "yes" AS v3,
        CAST(CASE
          WHEN "pay" IS NULL
          THEN 0
          ELSE CASE WHEN "pay" >= CAST('500.51' AS DECIMAL(10, 2)) THEN 1 ELSE 0 END
        END AS SMALLINT) AS v4,
        CAST(CASE
          WHEN "day" IS NULL
          THEN 0
          ELSE CASE WHEN "day" >= CAST('2020-06-01' AS DATE) THEN 1 ELSE 0 END
        END AS SMALLINT) AS v5,
        CAST(CASE
          WHEN "moment" IS NULL
          THEN 0
          ELSE CASE
            WHEN "moment" >= CAST('1990-01-01 00:00:00+00' AS TIMESTAMPTZ)
            THEN 1
            ELSE 0
          END
        END AS SMALLINT) AS v6
      FROM "census"."public"."people"
    ) AS __codes
    GROUP BY
      __codes.v0,
      __codes.v1,
      __codes.v2,
      __codes.v3,
      __codes.v4,
      __codes.v5,
      __codes.v6
  ) AS __groups
) AS __codes
GROUP BY
  __codes.v0,
  __codes.v1,
  __codes.v2,
  __codes.v3,
  __codes.v4,
  __codes.v5,
  __codes.v6;

-- a column that is cut often
SELECT
  __codes.v0 AS c0,
  COUNT(*) AS __count
FROM (
  SELECT
    CAST(CASE
      WHEN "age" IS NULL
      THEN 89
      ELSE WIDTH_BUCKET(
        "age",
        CAST('{"1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17","18","19","20","21","22","23","24","25","26","27","28","29","30","31","32","33","34","35","36","37","38","39","40","41","42","43","44","45","46","47","48","49","50","51","52","53","54","55","56","57","58","59","60","61","62","63","64","65","66","67","68","69","70","71","72","73","74","75","76","77","78","79","80","81","82","83","84","85","86","87","88","89"}' AS INT[])
      )
    END AS SMALLINT) AS v0
  FROM "census"."public"."people"
) AS __codes
GROUP BY
  __codes.v0;

-- at most three rows of a person
SELECT
  __codes.v0 AS c0,
  __codes.v1 AS c1,
  CAST(SUM(__codes.n) AS BIGINT) AS __count
FROM (
  SELECT
    __groups.c0 AS v0,
    CAST(CASE WHEN __groups.c1 = TRUE THEN 1 WHEN __groups.c1 = FALSE THEN 0 ELSE 0 END AS SMALLINT) AS v1,
    __groups.__count AS n
  FROM (
    SELECT
      __codes.v0 AS c0,
      __codes.v1 AS c1,
      COUNT(*) AS __count
    FROM (
      SELECT
        CAST(CASE
          WHEN "age" IS NULL
          THEN 0
          ELSE CASE WHEN "age" >= 18 THEN CASE WHEN "age" >= 65 THEN 0 ELSE 1 END ELSE 0 END
        END AS SMALLINT) AS v0,
        "yes" AS v1
      FROM (
        SELECT
          "age",
          "yes"
        FROM (
          SELECT
            "age",
            "yes",
            ROW_NUMBER() OVER (
              PARTITION BY CAST("person" AS TEXT) COLLATE "C"
              ORDER BY MD5(
                CONCAT(
                  CAST("person" AS TEXT) COLLATE "C",
                  ' ',
                  CAST(CASE
                    WHEN "age" IS NULL
                    THEN 0
                    ELSE CASE WHEN "age" >= 18 THEN CASE WHEN "age" >= 65 THEN 0 ELSE 1 END ELSE 0 END
                  END AS SMALLINT),
                  ' ',
                  CAST(CASE WHEN "yes" = TRUE THEN 1 WHEN "yes" = FALSE THEN 0 ELSE 0 END AS SMALLINT)
                )
              ), CAST(CASE
                WHEN "age" IS NULL
                THEN 0
                ELSE CASE WHEN "age" >= 18 THEN CASE WHEN "age" >= 65 THEN 0 ELSE 1 END ELSE 0 END
              END AS SMALLINT), CAST(CASE WHEN "yes" = TRUE THEN 1 WHEN "yes" = FALSE THEN 0 ELSE 0 END AS SMALLINT)
            ) AS __rank
          FROM "census"."public"."people"
          WHERE
            NOT "person" IS NULL
        ) AS __ranked
        WHERE
          __rank <= 3
      ) AS __bounded
    ) AS __codes
    GROUP BY
      __codes.v0,
      __codes.v1
  ) AS __groups
) AS __codes
GROUP BY
  __codes.v0,
  __codes.v1;
SELECT
  COUNT(CASE WHEN __units.__count <= 3 THEN 1 END) AS c0,
  COUNT(CASE WHEN __units.__count > 3 THEN 1 END) AS c1
FROM (
  SELECT
    COUNT(*) AS __count
  FROM "census"."public"."people"
  WHERE
    NOT "person" IS NULL
  GROUP BY
    CAST("person" AS TEXT) COLLATE "C"
) AS __units;
