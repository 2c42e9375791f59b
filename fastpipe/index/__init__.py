"""The memory-mapped list of files behind the datasets, kept between runs and listed again where it changed."""
