from readers import FORMAT

collect_ignore = [] if FORMAT.startswith("hudi") else ["test_hudi_tables.py"]
collect_ignore += ["test_format_story.py"] if FORMAT == "hudi-mor" else []  # that of hudi is the same story
collect_ignore += ["test_format_moves.py"] if FORMAT == "parquet" else []  # from it, and to it
