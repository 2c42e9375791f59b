"""The memory-mapped list of files behind the datasets: listed, merged with what was known, kept."""
