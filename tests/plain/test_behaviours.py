"""What TCP sockets do must not depend on the module: tests/behaviours told three ways, and compared."""

import io
import re
import warnings
import zipfile
from functools import cache
from pathlib import Path

import pytest

from rig.guest import Guest
from rig.machine import Machine
from tests import traffic

SOURCES = Path(__file__).resolve().parent.parent / "behaviours"
PROGRAM = "/tmp/behaviours"

# Why a behaviour leaves the ring, or is never on it. All others stay on it: see doc/compatibility.md.
LEAVES = {
    "a_reader_waits_for_its_low_water_mark": "ring, socket-option",
    "both_connect": "simultaneous-open",
    "both_send_before_either_reads": "ring, stalled",
    "connect_refused": "not attached",
    "connected_to_itself": "simultaneous-open",
    "end_before_accept": "not attached",
    "epoll_urgent": "ring, urgent-data",
    "fast_open": "fast-open, peer-declined",
    "filter_of_bpf": "ring, socket-filter",
    "filter_set_before_there_is_a_connection": "socket-filter",
    "filter_that_drops": "ring, socket-filter",
    "filter_that_passes": "ring, socket-filter",
    "invalid_packets_are_dropped": "ring, socket-filter",
    "invalid_packets_are_dropped_over_unread_bytes": "ring, socket-filter",
    "key_for_another_peer": "ring, socket-option",
    "listener_closes_over_a_connection": "not attached",
    "listener_queue_size": "not attached",
    "low_water_mark": "ring, socket-option",
    "many_messages_on_the_way_back": "ring, socket-option",
    "mapped_address": "ring, socket-option",
    "not_connected": "not attached",
    "options_set_before_there_is_a_connection": "peer-declined, socket-option",
    "original_destination": "ring, peer-declined",
    "paced": "ring, socket-option",
    "peek_at_an_urgent_byte": "urgent-data",
    "peek_offset": "ring, socket-option",
    "peek_offset_over_unread_bytes": "ring, socket-option",
    "refused_by_a_firewall": "not attached",
    "repair": "ring, repair",
    "repair_over_unread_bytes": "ring, repair",
    "repaired_in_another_socket": "ring, repair",
    "reset_before_accept": "not attached",
    "reset_by_a_firewall": "not attached",
    "sock_ops_puts_it_into_a_sockmap": "not attached",
    "strange_flags": "ring, timestamping",
    "time_stamps": "ring, timestamping",
    "time_stamps_from_the_first_byte": "ring, timestamping",
    "time_stamps_in_nanoseconds": "ring, timestamping",
    "time_stamps_of_what_came": "ring, timestamping",
    "time_stamps_of_what_was_sent": "ring, timestamping",
    "tls_of_the_kernel": "ring, upper-layer-protocol",
    "translated_source": "peer-declined",
    "unknown_control_message": "ring, timestamping",
    "upper_layer": "ring, upper-layer-protocol",
    "upper_layer_over_unread_bytes": "ring, upper-layer-protocol",
    "upper_layer_under_signals": "ring, upper-layer-protocol",
    "upper_layer_while_a_request_waits": "ring, upper-layer-protocol",
    "urgent": "ring, urgent-data",
    "urgent_behind_unread_bytes": "ring, urgent-data",
    "urgent_inline": "ring, urgent-data",
    "urgent_signal": "ring, urgent-data",
    "user_timeout": "ring, stalled",
    "user_timeout_and_room_for_all": "ring, stalled",
    "user_timeout_of_who_polls": "ring, stalled",
    "user_timeout_set_late": "ring, stalled",
    "user_timeout_without_blocking": "ring, stalled",
    "what_a_listener_hands_on": "socket-option",
    "zero_copy": "ring, zero-copy",
    "zero_copy_receive": "ring, zero-copy",
}
# Whose peer is asked to come back later, and may find the connection gone then, is a matter of chance.
VARIES = "reading_as_connect_begins"
FALLS_BACK = ("_and_it_falls_back", "_after_it_fell_back")
# Make networks of their own, where nothing is translated
UNTRANSLATED = ("network_of_its_own", "two_networks")
# 6.1 has no SO_PEEK_OFF for TCP, and its MPTCP listeners do not let a child be attached.
BY_KERNEL = {
    "6.1": {
        "listener_that_knows_mptcp": "kernel-socket",
        "peek_offset": "ring",
        "peek_offset_over_unread_bytes": "ring",
    }
}
# What depends on the kernel most, or on kernel/compat.h, for the kernels between the oldest and the newest
SOME = (
    "plain_calls bad_memory sendfile splice_from_socket splice_to_socket peek error_queue zero_copy "
    "queue_sizes info disconnect_and_reconnect asynchronous_io time_stamps uring_send_and_receive "
    "epoll_edge a_reader_sleeps_and_it_falls_back asynchronous_read_sleeps_and_it_falls_back "
    "splice_sleeps_and_it_falls_back"
).split()

TRANSLATION = b"""
table ip xway { chain out { type nat hook output priority -100; ip daddr 127.7.0.3 dnat to 127.7.0.2; }; }
table ip6 xway { chain out { type nat hook output priority -100; ip6 daddr fd77::7:3 dnat to fd77::7:2; }; }
"""


@cache
def program() -> bytes:
    """Return the behaviours as one file that Python runs."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for source in sorted(SOURCES.glob("*.py")):
            archive.write(source, source.name)
    return packed.getvalue()


Transcript = dict[str, list[str]]


def tell(guest: Guest, way: str, *names: str) -> tuple[Transcript, dict[str, str]]:
    """Return each behaviour's lines, and which way it went; way: the program's first words."""
    done = guest.run(["python3", "-B", PROGRAM, *way.split(), *names], timeout=1000)
    bad = [line for line in done.stdout.splitlines() if re.search(r": (HUNG|FAILED)", line)]
    trace = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("WAY "))
    assert not bad, "\n".join(bad) + "\n" + trace[-3000:]
    told: Transcript = {}
    for line in done.stdout.splitlines():
        told.setdefault(line.partition(":")[0], []).append(line)
    assert len(told) >= (len(names) or 100), done.stdout
    return told, dict(re.findall(r"^WAY (\w+): (.+)$", done.stderr, re.MULTILINE))


def tell_as(guest: Guest, way: str, expected: Transcript, ways: dict[str, str], *names: str) -> None:
    """Compare with another transcript, and see which way each behaviour goes that is named in `ways`.

    What differs is told once more: a slow machine may let an acknowledgement come late, or a channel.
    """
    told, went = tell(guest, way, *names)
    differs = [name for name in expected if told.get(name) != expected[name]]
    differs += [name for name in ways if went.get(name) != ways[name] and name not in differs]
    if differs:
        warnings.warn(f"by {way}, told once more: {', '.join(differs)}", stacklevel=1)
        assert len(differs) < 4, {name: (told.get(name), expected[name], went.get(name)) for name in differs}
        again = tell(guest, way, *differs)
        told.update(again[0])
        went.update(again[1])
    assert told == expected
    assert {name: went[name] for name in ways} == ways


PLAIN: dict[tuple[str, str], Transcript] = {}


def prepared(machine: Machine, way: str, *names: str) -> tuple[Guest, Transcript]:
    """Load the module, and return the guest and the transcript without it, which each kernel tells once.

    names: of the behaviours, if not all are told on this kernel
    """
    guest, key = machine.guest("g1"), (machine.config.kernel, way)
    guest.write(PROGRAM, program())
    traffic.unload(guest)
    guest.run("ip addr replace fd77::7:2/128 dev lo nodad; sysctl -qw net.ipv4.tcp_fastopen=3")
    if key not in PLAIN:
        PLAIN[key] = tell(guest, way, *names)[0]
    traffic.load(guest, "127.0.0.0/8", "fd77::7:0/112")
    return guest, PLAIN[key]


def same_by_ring(machine: Machine, option: str, *names: str) -> None:
    """Compare by ring with TCP, and see which way each behaviour goes."""
    guest, plain = prepared(machine, f"tcp{option}", *names)
    leaves = {**LEAVES, **BY_KERNEL.get(machine.config.kernel, {})}
    assert names or leaves.keys() <= plain.keys()
    others = {name: "ring, socket-filter" if name.endswith(FALLS_BACK) else "ring" for name in plain}
    ways = {name: leaves.get(name, others[name]) for name in plain if name != VARIES}
    tell_as(guest, f"ring{option}", plain, ways, *names)
    traffic.settled(guest)
    traffic.unload(guest)


@pytest.mark.rig(kernel="newest")
@pytest.mark.rig(kernel="6.1")
def test_behaviours_do_not_depend_on_the_module(machine: Machine) -> None:
    same_by_ring(machine, "")


@pytest.mark.rig(kernel="6.12")
def test_some_behaviours_do_not_depend_on_the_module(machine: Machine) -> None:
    same_by_ring(machine, "", *SOME)
    same_by_ring(machine, " --ipv6", *SOME)


@pytest.mark.rig(kernel="newest", deep=True)
@pytest.mark.rig(kernel="6.1", deep=True)
def test_behaviours_by_ipv6_do_not_depend_on_the_module(machine: Machine) -> None:
    same_by_ring(machine, " --ipv6")


def same_if_declined(machine: Machine, *names: str) -> dict[str, int]:
    """Compare with TCP where the peer declines; return by how much the counters moved."""
    guest, plain = prepared(machine, "tcp", *names)
    guest.run("nft -f -", stdin=TRANSLATION)
    guest.run("ip route replace local fd77::7:3/128 dev lo")
    before = traffic.counters(guest)
    plain = {name: lines for name, lines in plain.items() if name not in UNTRANSLATED}
    tell_as(guest, "declined", plain, {}, *plain)
    now = traffic.moved(before, traffic.counters(guest))
    assert now["tx_ring_bytes"] == 0 and now["channels"] == 0, now
    guest.run("nft flush ruleset; xway off --wait 20; modprobe -r xway")
    return now


@pytest.mark.rig(kernel="6.12")
def test_some_behaviours_do_not_depend_on_a_peer_that_declines(machine: Machine) -> None:
    now = same_if_declined(machine, *SOME)
    assert now["attached"] > len(SOME) and now["reason:peer-declined"] > len(SOME) // 2, now


@pytest.mark.rig(kernel="newest", deep=True)
@pytest.mark.rig(kernel="6.1", deep=True)
def test_behaviours_do_not_depend_on_a_peer_that_declines(machine: Machine) -> None:
    now = same_if_declined(machine)
    assert now["attached"] > 100 and now["reason:peer-declined"] > 50, now
