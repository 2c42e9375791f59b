"""Measuring the readers on this machine, and choosing one for each format.

samples → measure → choose → result.
"""
