"""How long to wait at most: every limit follows the speed that the machine shows.

Limits of commands, in the rig, the tests and the benchmark, are written for an idle machine of two CPUs
without virtualization. A rig that comes up is measured, and where it is slow limit() makes them longer from
then on.
"""

MOST = 20.0  # times as long, so that every limit has an end
# By the instruction clock a second of the domains may take so many of ours.
INSTRUCTIONS = 20.0
# Run in the first domain that is up, on all its CPUs: programs that are started, and a shell's sums.
WORK = """work() {
    for i in $(seq 10); do /bin/true; done
    i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); done
}
for n in $(seq $(nproc)); do work & done; wait"""
USUAL = 1.0  # seconds that it takes on an idle machine

_slow = 1.0


def slowness(seconds: float, instructions: bool) -> float:
    """Return how many times as long limits are to be where WORK took so many seconds.

    Domains that wait for each other are held up more than one that computes: where WORK took three times as
    long, beside compilers, guests took five times as long to start, and ten times as long to load xway.
    """
    return min(MOST, max(INSTRUCTIONS if instructions else 1.0, (seconds / USUAL) ** 2))


def use(slow: float) -> None:
    """Have limits follow this slowness: that of the rig that is used next."""
    global _slow
    _slow = slow


def limit(seconds: float) -> float:
    """Return a limit, which is so many seconds on an idle machine, as it is to be here."""
    return seconds * _slow
