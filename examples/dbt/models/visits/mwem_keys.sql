-- What leads where. With a FOREIGN KEY, DuckDB would not let dbt replace the table that it refers to.
SELECT 'visit' AS table_name, ['pid'] AS columns, 'person' AS refers_to, ['pid'] AS refers_columns
