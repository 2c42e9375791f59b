"""Measuring the readers on this machine, and choosing one for each format.

samples → measure → choose → report; `run` strings them together for the command line.
"""
