"""``fastpipe check``: finds the files that would fail in training, and notes unusual ones.

    files       the files to examine
    examine     examines one file after the other in a separate process, which reads tasks and writes answers
    pool        keeps such processes busy, here or on a cluster, and replaces those that die or hang
    findings    the kinds of findings, and a row for each file that has any
    report      the rows as a table, CSV or JSON
    run         `check`, which uses all of the above

This file imports nothing, so that a worker process only loads what `examine` needs.
"""
