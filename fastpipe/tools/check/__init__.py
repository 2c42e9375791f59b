"""``fastpipe check``: which files would fail in training, and what is odd about the others.

    sources     what was given → an `ImageIndex` of the files
    examine     one file → what was found, in a process of its own: tasks in, answers out
    pool        keeps worker processes busy, here or on a cluster; survives those that die or hang
    findings    the kinds of findings, and a row for each file that has any
    report      rows as a table, CSV or JSON; written beside and renamed
    run         `check`: all of the above in order

Nothing is imported here: a worker process starts with what `examine` needs and no more.
"""
