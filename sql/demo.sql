-- Purpose: the census-like table and the workload of `mwem-sql demo`. Nobody in it exists: every row is arithmetic on
--   its number (md5 is the source of chance, so every DuckDB version makes the same rows). The columns depend on
--   each other, as in a real census: education on age, work on education and sex, income on nearly everything.
-- Parameters: the variable `demo_rows`, 50000 unless set before.
-- Example: SET VARIABLE demo_rows = 1000; then this file; then
--   SELECT count(*) FROM census;                        -- 1000
--   CALL mwem_release('census', workload, 1.0);         -- writes census_synthetic
-- Cost: under a second for 50,000 rows. No privacy cost: nothing here reads private data.

BEGIN;

-- The schema is the public domain: ENUM values, CHECK bounds and NOT NULL say which records are possible.
CREATE TABLE census (
    age        INTEGER NOT NULL CHECK (age BETWEEN 17 AND 90),
    sex        ENUM ('Female', 'Male') NOT NULL,
    education  ENUM ('No diploma', 'High school', 'Some college', 'Bachelor', 'Master', 'Doctorate') NOT NULL,
    marital    ENUM ('Never married', 'Married', 'Divorced', 'Widowed') NOT NULL,
    occupation ENUM ('Manual', 'Service', 'Clerical', 'Sales', 'Professional', 'Manager') NOT NULL,
    hours      INTEGER NOT NULL CHECK (hours BETWEEN 1 AND 99),
    income     ENUM ('<=50K', '>50K') NOT NULL
);

INSERT INTO census
WITH
chance AS (                                       -- seven independent numbers in [0, 1) for each row
    SELECT
        md5_number_lower('age ' || i) / 18446744073709551616.0 AS for_age,
        md5_number_lower('sex ' || i) / 18446744073709551616.0 AS for_sex,
        md5_number_lower('education ' || i) / 18446744073709551616.0 AS for_education,
        md5_number_lower('marital ' || i) / 18446744073709551616.0 AS for_marital,
        md5_number_lower('occupation ' || i) / 18446744073709551616.0 AS for_occupation,
        md5_number_lower('hours ' || i) / 18446744073709551616.0 AS for_hours,
        md5_number_lower('income ' || i) / 18446744073709551616.0 AS for_income
    FROM range(coalesce(getvariable('demo_rows'), 50000)::BIGINT) AS t(i)
),
person AS (                                       -- more young people than old ones
    SELECT *,
        17 + floor(74 * for_age ** 1.5)::INTEGER AS age,
        CASE WHEN for_sex < 0.52 THEN 'Male' ELSE 'Female' END AS sex
    FROM chance
),
talent AS (                                       -- degrees take years, and the old went to school less
    SELECT *,
        CASE
            WHEN age < 20 THEN 0.65 * for_education
            WHEN age < 25 THEN 0.92 * for_education
            WHEN age < 60 THEN for_education
            ELSE for_education ** 1.3
        END AS rank
    FROM person
),
student AS (                                      -- 0 for no diploma, 5 for a doctorate
    SELECT *,
        (rank > 0.13)::INTEGER + (rank > 0.44)::INTEGER + (rank > 0.68)::INTEGER + (rank > 0.87)::INTEGER
        + (rank > 0.96)::INTEGER AS degree
    FROM talent
),
spouse AS (                                       -- widows are old, and mostly women
    SELECT *,
        CASE
            WHEN for_marital < exp(-(age - 17) / 12.0) THEN 'Never married'
            WHEN age > 60 AND for_marital > CASE sex WHEN 'Female' THEN 0.65 ELSE 0.88 END THEN 'Widowed'
            WHEN for_marital > 0.80 - 0.02 * degree AND age > 24 THEN 'Divorced'
            WHEN age < 22 AND for_marital < 0.9 THEN 'Never married'
            ELSE 'Married'
        END AS marital
    FROM student
),
worker AS (                                       -- a degree moves the whole scale towards the last two
    SELECT *,
        CASE sex
            WHEN 'Male' THEN ['Manual', 'Manual', 'Sales', 'Service', 'Manual', 'Clerical', 'Sales', 'Professional',
                              'Manager', 'Professional', 'Manager', 'Professional']
            ELSE ['Service', 'Manual', 'Clerical', 'Service', 'Clerical', 'Clerical', 'Sales', 'Professional',
                  'Clerical', 'Professional', 'Manager', 'Professional']
        END[1 + least(11, floor(degree * 1.4 + 5 * for_occupation))::INTEGER] AS occupation
    FROM spouse
),
week AS (                                         -- forty hours for most, fewer for the young and the old
    SELECT *,
        least(99, greatest(1, round(
            CASE
                WHEN age < 22 THEN 8 + 30 * for_hours
                WHEN age > 66 THEN 4 + 34 * for_hours
                WHEN for_hours BETWEEN 0.3 AND 0.65 THEN 40
                WHEN sex = 'Female' AND marital = 'Married' THEN 18 + 30 * for_hours
                ELSE 30 + 26 * for_hours
            END
            + CASE occupation WHEN 'Manager' THEN 6 WHEN 'Professional' THEN 3 WHEN 'Service' THEN -4 ELSE 0 END
        )))::INTEGER AS hours
    FROM worker
)
SELECT
    age, sex,
    ['No diploma', 'High school', 'Some college', 'Bachelor', 'Master', 'Doctorate'][1 + degree],
    marital, occupation, hours,
    CASE
        WHEN for_income < 1 / (1 + exp(
            4.1 - 0.65 * degree - 0.05 * (hours - 40) - 0.03 * least(age - 17, 38)
            - CASE marital WHEN 'Married' THEN 1.2 ELSE 0 END
            - CASE sex WHEN 'Male' THEN 0.4 ELSE 0 END
            - CASE occupation WHEN 'Manager' THEN 1.0 WHEN 'Professional' THEN 0.6 ELSE 0 END))
        THEN '>50K' ELSE '<=50K'
    END
FROM week;

-- One query per row. A group_by row is a whole marginal, measured at once; a predicate is one count.
CREATE TABLE workload (predicate VARCHAR, group_by VARCHAR[], name VARCHAR);

INSERT INTO workload (group_by, name) VALUES
    (['sex', 'education'],        'sex, education'),
    (['sex', 'marital'],          'sex, marital'),
    (['sex', 'occupation'],       'sex, occupation'),
    (['sex', 'income'],           'sex, income'),
    (['education', 'marital'],    'education, marital'),
    (['education', 'occupation'], 'education, occupation'),
    (['education', 'income'],     'education, income'),
    (['marital', 'occupation'],   'marital, occupation'),
    (['marital', 'income'],       'marital, income'),
    (['occupation', 'income'],    'occupation, income');

INSERT INTO workload (predicate, name) VALUES
    ('age < 25',                                                 'under 25'),
    ('age BETWEEN 25 AND 40',                                    '25 to 40'),
    ('age > 40 AND income = ''>50K''',                           'over 40 and well paid'),
    ('age >= 65 AND marital = ''Widowed''',                      'widowed at 65 or more'),
    ('age < 25 AND marital <> ''Never married''',                'married before 25'),
    ('age >= 65 AND hours > 20',                                 'at work at 65 or more'),
    ('hours > 45 AND income = ''>50K''',                         'long hours, good pay'),
    ('hours > 45 AND occupation IN (''Manager'', ''Professional'')', 'long hours at a desk'),
    ('hours <= 20 AND sex = ''Female''',                         'women in part-time work'),
    ('age BETWEEN 25 AND 40 AND education IN (''Bachelor'', ''Master'', ''Doctorate'')', 'graduates of 25 to 40');

COMMIT;
