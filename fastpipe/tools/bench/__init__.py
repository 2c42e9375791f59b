"""Measures the readers on this machine, and chooses one for each format.

samples → measure → choose → result.
"""
