"""svir beside what people would use instead: the same bytes, from the same loopback server, in one run.

    python -m benchmarks [NAME ...] [--quick] [--minutes N] [--write] [--compare] [--json FILE] [--plots DIR]

The server is a process of its own and so is each library (an *arm*); a library that is not installed is said to be
so. Arms take turns, round by round, so that what else the machine does falls on all of them. What counts is the ratio
of two arms in one run: microseconds are those of one machine on one day.

Two are of svir alone: `deadlines` holds it to its time limits, `soak` (only when named) to every fault at once.
"""
