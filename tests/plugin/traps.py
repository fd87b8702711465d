# SPDX-License-Identifier: Apache-2.0
"""What pytest-benchmark's comparison does to measurements of a server, one id a trap.

Each is a test named by its id: the stock plugin walks into the trap, ours does not. The ids of ``CASES`` are
those of the collected reports, the ids of ``TRAPS`` were found by running version 5.3.1.
"""

TRAPS = {
    "pb01": "--benchmark-compare-fail knows six fields and whole percentages, no percentile and no OPS",
    "pb02": "lower is always better: a throughput that doubles fails",
    "pb03": "a second --benchmark-compare-fail= replaces the first",
    "pb04": "--benchmark-compare PATH takes the path as the name of a run, compares nothing and passes",
    "pb05": "a regression is an exception after the last test: a traceback, no summary, no failure in JUnit",
    "pb06": "under xdist nothing is compared",
    "pb07": "with --benchmark-disable nothing is compared",
    "pb08": "a test that the baseline lacks passes without a word",
    "pb09": "after a partial run the rest has no baseline",
    "pb10": "from another root folder nothing has a partner",
    "pb11": "a renamed parameter has no partner",
    "pb12": "NaN is never worse than anything",
    "pb13": "a test that fails its own budget is the next baseline",
    "pb14": "a slow run is saved before it is compared, and the second run of it passes",
    "pb15": "the latest run is the baseline, whatever machine or branch it was made on",
    "pb16": "to find the latest run, every saved run is read whole",
    "pb17": "after run 9999 the latest run is not found any more",
    "pb18": "without any baseline, --benchmark-compare-fail ends in a usage error",
    "pb19": "the commit is that of the current folder, not of the server",
    "pb20": "the compare command reads no conftest.py but the one in the root folder",
    "pb21": "--dist loadgroup keeps no group together",
}
CASES = {
    "h69": "the first run has no baseline",
    "h70": "the machine differs by the frequency of its clock",
    "h71": "a renamed parameter switches the gate off",
    "h72": "a run that failed its budget becomes the next baseline",
    "h73": "the gate has one side and knows times only",
    "h74": "the commit recorded is that of the working directory",
    "h75": "calibration runs an expensive load again and again",
}
