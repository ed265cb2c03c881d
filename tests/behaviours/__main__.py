"""What TCP sockets do, one small function for each behaviour, told as a transcript.

WAY says how the connections made here go: "tcp", the module is absent; "ring", over rings, the addresses
being co-resident; "declined", the module holds the sockets but the peer refuses, because their address is
translated on the way. The transcripts must be the same. Standard output has the transcript; with "ring",
standard error has a line "WAY name: ring" or "WAY name: REASON" for each behaviour.

Runs as root, with the addresses tools.HOSTS; where TRANSLATED is connected to, HOSTS must answer.
"""

import argparse
import json
import signal
import socket
import subprocess
import sys
import traceback

import data  # noqa: F401 - importing them lists their behaviours
import fallback  # noqa: F401
import firewall  # noqa: F401
import hooks  # noqa: F401
import life  # noqa: F401
import options  # noqa: F401
import uring  # noqa: F401
import waiting  # noqa: F401

from tools import Behaviour, behaviours, now, opened, say

LIMIT = 90  # seconds for one behaviour, on a machine that does other things, too


def counters() -> dict[str, int]:
    """Return the module's counters and reasons."""
    text = subprocess.run(["xway", "-j", "stats"], capture_output=True, check=True).stdout
    stats = json.loads(text)
    return {**stats["stats"], **{f"reason:{key}": value for key, value in stats["fallbacks"].items()}}


# Not reasons of their own: they come with another end's, or with a connection's end.
COMPANIONS = {"reason:peer-fell-back", "reason:idle"}


def way_of(before: dict[str, int], after: dict[str, int]) -> str:
    """Return "ring", or why not, from the counters before and after a behaviour."""
    moved = {key for key in after if after[key] != before.get(key, 0)}
    reasons = sorted(key.removeprefix("reason:") for key in moved - COMPANIONS if key.startswith("reason:"))
    return ", ".join(["ring"] * ("tx_ring_bytes" in moved) + reasons) or "not attached"


class Hung(Exception):
    """A behaviour took too long."""


def alarm(*_: object) -> None:
    raise Hung


def run(one: Behaviour, family: socket.AddressFamily) -> None:
    """Run one behaviour."""
    now.name, now.family = one.__name__, family
    before = counters() if now.way == "ring" else {}
    signal.signal(signal.SIGALRM, alarm)
    signal.alarm(LIMIT)
    try:
        one()
    except Hung:
        say("HUNG")
        traceback.print_exc()
    except Exception as error:
        say("FAILED", type(error).__name__, error)
        traceback.print_exc()
    signal.alarm(0)
    for sock in opened:
        sock.close()
    opened.clear()
    if now.way == "ring":
        print(f"WAY {now.name}: {way_of(before, counters())}", file=sys.stderr, flush=True)


def main() -> None:
    """Run the behaviours named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="behaviours", description=__doc__)
    parser.add_argument("way", choices=["tcp", "ring", "declined"])
    parser.add_argument("--ipv6", action="store_true", help="connect by IPv6 where either will do")
    parser.add_argument("name", nargs="*", help="behaviours to run (default: all)")
    args = parser.parse_intermixed_args()  # names may follow an option
    now.way = args.way
    unknown = set(args.name) - {one.__name__ for one in behaviours}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    for one in behaviours:
        if not args.name or one.__name__ in args.name:
            run(one, socket.AF_INET6 if args.ipv6 else socket.AF_INET)


if __name__ == "__main__":
    main()
