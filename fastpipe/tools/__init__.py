"""What people run on their own files: check, doctor, preview and verify."""
