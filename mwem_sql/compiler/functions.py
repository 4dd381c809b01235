"""The functions a workload may call: deterministic scalars, by DuckDB's names.

A list of names, because DuckDB's own flag is no guard: it calls `current_localtime` and every Python function
consistent. `age` is left out (with one argument it reads the clock), and so is everything that makes nested values.
"""

from __future__ import annotations

ALLOWED_FUNCTIONS = frozenset(
    [
        # Numbers.
        "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bit_count", "cbrt", "ceil",
        "ceiling", "cos", "cosh", "cot", "degrees", "divide", "even", "exp", "factorial", "fdiv", "floor", "fmod",
        "gamma", "gcd", "greatest", "greatest_common_divisor", "isfinite", "isinf", "isnan", "lcm", "least",
        "least_common_multiple", "lgamma", "ln", "log", "log10", "log2", "mod", "multiply", "nextafter", "pi",
        "pow", "power", "radians", "round", "round_even", "roundbankers", "sign", "signbit", "sin", "sinh", "sqrt",
        "subtract", "tan", "tanh", "trunc", "xor",
        # Text.
        "ascii", "bar", "base64", "bin", "bit_length", "char_length", "character_length", "chr", "concat",
        "concat_ws", "contains", "damerau_levenshtein", "editdist3", "ends_with", "format", "from_base64",
        "from_hex", "hamming", "hash", "hex", "ilike_escape", "instr", "jaccard", "jaro_similarity",
        "jaro_winkler_similarity", "lcase", "left", "left_grapheme", "len", "length", "length_grapheme",
        "levenshtein", "like_escape", "lower", "lpad", "ltrim", "md5", "mismatches", "nfc_normalize",
        "not_ilike_escape", "not_like_escape", "octet_length", "ord", "overlay", "position", "prefix", "printf",
        "regexp_escape", "regexp_extract", "regexp_full_match", "regexp_matches", "regexp_replace", "repeat",
        "replace", "reverse", "right", "right_grapheme", "rpad", "rtrim", "sha1", "sha256", "split_part",
        "starts_with", "strip_accents", "strlen", "strpos", "substr", "substring", "substring_grapheme", "suffix",
        "to_base64", "to_binary", "to_hex", "translate", "trim", "ucase", "unicode", "upper", "url_decode",
        "url_encode",
        # Dates and times.
        "century", "date_add", "date_diff", "date_part", "date_sub", "date_trunc", "datediff", "datepart",
        "datesub", "datetrunc", "day", "dayname", "dayofmonth", "dayofweek", "dayofyear", "days_in_month", "decade",
        "epoch", "epoch_ms", "epoch_ns", "epoch_us", "era", "hour", "isodow", "isoyear", "julian", "last_day",
        "make_date", "make_time", "make_timestamp", "make_timestamptz", "microsecond", "millennium", "millisecond",
        "minute", "month", "monthname", "quarter", "second", "strftime", "strptime", "time_bucket", "timezone",
        "to_centuries", "to_days", "to_decades", "to_hours", "to_microseconds", "to_millennia", "to_milliseconds",
        "to_minutes", "to_months", "to_quarters", "to_seconds", "to_timestamp", "to_weeks", "to_years",
        "try_strptime", "week", "weekday", "weekofyear", "year", "yearweek",
        # Any type.
        "coalesce", "constant_or_null", "enum_code", "if", "ifnull", "nullif", "typeof",
    ]
)  # fmt: skip
