"""Tools that people run on their own files: check, doctor, preview and verify."""
