from readers import FORMAT

ONLY = {
    "test_hudi_tables.py": ["hudi"],
    "test_hudi_logs.py": ["hudi-mor"],
    "test_delta_log.py": ["delta"],
    "test_iceberg_log.py": ["iceberg"],
    "test_own_files.py": ["delta", "iceberg"],
    "test_format_moves.py": ["delta", "iceberg", "hudi"],
    "test_format_buckets.py": ["delta", "iceberg", "hudi"],
}
collect_ignore = [name for name, formats in ONLY.items() if FORMAT not in formats]
# Tables of Hudi with logs are of the same class as those without.
collect_ignore += ["test_format_story.py", "test_format_kills.py"] if FORMAT == "hudi-mor" else []
