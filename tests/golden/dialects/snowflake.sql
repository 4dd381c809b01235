-- Compiled, not run.

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
      WHEN COLLATE(CAST(__groups.c1 AS VARCHAR), 'utf8') IS NULL
      THEN 0
      ELSE CASE
        WHEN COLLATE(CAST(__groups.c1 AS VARCHAR), 'utf8') >= 'M'
        THEN CASE WHEN COLLATE(CAST(__groups.c1 AS VARCHAR), 'utf8') = 'M' THEN 1 ELSE 0 END
        ELSE CASE WHEN COLLATE(CAST(__groups.c1 AS VARCHAR), 'utf8') = 'F' THEN 0 ELSE 0 END
      END
    END AS SMALLINT) AS v1,
    CAST(CASE
      WHEN __groups.c2 IS NULL
      THEN 4
      ELSE CASE
        WHEN __groups.c2 >= 'Zürich'
        THEN CASE
          WHEN __groups.c2 >= 'it\'s'
          THEN CASE WHEN __groups.c2 = 'it\'s' THEN 2 ELSE 3 END
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
        COLLATE(CAST("city" AS VARCHAR), 'utf8') AS v2,
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
      ELSE CASE
        WHEN "age" >= 45
        THEN CASE
          WHEN "age" >= 67
          THEN CASE
            WHEN "age" >= 78
            THEN CASE
              WHEN "age" >= 84
              THEN CASE
                WHEN "age" >= 87
                THEN CASE WHEN "age" >= 88 THEN CASE WHEN "age" >= 89 THEN 89 ELSE 88 END ELSE 87 END
                ELSE CASE WHEN "age" >= 85 THEN CASE WHEN "age" >= 86 THEN 86 ELSE 85 END ELSE 84 END
              END
              ELSE CASE
                WHEN "age" >= 81
                THEN CASE WHEN "age" >= 82 THEN CASE WHEN "age" >= 83 THEN 83 ELSE 82 END ELSE 81 END
                ELSE CASE WHEN "age" >= 79 THEN CASE WHEN "age" >= 80 THEN 80 ELSE 79 END ELSE 78 END
              END
            END
            ELSE CASE
              WHEN "age" >= 72
              THEN CASE
                WHEN "age" >= 75
                THEN CASE WHEN "age" >= 76 THEN CASE WHEN "age" >= 77 THEN 77 ELSE 76 END ELSE 75 END
                ELSE CASE WHEN "age" >= 73 THEN CASE WHEN "age" >= 74 THEN 74 ELSE 73 END ELSE 72 END
              END
              ELSE CASE
                WHEN "age" >= 69
                THEN CASE WHEN "age" >= 70 THEN CASE WHEN "age" >= 71 THEN 71 ELSE 70 END ELSE 69 END
                ELSE CASE WHEN "age" >= 68 THEN 68 ELSE 67 END
              END
            END
          END
          ELSE CASE
            WHEN "age" >= 56
            THEN CASE
              WHEN "age" >= 61
              THEN CASE
                WHEN "age" >= 64
                THEN CASE WHEN "age" >= 65 THEN CASE WHEN "age" >= 66 THEN 66 ELSE 65 END ELSE 64 END
                ELSE CASE WHEN "age" >= 62 THEN CASE WHEN "age" >= 63 THEN 63 ELSE 62 END ELSE 61 END
              END
              ELSE CASE
                WHEN "age" >= 58
                THEN CASE WHEN "age" >= 59 THEN CASE WHEN "age" >= 60 THEN 60 ELSE 59 END ELSE 58 END
                ELSE CASE WHEN "age" >= 57 THEN 57 ELSE 56 END
              END
            END
            ELSE CASE
              WHEN "age" >= 50
              THEN CASE
                WHEN "age" >= 53
                THEN CASE WHEN "age" >= 54 THEN CASE WHEN "age" >= 55 THEN 55 ELSE 54 END ELSE 53 END
                ELSE CASE WHEN "age" >= 51 THEN CASE WHEN "age" >= 52 THEN 52 ELSE 51 END ELSE 50 END
              END
              ELSE CASE
                WHEN "age" >= 47
                THEN CASE WHEN "age" >= 48 THEN CASE WHEN "age" >= 49 THEN 49 ELSE 48 END ELSE 47 END
                ELSE CASE WHEN "age" >= 46 THEN 46 ELSE 45 END
              END
            END
          END
        END
        ELSE CASE
          WHEN "age" >= 22
          THEN CASE
            WHEN "age" >= 33
            THEN CASE
              WHEN "age" >= 39
              THEN CASE
                WHEN "age" >= 42
                THEN CASE WHEN "age" >= 43 THEN CASE WHEN "age" >= 44 THEN 44 ELSE 43 END ELSE 42 END
                ELSE CASE WHEN "age" >= 40 THEN CASE WHEN "age" >= 41 THEN 41 ELSE 40 END ELSE 39 END
              END
              ELSE CASE
                WHEN "age" >= 36
                THEN CASE WHEN "age" >= 37 THEN CASE WHEN "age" >= 38 THEN 38 ELSE 37 END ELSE 36 END
                ELSE CASE WHEN "age" >= 34 THEN CASE WHEN "age" >= 35 THEN 35 ELSE 34 END ELSE 33 END
              END
            END
            ELSE CASE
              WHEN "age" >= 27
              THEN CASE
                WHEN "age" >= 30
                THEN CASE WHEN "age" >= 31 THEN CASE WHEN "age" >= 32 THEN 32 ELSE 31 END ELSE 30 END
                ELSE CASE WHEN "age" >= 28 THEN CASE WHEN "age" >= 29 THEN 29 ELSE 28 END ELSE 27 END
              END
              ELSE CASE
                WHEN "age" >= 24
                THEN CASE WHEN "age" >= 25 THEN CASE WHEN "age" >= 26 THEN 26 ELSE 25 END ELSE 24 END
                ELSE CASE WHEN "age" >= 23 THEN 23 ELSE 22 END
              END
            END
          END
          ELSE CASE
            WHEN "age" >= 11
            THEN CASE
              WHEN "age" >= 16
              THEN CASE
                WHEN "age" >= 19
                THEN CASE WHEN "age" >= 20 THEN CASE WHEN "age" >= 21 THEN 21 ELSE 20 END ELSE 19 END
                ELSE CASE WHEN "age" >= 17 THEN CASE WHEN "age" >= 18 THEN 18 ELSE 17 END ELSE 16 END
              END
              ELSE CASE
                WHEN "age" >= 13
                THEN CASE WHEN "age" >= 14 THEN CASE WHEN "age" >= 15 THEN 15 ELSE 14 END ELSE 13 END
                ELSE CASE WHEN "age" >= 12 THEN 12 ELSE 11 END
              END
            END
            ELSE CASE
              WHEN "age" >= 5
              THEN CASE
                WHEN "age" >= 8
                THEN CASE WHEN "age" >= 9 THEN CASE WHEN "age" >= 10 THEN 10 ELSE 9 END ELSE 8 END
                ELSE CASE WHEN "age" >= 6 THEN CASE WHEN "age" >= 7 THEN 7 ELSE 6 END ELSE 5 END
              END
              ELSE CASE
                WHEN "age" >= 2
                THEN CASE WHEN "age" >= 3 THEN CASE WHEN "age" >= 4 THEN 4 ELSE 3 END ELSE 2 END
                ELSE CASE WHEN "age" >= 1 THEN 1 ELSE 0 END
              END
            END
          END
        END
      END
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
              PARTITION BY COLLATE(CAST("person" AS VARCHAR), 'utf8')
              ORDER BY MD5(
                CAST(COLLATE(CAST("person" AS VARCHAR), 'utf8') AS VARCHAR) || ' ' || CAST(CAST(CASE
                  WHEN "age" IS NULL
                  THEN 0
                  ELSE CASE WHEN "age" >= 18 THEN CASE WHEN "age" >= 65 THEN 0 ELSE 1 END ELSE 0 END
                END AS SMALLINT) AS VARCHAR) || ' ' || CAST(CAST(CASE WHEN "yes" = TRUE THEN 1 WHEN "yes" = FALSE THEN 0 ELSE 0 END AS SMALLINT) AS VARCHAR)
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
    COLLATE(CAST("person" AS VARCHAR), 'utf8')
) AS __units;
