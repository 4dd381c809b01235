SELECT i::INTEGER AS vid, (i % 2000)::INTEGER AS pid, i % 2 = 0 AS away FROM range(5000) AS t(i)
