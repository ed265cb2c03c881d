"""A second client of the core, kernel/test/dgram.c, beside sockets: its channels are its own business."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.traffic import Ends, linked, until
from tests.xen.test_life import TALK_MOST, enough, talk

MIB = 1 << 20
MODULE = "xway_dgram_test"
FOLDER = "/sys/kernel/debug/xway_dgram"
FILES = f"{FOLDER}/xen:*"  # one, with two guests
RELOADS = 20

pytestmark = [
    pytest.mark.rig(type="pv", kernel="6.12", deep=True),
    pytest.mark.rig(type="pv", kernel="6.1", vcpus=2),
]


def load(guest: Guest) -> None:
    guest.run(
        f"mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug; modprobe {MODULE}"
    )


def unload(guest: Guest) -> None:
    guest.run(["modprobe", "-r", MODULE])


def state(guest: Guest) -> str:
    """Return the state of the channel, or nothing if there is no link."""
    return guest.run(f"sed -n 's/^state //p' {FILES}", check=False).stdout.strip()


def counts(guest: Guest) -> dict[str, int]:
    """Return what a guest's module has counted since it was loaded."""
    lines = [line.split() for line in guest.run(f"cat {FILES}").stdout.splitlines()]
    return {name: int(value) for name, value in lines if name != "state"}


def declined(seen: dict[str, int]) -> dict[str, int]:
    """Return why the peer declined, and how often."""
    return {name.partition(":")[2]: n for name, n in seen.items() if name.startswith("declined:") and n}


def live(*guests: Guest) -> None:
    for guest in guests:
        until(lambda guest=guest: state(guest) == "live", f"a channel at {guest.name}", 30)


@contextmanager
def loaded(*guests: Guest) -> Iterator[None]:
    """Have the module in these guests, and a channel that is live; afterwards nothing of it is left."""
    try:
        for guest in guests:
            load(guest)
        live(*guests)
        yield
    finally:
        for guest in guests:
            unload(guest)


def send(guest: Guest, size: int, count: int) -> None:
    guest.run(f"echo {count} {size} >$(echo {FILES})")


def check(receiver: Guest, sender: Guest, size: int, count: int) -> None:
    """Send, and see that each datagram arrives as it was."""
    before = counts(receiver), counts(sender)
    send(sender, size, count)
    until(lambda: counts(receiver)["received"] - before[0]["received"] >= count, f"{count} of {size}", 30)
    got, put = traffic.moved(before[0], counts(receiver)), traffic.moved(before[1], counts(sender))
    assert got["received"] == put["sent"] == count, (got, put)
    assert got["received_bytes"] == put["sent_bytes"] == size * count, (got, put)
    assert not got["bad"] + got["lost"] + got["violations"] + put["violations"], (got, put)


def test_datagrams_beside_sockets(ends: Ends) -> None:
    """Both clients carry what they carry, at once and both ways, by the same link."""
    guests = (ends.passive, ends.active)
    with traffic.measured(ends) as moved, loaded(*guests):
        for one, other in (guests, guests[::-1]):
            for size, count in ((0, 100), (1, 100), (4089, 100), (16384, 30)):
                check(one, other, size, count)
        before = [counts(guest) for guest in guests]
        some = "for i in $(seq 20); do for n in 12 1000 9000; do echo 20 $n >$file || exit 1; done; done"
        both = [guest.start(f"file=$(echo {FILES}); {some}") for guest in guests]
        ends.stream(size=4 * MIB, settle=60000)
        for sender in both:
            done = sender.wait(60)
            assert done.status == 0, done.stderr
        for guest, was in zip(guests, before, strict=True):
            until(
                lambda guest=guest, was=was: counts(guest)["received"] >= was["received"] + 1200,
                "all of it",
                30,
            )
            seen = traffic.moved(was, counts(guest))
            assert seen["sent"] == seen["received"] == 1200, seen
            assert seen["sent_bytes"] == seen["received_bytes"] == 400 * (12 + 1000 + 9000), seen
            assert not seen["bad"] + seen["lost"] + seen["violations"] + seen["opened"], seen
    assert moved.ring_share() > 0.9, moved.seen()


def test_reloaded_under_traffic(ends: Ends) -> None:
    """The client comes and goes while its peer sends. Sockets do not notice, and it goes on each time."""
    here, peer = ends.active, ends.passive
    again = f"""
        got() {{ sed -n 's/^received //p' {FILES}; }}
        for i in $(seq {RELOADS}); do
            modprobe -r {MODULE} && modprobe {MODULE} || exit 1
            for wait in $(seq 100); do [ "$(got)" -gt 20 ] && break; sleep 0.1; done
            [ "$(got)" -gt 20 ] && echo 20 3000 >$(echo {FILES}) || exit 1
            grep -E '^(bad|lost|violations) [^0]' {FILES} && exit 1
        done; exit 0"""
    with traffic.measured(ends) as moved, loaded(here, peer), ThreadPoolExecutor() as pool:
        sender = peer.start(f"while :; do echo 5 700 >$(echo {FILES}) || sleep 0.02; done 2>/dev/null")
        try:
            reloads = pool.submit(here.run, again, timeout=300)
            streams = 0
            while not reloads.done():
                ends.stream(size=4 * MIB, settle=60000)
                streams += 1
            reloads.result()
        finally:
            sender.kill()
        live(here, peer)
        seen = counts(peer)
        assert seen["opened"] == RELOADS + 1, seen
        assert seen["received"] == RELOADS * 20, seen
        assert not seen["bad"] + seen["lost"] + seen["violations"], seen
        check(here, peer, 700, 100)
    print(streams, seen, moved.seen())
    assert moved.ring_share() > 0.9, moved.seen()
    assert not traffic.reasons(moved.active) and not traffic.reasons(moved.passive), moved.seen()


def test_peer_without_the_service(ends: Ends) -> None:
    """Who opens is told by the other's core, by name; it goes on asking until the other has it, too."""
    told = []
    for guest in (ends.passive, ends.active):
        load(guest)
        guest.run("sleep 1.5")
        told.append(declined(counts(guest)))
        assert state(guest) in ("none", "opening")
        unload(guest)
    opener, other = (ends.passive, ends.active) if told[0] else (ends.active, ends.passive)
    assert sorted(map(list, told)) == [[], ["no-service"]], told
    load(opener)
    until(lambda: bool(declined(counts(opener))), "no answer", 30)
    with loaded(other):
        live(opener)
        check(opener, other, 100, 10)
        check(other, opener, 100, 10)
    unload(opener)


def test_peer_that_lies(ends: Ends) -> None:
    """A channel whose words cannot be true ends, is counted, and another follows. Nothing else ends."""
    liar, victim = ends.active, ends.passive
    with loaded(liar, victim):
        core = [traffic.counters(guest) for guest in (liar, victim)]
        for number in range(1, 4):
            liar.run(f"echo lie >$(echo {FILES})")
            until(lambda n=number: counts(victim)["opened"] == counts(liar)["opened"] == n + 1, "another", 30)
            assert counts(victim)["violations"] == number
            check(victim, liar, 700, 10)
        seen = [
            traffic.moved(was, traffic.counters(guest))
            for was, guest in zip(core, (liar, victim), strict=True)
        ]
        assert counts(liar)["violations"] == 0
    assert [end["violations"] for end in seen] == [0, 3], seen
    assert not any(end["links_down"] for end in seen), seen


def channels(guest: Guest) -> int:
    """Return how many channels a guest's core has, those included that it keeps for the peer."""
    return int(traffic.xway(guest, "show")["channels"])


@pytest.mark.parametrize("opens", [1, 0], ids=["opener", "other"])
def test_unloaded_while_the_peer_is_silent(ends: Ends, opens: int) -> None:
    """Nobody waits for a client that hangs. It still finds what was sent to it, and the link goes on."""
    guests = (ends.passive, ends.active)
    with loaded(*guests):
        gone, silent = sorted(guests, key=lambda guest: counts(guest)["opens"] != opens)
        before = [counts(silent), *(traffic.counters(guest) for guest in guests)]
        silent.run(f"echo silent >$(echo {FILES})")
        send(gone, 700, 10)
        unload(gone)
        assert channels(gone) == 1 and state(silent) == "live"
        # Who opens asks again each time it is loaded, and has no answer.
        load(gone)
        until(lambda: channels(gone) == 1 + opens, "OPEN", 30)
        unload(gone)
        load(gone)
        until(lambda: channels(gone) == 1 + 2 * opens, "another OPEN", 30)
        assert counts(silent)["received"] == before[0]["received"]
        silent.run(f"echo speak >$(echo {FILES})")
        live(gone)
        # The client that asked first is gone: its core closes the channel that it gets.
        until(lambda: channels(gone) == channels(silent) == 1, "all others closed", 30)
        live(gone, silent)
        seen = traffic.moved(before[0], counts(silent))
        assert seen["received"] == 10 and seen["received_bytes"] == 7000, seen
        assert not seen["bad"] + seen["lost"] + seen["violations"], seen
        check(gone, silent, 700, 10)
        check(silent, gone, 700, 10)
        for guest, was in zip(guests, before[1:], strict=True):
            now = traffic.moved(was, traffic.counters(guest))
            assert not now["violations"] + now["links_down"], now
    for guest in guests:
        traffic.settled(guest)


@pytest.mark.rig(type="pv", kernel="6.12", deep=True)
def test_answer_that_does_not_come(ends: Ends) -> None:
    """A peer that runs, and whose client hangs, loses the session, in order: sockets lose nothing by that."""
    guests = (ends.passive, ends.active)
    with loaded(*guests):
        asks, silent = sorted(guests, key=lambda guest: counts(guest)["opens"] != 1)
        streams = talk(ends, TALK_MOST)
        before = traffic.counters(asks)
        silent.run(f"echo silent >$(echo {FILES})")
        unload(asks)
        load(asks)
        until(lambda: traffic.moved(before, traffic.counters(asks))["links_down"] > 0, "the session's end")
        assert "has not answered an OPEN" in asks.run("dmesg").stdout
        live(*guests)
        until(lambda: traffic.by_rings(*guests), "the streams on the ring again")
        assert not traffic.moved(before, traffic.counters(asks))["violations"]
        enough(ends, *streams)
    for guest in guests:
        traffic.settled(guest)


@pytest.mark.rig(type="pv", kernel="6.12", deep=True)
def test_peer_destroyed(machine: Machine, ends: Ends) -> None:
    """The channel ends with its peer, in the midst of traffic, and comes back with the next."""
    gone, left = ends.passive, ends.active
    for guest in (gone, left):
        load(guest)
    live(gone, left)
    gone.start(f"while :; do echo 5 700 >$(echo {FILES}) || exit 1; done")
    until(lambda: counts(left)["received"] > 50, "traffic")
    sender = left.start(f"file=$(echo {FILES}); while echo 5 700 >$file; do :; done")
    machine.destroy_guest(gone.name)
    sender.wait(60)
    until(lambda: not linked(left) and not state(left), "the link and its channel gone", 60)
    traffic.settled(left)
    assert traffic.xway(left, "show")["unrevoked"] == 0
    machine.start_guest(gone.name)
    until(lambda: linked(left) and linked(gone), "the new link")
    load(gone)
    live(gone, left)
    check(left, gone, 700, 100)
    check(gone, left, 700, 100)
    for guest in (gone, left):
        unload(guest)
        traffic.settled(guest)
