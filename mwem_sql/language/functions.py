"""The functions a workload may call: deterministic scalars, by DuckDB's names.

A list of names, because DuckDB's own flag is no guard: it calls `current_localtime` and every Python function
consistent. What is left out, of all that DuckDB flags so:

- `age` and `ago` (with one argument `age` reads the clock), `current_*`, `pg_*`, `has_*`, `inet_*`, `version`: clock,
  session, catalog;
- `list_*`, `map_*`, `struct_*`, `json_*`, `st_*`, `string_split`, `regexp_extract_all`, ...: nested values, extensions;
- `bitstring`, `get_bit`, `set_bit`, `bit_position`: `bitstring` makes any length; BIT has no use without it;
- `collate_*`, `icu_*`: write COLLATE; `create_sort_key`, `alias`, `stats`, `cast_to_type`, `can_cast_implicitly`, ...:
  inner workings;
- `error`, `assert_true`, `pg_sleep`, `invoke`, `switch`, `wavg`, `geomean`: they raise, wait, call another function, or
  aggregate.

Names that some version lacks: `binom` and `if` are functions from 2.0 on (`if` is syntax before), `days_in_month` and
`parse_formatted_bytes` from 1.5 on; `coalesce`, `ifnull`, `try` and `overlay` are syntax in all or some.
"""

from __future__ import annotations

ALLOWED_FUNCTIONS = frozenset(
    [
        # Numbers.
        "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "binom", "bit_count", "cbrt",
        "ceil", "ceiling", "cos", "cosh", "cot", "degrees", "divide", "even", "exp", "factorial", "fdiv",
        "floor", "fmod", "from_binary", "gamma", "gcd", "greatest", "greatest_common_divisor", "isfinite",
        "isinf", "isnan", "lcm", "least", "least_common_multiple", "lgamma", "ln", "log", "log10", "log2",
        "mod", "multiply", "nextafter", "pi", "pow", "power", "radians", "round", "round_even", "roundbankers",
        "sign", "signbit", "sin", "sinh", "sqrt", "subtract", "tan", "tanh", "to_base", "trunc", "unbin", "xor",
        # Text.
        "array_extract", "array_slice", "ascii", "bar", "base64", "bin", "bit_length", "char_length",
        "character_length", "chr", "concat", "concat_ws", "contains", "damerau_levenshtein", "decode",
        "editdist3", "encode", "ends_with", "format", "format_bytes", "formatreadabledecimalsize",
        "formatreadablesize", "from_base64", "from_hex", "hamming", "hash", "hex", "ilike_escape", "instr",
        "jaccard", "jaro_similarity", "jaro_winkler_similarity", "lcase", "left", "left_grapheme", "len",
        "length", "length_grapheme", "levenshtein", "like_escape", "lower", "lpad", "ltrim", "md5",
        "md5_number", "md5_number_lower", "md5_number_upper", "mismatches", "nfc_normalize", "not_ilike_escape",
        "not_like_escape", "octet_length", "ord", "overlay", "parse_dirname", "parse_dirpath", "parse_filename",
        "parse_formatted_bytes", "pg_size_pretty", "position", "prefix", "printf", "regexp_escape",
        "regexp_extract", "regexp_full_match", "regexp_matches", "regexp_replace", "repeat", "replace",
        "reverse", "right", "right_grapheme", "rpad", "rtrim", "sha1", "sha256", "split_part", "starts_with",
        "strip_accents", "strlen", "strpos", "substr", "substring", "substring_grapheme", "suffix", "to_base64",
        "to_binary", "to_hex", "translate", "trim", "ucase", "unhex", "unicode", "upper", "url_decode",
        "url_encode",
        # Dates and times.
        "century", "date_add", "date_diff", "date_part", "date_sub", "date_trunc", "datediff", "datepart",
        "datesub", "datetrunc", "day", "dayname", "dayofmonth", "dayofweek", "dayofyear", "days_in_month",
        "decade", "epoch", "epoch_ms", "epoch_ns", "epoch_us", "era", "hour", "isodow", "isoyear", "julian",
        "last_day", "make_date", "make_time", "make_timestamp", "make_timestamp_ms", "make_timestamp_ns",
        "make_timestamptz", "microsecond", "millennium", "millisecond", "minute", "month", "monthname",
        "nanosecond", "normalized_interval", "quarter", "second", "strftime", "strptime", "time_bucket",
        "timezone", "timezone_hour", "timezone_minute", "to_centuries", "to_days", "to_decades", "to_hours",
        "to_microseconds", "to_millennia", "to_milliseconds", "to_minutes", "to_months", "to_quarters",
        "to_seconds", "to_timestamp", "to_weeks", "to_years", "try_strptime", "week", "weekday", "weekofyear",
        "year", "yearweek",
        # Any type.
        "coalesce", "constant_or_null", "enum_code", "enum_first", "enum_last", "if", "ifnull", "nullif", "try",
        "typeof", "uuid_extract_timestamp", "uuid_extract_version",
    ]
)  # fmt: skip

# Of those, what a private view may call under a condition only: DuckDB's TRY lets their errors through (a syntax,
# something that is not implemented), so that one row could fail a scan.
ESCAPING = frozenset(["like_escape", "ilike_escape", "not_like_escape", "not_ilike_escape"])
"""Only with a constant pattern and a constant escape character that does not end it: others raise at their end."""
SPECIFIED = frozenset(
    [
        "date_part", "datepart", "date_trunc", "datetrunc", "date_diff", "datediff", "date_sub", "datesub",
        "time_bucket", "timezone",
    ]
)  # fmt: skip
"""Only with a constant first argument, and constant texts: an unknown unit or time zone raises, a width of 0 too."""
ZONED = frozenset(["make_timestamptz"])
"""Only with constant texts, for the same reason."""
CALENDAR = SPECIFIED | ZONED | frozenset(
    [
        "century", "day", "dayofmonth", "dayofweek", "dayofyear", "days_in_month", "decade", "era", "hour",
        "isodow", "isoyear", "julian", "last_day", "microsecond", "millennium", "millisecond", "minute", "month",
        "nanosecond", "quarter", "second", "timezone_hour", "timezone_minute", "week", "weekday", "weekofyear",
        "year", "yearweek", "epoch", "epoch_ms", "epoch_ns", "epoch_us",
    ]
)  # fmt: skip
"""Only of types that have them: `week` of an INTERVAL is not implemented, and raises on the first row with a value."""
