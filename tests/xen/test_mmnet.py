"""MMNet between guests, by routes and in the shade of their vifs; the devices' counters are the proof."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bench.pair import EVERYTHING
from rig.guest import Guest
from rig.machine import Machine
from tests import traffic
from tests.mmnet import (
    ENOUGH,
    MIB,
    NET_ALONE,
    PACKETS,
    PORT,
    allow,
    allowed,
    endless,
    exchange,
    forge,
    hearing,
    loaded,
    net,
    own,
    serving,
    shaded,
    statistics,
    takes,
)
from tests.traffic import LINUX_7, Ends, linked, until

ADDRESSES = {"ipv4": ("10.9.0.1", "10.9.0.2"), "ipv6": ("fd09::1", "fd09::2")}

pytestmark = [
    pytest.mark.rig(type="pv", kernel="6.12"),
    pytest.mark.rig(type="pv", kernel="6.1", deep=True),
    pytest.mark.rig(type="pv", kernel="newest", deep=True),
    pytest.mark.rig(type="pvh", kernel="6.1", deep=True),
    pytest.mark.rig(type="pvh", kernel="newest", deep=True),
]


def opened(guest: Guest) -> bool:
    """Return whether the module has done all that it does by itself."""
    return any(one["vifs"] == "eth0" and one["state"] != "down" for one in net(guest))


@contextmanager
def joined(machine: Machine, ends: Ends, mtu: int = 65535) -> Iterator[None]:
    """Have mm0 in both guests, with addresses and a carrier; afterwards no more."""
    with allowed(machine.dom0, EVERYTHING):
        yield from joined_now(ends, mtu)


def joined_now(ends: Ends, mtu: int) -> Iterator[None]:
    guests = (ends.active, ends.passive)
    for guest in guests:
        until(lambda guest=guest: linked(guest), f"link of {guest.name}")
    with loaded(*guests):
        for number, guest in enumerate(guests):
            until(lambda guest=guest: opened(guest), f"device of {guest.name}")
            guest.run(
                f"ip link set mm0 down && ip link set mm0 mtu {mtu} up"
                f" && ip addr add {ADDRESSES['ipv4'][number]}/24 dev mm0"
                f" && ip addr add {ADDRESSES['ipv6'][number]}/64 dev mm0 nodad"
            )
        for guest in guests:
            until(lambda guest=guest: "LOWER_UP" in guest.run("ip link show mm0").stdout, "a carrier", 60)
        yield


@pytest.mark.parametrize("mtu", [65535, 1500])
def test_packets(machine: Machine, ends: Ends, mtu: int) -> None:
    """Datagrams and streams of both families, none by netfront; what TCP sends at once stays in one piece."""
    with joined(machine, ends, mtu):
        guests = (ends.active, ends.passive)
        before = [(statistics(guest, "mm0"), statistics(guest, "eth0")) for guest in guests]
        for family in ADDRESSES:
            exchange(ends.active, ends.passive, ADDRESSES[family][1])
        for guest, (mm_before, eth_before) in zip(guests, before, strict=True):
            mm = traffic.moved(mm_before, statistics(guest, "mm0"))
            eth = traffic.moved(eth_before, statistics(guest, "eth0"))
            print(guest.name, {name: n for name, n in mm.items() if n}, own(guest))
            for way in ("tx", "rx"):
                assert mm[f"{way}_bytes"] > 2 * 4 * MIB, mm
                assert mm[f"{way}_packets"] < mm[f"{way}_bytes"] / 4000, mm
                assert not mm[f"{way}_errors"] + mm[f"{way}_dropped"], mm
                assert eth[f"{way}_bytes"] < MIB, eth
            assert not own(guest)["violations"]


@LINUX_7
@pytest.mark.deep
def test_saved(machine: Machine, ends: Ends) -> None:
    """A stream by MMNet outlives save and restore of a guest, and goes on by the same devices."""
    address = ADDRESSES["ipv4"][1]
    with joined(machine, ends), serving(ends.passive, address):
        before = statistics(ends.active, "mm0")
        opened_before = [own(guest)["opened"] for guest in (ends.active, ends.passive)]
        client = ends.active.start(f"exec {PACKETS} check {address} {PORT} 24")
        until(lambda: statistics(ends.active, "mm0")["tx_bytes"] > before["tx_bytes"] + 4 * MIB, "bytes")
        machine.dom0.run(traffic.saved("g1"), timeout=400)
        done = client.wait(300)
        assert done.status == 0, done.stdout + done.stderr
        opened_since = [own(guest)["opened"] for guest in (ends.active, ends.passive)]
        assert opened_since == [count + 1 for count in opened_before]
        assert statistics(ends.active, "mm0")["tx_bytes"] - before["tx_bytes"] > 24 * MIB


def by_netfront(dom0: Guest) -> int:
    """Return the bytes that domain 0 got from all guests by their vifs."""
    return sum(map(int, dom0.run("cat /sys/class/net/vif*.0/statistics/rx_bytes").stdout.split()))


def test_shade(machine: Machine, ends: Ends) -> None:
    """Datagrams, streams and pings to the peer's own addresses go by shared memory, counted as the vif's."""
    guests = (ends.active, ends.passive)
    # Sockets are not allowed after the end of MMNet, or the stream might go by a ring and not by netfront.
    with allowed(machine.dom0, NET_ALONE):
        with shaded(machine, ends):
            for guest in guests:
                # Else multicasts, which the other end drops, might go there.
                seen = guest.run("ip -6 addr show dev mm0; ip -6 route show table all dev mm0").stdout
                assert "fe80" not in seen and "ff00" not in seen, seen
            before = [(statistics(guest, "mm0"), statistics(guest, "eth0")) for guest in guests]
            bridge = by_netfront(machine.dom0)
            for address in (ends.passive.ip4, ends.passive.ip6):
                exchange(ends.active, ends.passive, address)
                ends.active.run(f"ping -c 3 -i 0.2 -s 4000 {address}")
            assert by_netfront(machine.dom0) - bridge < MIB
            for guest, (mm_before, eth_before) in zip(guests, before, strict=True):
                mm = traffic.moved(mm_before, statistics(guest, "mm0"))
                eth = traffic.moved(eth_before, statistics(guest, "eth0"))
                for way in ("tx", "rx"):
                    assert mm[f"{way}_bytes"] > 2 * 4 * MIB, mm
                    assert not mm[f"{way}_errors"] + mm[f"{way}_dropped"], mm
                    assert eth[f"{way}_bytes"] >= mm[f"{way}_bytes"] * 0.99, (eth, mm)
            # A vif that is taken down hears nothing, and what goes there takes the usual way again.
            ends.passive.run(
                "sysctl -qw net.ipv6.conf.eth0.keep_addr_on_down=1"
                " && ip link set eth0 down && sleep 1 && ip link set eth0 up"
            )
            for address in (ends.passive.ip4, ends.passive.ip6):
                exchange(ends.active, ends.passive, address, 1)
        bridge = by_netfront(machine.dom0)
        exchange(ends.active, ends.passive, ends.passive.ip4, 1)
        assert by_netfront(machine.dom0) - bridge > 4 * MIB


def test_forged(machine: Machine, ends: Ends) -> None:
    """What has a tag, or a source that domain 0 has not given to the sender, does not come in by the vif."""
    active, passive = (
        guest.read("/sys/class/net/eth0/address").strip() for guest in (ends.active, ends.passive)
    )
    with shaded(machine, ends), hearing(ends.passive, "eth0") as heard:
        received, dropped = statistics(ends.passive, "mm0")["rx_packets"], own(ends.passive)["rx_no_pair"]
        forge(
            ends.active,
            (
                (passive, "00:16:3e:12:34:56", ""),
                (passive, passive, ""),
                (passive, active, "81000005"),
                (passive, active, "88a80005"),
                (passive, active, ""),
            ),
        )
        until(lambda: active in heard(), "the frame of the true source")
        assert statistics(ends.passive, "mm0")["rx_packets"] - received >= 5
        assert own(ends.passive)["rx_no_pair"] - dropped >= 4
        assert heard() == [active]


# Nobody answers that no program has the port.
QUIET = """table ip quiet {
    chain in { type filter hook input priority 0; udp dport 9 drop; }
}"""
NUMBERED = """import os, socket, sys, time
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "send":
    n = 0
    while not os.path.exists(sys.argv[3]):
        end.sendto(n.to_bytes(4, "big"), (sys.argv[2], 9))
        n += 1
        time.sleep(0.001)
    print(n)
else:
    end.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    end.bind((sys.argv[2], 9))
    seen = set()
    try:
        while True:
            seen.add(end.recv(100))
            end.settimeout(5)
    except TimeoutError:
        print(len(seen))
"""
BURST = """import socket, sys, time
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2])):
    end.sendto(bytes(100), (sys.argv[1], 9))
    time.sleep(0.0001)
"""


def test_coalesced(machine: Machine, ends: Ends) -> None:
    """More packets share an event if the reader waits for them, and none is lost; DIM may choose how long."""

    def events() -> float:
        before = own(ends.active)
        ends.active.run(["python3", "/tmp/burst.py", ends.passive.ip4, "3000"])
        moved = traffic.moved(before, own(ends.active))
        assert moved["tx_packets"] >= 3000, moved
        return moved["tx_events"] / moved["tx_packets"]

    guests = (ends.active, ends.passive)
    with shaded(machine, ends):
        ends.active.write("/tmp/burst.py", BURST)
        ends.passive.run("nft -f -", stdin=QUIET.encode())
        try:
            found = {}
            for words in ("adaptive-rx off rx-usecs 0", "rx-usecs 1000", "adaptive-rx on"):
                for guest in guests:
                    guest.run(f"ethtool -C mm0 {words}")
                found[words] = events()
                exchange(ends.active, ends.passive, ends.passive.ip4, 1)
            print(found)
            assert found["rx-usecs 1000"] < found["adaptive-rx off rx-usecs 0"] / 2, found
            assert "Adaptive RX: on" in ends.passive.run("ethtool -c mm0").stdout
            done = ends.active.run("ethtool -C mm0 rx-usecs 1001", check=False)
            assert done.status and "rx-usecs can be 0 to 1000" in done.stderr, done
            assert not own(ends.passive)["violations"] + own(ends.active)["violations"]
        finally:
            ends.passive.run("nft delete table ip quiet")


def rings(guest: Guest) -> tuple[int, int]:
    """Return the KiB of the rings of mm0 as ethtool shows them: to the peer and from it."""
    now = guest.run("ethtool -g mm0").stdout.partition("Current hardware settings:")[2]
    found = dict(line.split(":") for line in now.splitlines() if re.match(r"(TX|RX):\s+\d", line))
    return int(found["TX"]), int(found["RX"])


def test_rings(machine: Machine, ends: Ends) -> None:
    """A ring gets another size at the end that writes it; nonsense is named and changes nothing."""
    with shaded(machine, ends):
        assert rings(ends.active) == rings(ends.passive) == (512, 512)
        assert re.search(r"Combined:\s+1\b", ends.active.run("ethtool -l mm0").stdout)
        opened = own(ends.active)["opened"]
        for words, complaint in (
            ("tx 384", "power of two"),
            ("tx 64", "power of two"),
            ("rx 256", "the peer's"),
        ):
            done = ends.active.run(f"ethtool -G mm0 {words}", check=False)
            assert done.status and complaint in done.stderr, done
        assert rings(ends.active) == (512, 512) and own(ends.active)["opened"] == opened
        ends.active.run("ethtool -G mm0 tx 128")
        until(lambda: rings(ends.active) == (128, 512), "the smaller ring")
        until(lambda: takes(ends.active) and takes(ends.passive), "mm0 in the shade of eth0")
        assert rings(ends.passive) == (512, 128) and own(ends.active)["opened"] == opened + 1
        ends.active.run("ethtool -C mm0 rx-usecs 50")
        shown = net(ends.active)[0]
        assert [shown[name] for name in ("ring_kib", "peer_ring_kib", "rx_usecs")] == [128, 512, 50], shown
        told = ends.active.run("xway net").stdout
        assert "rings: 128 KiB to the peer, 512 KiB from it; waits 50 us for more packets\n" in told, told
        ends.active.run("ethtool -C mm0 rx-usecs 0")
        before = statistics(ends.active, "mm0")
        exchange(ends.active, ends.passive, ends.passive.ip4, 1)
        assert statistics(ends.active, "mm0")["tx_bytes"] - before["tx_bytes"] > MIB


RULE = 'SUBSYSTEM=="net", ACTION=="add", ATTR{{ifalias}}=="{}", NAME="db"'


def test_name(machine: Machine, ends: Ends) -> None:
    """A rule of udev's, made as the guide has it, names the device by its peer, and it stays in use."""
    guest = ends.active
    with allowed(machine.dom0, NET_ALONE):
        with loaded(guest):
            until(lambda: bool(net(guest)), "the device")
            peer = guest.run("cat /sys/class/net/mm0/ifalias").stdout.strip()
        guest.write("/etc/udev/rules.d/70-mmnet.rules", RULE.format(peer) + "\n")
        guest.run("/usr/lib/systemd/systemd-udevd --daemon")
        try:
            with loaded(guest, ends.passive):
                until(lambda: [one["device"] for one in net(guest)] == ["db"], "the name")
                until(lambda: takes(guest) and takes(ends.passive), "db in the shade of eth0")
                before = statistics(guest, "db")
                exchange(guest, ends.passive, ends.passive.ip4, 1)
                assert traffic.moved(before, statistics(guest, "db"))["tx_bytes"] > MIB
        finally:
            guest.run("pkill -x systemd-udevd; rm /etc/udev/rules.d/70-mmnet.rules")


def test_nonsense_in_xenstore(machine: Machine, ends: Ends) -> None:
    """What names no pair of interfaces is named in the log, and changes nothing."""
    dom0, guest = machine.dom0, ends.active
    here, there = (dom0.run(["xl", "domid", one.name]).stdout.strip() for one in (guest, ends.passive))
    node = f"/local/domain/{here}/xway/net/{there}"
    with shaded(machine, ends):
        good = dom0.run(["xenstore-read", node]).stdout.strip()
        for bad in ("0", f"0 * 99 * {good}", f"{good} 0 00:16:3e:00:00:01 0"):
            guest.run("dmesg -C")
            dom0.run(["xenstore-write", node, bad])
            until(lambda: "names no pair" in guest.run("dmesg").stdout, f"a line about {bad}")
            assert takes(guest), bad
        dom0.run(["xenstore-write", node, good])
        exchange(guest, ends.passive, ends.passive.ip4, 1)
        assert takes(guest)


@contextmanager
def numbered(
    source: Guest, sink: Guest, address: str | None = None
) -> Iterator[Callable[[], tuple[int, int]]]:
    """Send numbered datagrams, slowly; give what ends that and tells how many were sent, and have come."""
    address = address or sink.ip4
    for guest in (source, sink):
        guest.write("/tmp/numbered.py", NUMBERED)
    receiver = sink.start(f"exec python3 /tmp/numbered.py receive {address}")
    sink.run("for i in $(seq 100); do ss -Hlun sport = :9 | grep -q . && exit 0; sleep 0.1; done; exit 1")
    source.run(f"rm -f {ENOUGH}-numbered")
    sender = source.start(f"exec python3 /tmp/numbered.py send {address} {ENOUGH}-numbered")

    def end() -> tuple[int, int]:
        source.run(f"touch {ENOUGH}-numbered")
        sent = sender.wait(60)
        assert sent.status == 0, sent.stderr
        came = receiver.wait(60)
        assert came.status == 0, came.stderr
        return int(sent.stdout), int(came.stdout)

    try:
        yield end
    finally:
        receiver.kill()
        sender.kill()


def test_no_datagram_is_lost(machine: Machine, ends: Ends) -> None:
    """What was sent as packets begin and cease to go by shared memory arrives, by one way or the other."""
    guests = (ends.active, ends.passive)
    lost = {}
    with shaded(machine, ends):
        back = sum(own(guest)["tx_back"] for guest in guests)
        with numbered(*guests) as there, numbered(*reversed(guests)) as here:
            for _ in range(5):
                ends.active.run("ip link set mm0 down")
                until(lambda: not takes(ends.passive), "the end of the channel")
                ends.active.run("ip link set mm0 up")
                until(lambda: takes(ends.active) and takes(ends.passive), "a channel")
            back = sum(own(guest)["tx_back"] for guest in guests) - back
            for _ in range(3):
                ends.active.run("modprobe -r mmnet")
                until(lambda: not takes(ends.passive), "the end of the channel")
                ends.active.run("modprobe mmnet")
                until(lambda: takes(ends.active) and takes(ends.passive), "mm0 in the shade of eth0")
                allow(machine.dom0, "")
                until(lambda: not net(ends.active) and not net(ends.passive), "the end of the devices")
                allow(machine.dom0, NET_ALONE)
                until(lambda: takes(ends.active) and takes(ends.passive), "mm0 in the shade of eth0")
            by_mm = [statistics(guest, "mm0")["tx_packets"] for guest in guests]
            for name, end in (("there", there), ("here", here)):
                sent, came = end()
                lost[name] = sent - came
                assert sent > 1000, sent
    print(lost, by_mm, back)
    assert not any(lost.values()), lost
    assert min(by_mm) > 10, by_mm


SECOND = ("10.78.0.1", "10.78.0.2")
SECOND_MAC = "00:16:3e:77:02:01"


@contextmanager
def second_vif(dom0: Guest, guest: Guest, peer: Guest) -> Iterator[None]:
    """Plug another interface into a guest, from which it reaches another address of its peer's eth0."""
    dom0.run(f"xl network-attach {guest.name} mac={SECOND_MAC} bridge=xenbr0 script=/rig/vif-bridge")
    try:
        until(lambda: "eth1" in guest.run("ls /sys/class/net").stdout, "eth1")
        guest.run(f"ip addr add {SECOND[0]}/24 dev eth1 && ip link set eth1 up")
        peer.run(f"ip addr add {SECOND[1]}/24 dev eth0")
        guest.run(f"ping -c 1 -w 20 {SECOND[1]}")
        yield
    finally:
        peer.run(f"ip addr del {SECOND[1]}/24 dev eth0", check=False)
        dom0.run(f"xl network-detach {guest.name} {SECOND_MAC}")


@pytest.mark.deep
def test_another_pair(machine: Machine, ends: Ends) -> None:
    """An interface is plugged in, and the peer hears of it late: what it sends goes by netfront then."""
    dom0, guest, peer = machine.dom0, ends.active, ends.passive
    here, there = (dom0.run(["xl", "domid", one.name]).stdout.strip() for one in (guest, peer))
    nodes = (f"/local/domain/{here}/xway/net/{there}", f"/local/domain/{there}/xway/net/{here}")

    def pairs() -> list[list[str]]:
        return [dom0.run(["xenstore-read", node]).stdout.split() for node in nodes]

    def vifs() -> str:
        return str(net(guest)[0]["vifs"])

    with shaded(machine, ends), second_vif(dom0, guest, peer):
        until(lambda: [len(words) for words in pairs()] == [8, 8], "both pairs")
        until(lambda: vifs() == "eth0 eth1", "both interfaces")
        full = [" ".join(words) for words in pairs()]
        # The one pair that there was before: of this guest's vif 0, as the peer has it, too
        first = [
            words[:4] if words[place] == "0" else words[4:]
            for place, words in zip((0, 2), pairs(), strict=True)
        ]
        for node, words in zip(nodes, first, strict=True):
            dom0.run(["xenstore-write", node, " ".join(words)])
        until(lambda: vifs() == "eth0", "one interface")
        with numbered(guest, peer, SECOND[1]) as end:
            guest.run("sleep 1")
            before = statistics(guest, "mm0")["tx_packets"]
            dom0.run(
                f"xenstore-write {nodes[0]} '{full[0]}'; sleep 0.3; xenstore-write {nodes[1]} '{full[1]}'"
            )
            until(lambda: statistics(guest, "mm0")["tx_packets"] > before + 500, "datagrams by shared memory")
            sent, came = end()
        assert came == sent


@LINUX_7
def test_shade_comes_and_goes(machine: Machine, ends: Ends) -> None:
    """A stream by the vif's address outlives the module's end, its return, save, and a change of policy."""

    def shared() -> int:
        return statistics(ends.active, "mm0")["tx_bytes"]

    def bridged() -> int:
        return by_netfront(machine.dom0)

    with shaded(machine, ends):
        sent = statistics(ends.active, "eth0")["tx_bytes"]
        with endless(ends.active, ends.passive, ends.passive.ip4) as goes_on:
            goes_on(shared)
            ends.active.run("ip link set mm0 down")
            goes_on(bridged)
            ends.active.run("ip link set mm0 up")
            goes_on(shared)
            ends.active.run("modprobe -r mmnet")
            goes_on(bridged)
            ends.active.run("modprobe mmnet")
            until(lambda: takes(ends.active), "mm0 in the shade of eth0")
            goes_on(shared)
            allow(machine.dom0, "")
            until(lambda: not net(ends.active), "the end of the device")
            goes_on(bridged)
            allow(machine.dom0, NET_ALONE)
            until(lambda: takes(ends.active), "mm0 in the shade of eth0")
            goes_on(shared)
            machine.dom0.run(traffic.saved("g1"), timeout=400)
            until(lambda: takes(ends.active) and takes(ends.passive), "mm0 in the shade of eth0")
            goes_on(shared)
            if machine.config.type == "pvh":  # PV guests cannot: see test_life.py
                machine.dom0.run(traffic.migrated("g1"), timeout=400)
                until(lambda: takes(ends.active) and takes(ends.passive), "mm0 in the shade of eth0")
                goes_on(shared)
        assert statistics(ends.active, "eth0")["tx_bytes"] - sent > 8 * MIB


def test_peer_dies(machine: Machine, ends: Ends) -> None:
    """Nothing is left of a peer that ends with packets on their way to it, and it comes again."""
    guest, name = ends.active, ends.passive.name
    with shaded(machine, ends):
        guest.write("/tmp/burst.py", BURST)
        before = own(guest)["tx_packets"]
        burst = guest.start(f"exec python3 /tmp/burst.py {ends.passive.ip4} 1000000")
        until(lambda: own(guest)["tx_packets"] > before + 1000, "packets")
        machine.destroy_guest(name)
        until(lambda: not takes(guest), "the end of the channel")
        burst.kill()
        until(lambda: not traffic.xway(guest, "show")["pages_used"], "all pages given up")
        assert not traffic.xway(guest, "show")["unrevoked"]
        machine.start_guest(name)
        ends.passive.put(traffic.TOP / "tests/sock/packets.py", PACKETS, mode=0o755)
        ends.passive.run("modprobe mmnet")
        until(lambda: takes(guest) and takes(ends.passive), "mm0 in the shade of eth0")
        # It is another peer: each domain has a UUID of its own.
        (device,) = (one["device"] for one in net(guest) if one["state"] == "up")
        sent = statistics(guest, device)["tx_bytes"]
        exchange(guest, ends.passive, ends.passive.ip4, 1)
        assert statistics(guest, device)["tx_bytes"] - sent > MIB


COUNTED = """table ip counted {
    chain in { type filter hook input priority 0; udp dport 9 jump heard; }
    chain heard { iifname "eth0" counter drop; iifname != "eth0" counter drop; }
    chain out { type filter hook output priority 0; oifname "eth0" udp dport 9 counter; }
}"""
# What goes out by an interface and what comes in, for some seconds
CAPTURE = """import collections, socket, sys, time
ends = [socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)) for _ in sys.argv[2:]]
for end, name in zip(ends, sys.argv[2:]):
    end.bind((name, 3))
    end.settimeout(0.1)
print("ready", flush=True)
seen, until = collections.Counter(), time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    for end, name in zip(ends, sys.argv[2:]):
        try:
            content, (_, protocol, kind, _, _) = end.recvfrom(2048)
        except TimeoutError:
            continue
        if protocol == 0x800 and content[9] == 1:  # ICMP
            seen[name + (" out" if kind == socket.PACKET_OUTGOING else " in")] += 1
for name, count in seen.items():
    print(f"{name}: {count}")
"""


def test_rules_tags_and_captures(machine: Machine, ends: Ends) -> None:
    """Rules by interface, captures and VLANs of the guests' own are as if packets went by the vif."""
    guests = (ends.active, ends.passive)
    with shaded(machine, ends):
        for number, guest in enumerate(guests, 1):
            guest.run(
                "ip link add link eth0 name v5 type vlan id 5"
                f" && ip addr add 10.5.0.{number}/24 dev v5 && ip link set v5 up"
            )
            guest.run("nft -f -", stdin=COUNTED.encode())
            guest.write("/tmp/burst.py", BURST)
            guest.write("/tmp/capture.py", CAPTURE)
        try:
            sent = own(ends.active)["tx_packets"]
            assert "3 received" in ends.active.run("ping -c 3 -i 0.2 -W 5 10.5.0.2").stdout
            # A tagged packet goes by netfront.
            tagged = own(ends.active)["tx_packets"] - sent
            sent = own(ends.active)["tx_packets"]
            ends.active.run(["python3", "/tmp/burst.py", ends.passive.ip4, "200"])
            assert own(ends.active)["tx_packets"] - sent >= 200 and tagged < 3, tagged
            for guest, chain, numbers in ((ends.passive, "heard", [200, 0]), (ends.active, "out", [200])):
                listed = guest.run(f"nft list chain ip counted {chain}").stdout
                assert [int(number) for number in re.findall(r"packets (\d+)", listed)] == numbers, listed
            capture = ends.active.start("exec python3 /tmp/capture.py 8 mm0 eth0")
            until(lambda: "ready" in capture.stdout(), "a capture")
            ends.active.run(f"ping -c 5 -i 0.2 -W 5 {ends.passive.ip4}")
            seen = dict(line.split(": ") for line in capture.wait(60).stdout.splitlines()[1:])
            assert seen == dict.fromkeys(("mm0 out", "mm0 in", "eth0 out", "eth0 in"), "5"), seen
        finally:
            for guest in guests:
                guest.run("nft delete table ip counted; ip link del v5", check=False)


def test_rings_give_back(machine: Machine, ends: Ends) -> None:
    """A connection that leaves its ring goes on by MMNet, not by netfront."""
    guests = (ends.active, ends.passive)

    def ring() -> int:
        return traffic.counters(ends.active)["tx_ring_bytes"]

    def shared() -> int:
        return statistics(ends.active, "mm0")["tx_bytes"]

    with allowed(machine.dom0, EVERYTHING), loaded(*guests):
        for guest in guests:
            until(lambda guest=guest: linked(guest) and takes(guest), f"mm0 of {guest.name}")
        with endless(ends.active, ends.passive, ends.passive.ip4) as goes_on:
            goes_on(ring)
            bridge = by_netfront(machine.dom0)
            ends.active.run("xway off --wait 60")
            goes_on(shared)
            ends.active.run("xway on")
            goes_on(ring)
            assert by_netfront(machine.dom0) - bridge < MIB


# Attaches a program that lets all pass, until it is killed: 2 is the generic mode, 4 the driver's
XDP = """import ctypes, os, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def bpf(command, *numbers):
    attributes = ctypes.create_string_buffer(b"".join(numbers).ljust(128, bytes(1)))
    found = libc.syscall(321, command, attributes, 128)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0))  # return XDP_PASS
words = ctypes.create_string_buffer(b"GPL")
program = bpf(5, struct.pack("<IIQQ", 6, 2, ctypes.addressof(code), ctypes.addressof(words)))
bpf(28, struct.pack("<IIII", program, socket.if_nametoindex(sys.argv[1]), 37, int(sys.argv[2])))
print("attached", flush=True)
time.sleep(100000)
"""


@contextmanager
def started_anew(machine: Machine, guest: Guest) -> Iterator[None]:
    """Give the domain another kernel in the end.

    Once a program was attached in the driver's mode, netfront asks for room before each packet whenever it
    connects, as after a restore (netfront_xdp_enabled in drivers/net/xen-netfront.c of Linux 6.12, which
    nothing clears); and netback may miss that the program has gone. But without a program netfront drops all
    that has such room and is longer than a page: whatever sends much to that guest crawls from then on.
    """
    try:
        yield
    finally:
        machine.destroy_guest(guest.name)
        machine.start_guest(guest.name)
        until(lambda: linked(guest), f"link of {guest.name}")


def attached_and_not(ends: Ends, carried: Callable[[], tuple[int, int]]) -> None:
    """Attach programs by turns, see which way packets go, and that none is lost."""
    guest = ends.passive

    @contextmanager
    def attached(mode: int) -> Iterator[None]:
        program = guest.start(f"exec python3 /tmp/xdp.py eth0 {mode}")
        until(lambda: "attached" in program.stdout(), f"a program in mode {mode}", 60)
        try:
            yield
        finally:
            program.kill()

    for mode, shared in ((2, True), (4, False)):
        with attached(mode):
            guest.run("sleep 1")
            by_mm, by_bridge = carried()
        assert by_mm > MIB if shared else by_mm < MIB / 4, (mode, by_mm, by_bridge)
        assert by_bridge < MIB if shared else by_bridge > 2 * MIB, (mode, by_mm, by_bridge)
    until(lambda: carried()[0] > MIB, "shared memory again")

    def by_mm0() -> int:
        return statistics(ends.active, "mm0")["tx_packets"]

    with numbered(ends.active, guest) as end:
        for _ in range(3):
            before = by_mm0()
            until(lambda before=before: by_mm0() > before + 100, "datagrams by shared memory")
            with attached(4):
                guest.run("sleep 0.5")
                before = by_mm0()
                guest.run("sleep 0.5")
                assert by_mm0() < before + 10
        sent, came = end()
    assert came == sent


@pytest.mark.deep
def test_xdp(machine: Machine, ends: Ends) -> None:
    """With a program in the generic mode packets go by shared memory, with one in the driver's mode none."""
    guest = ends.passive
    guest.write("/tmp/xdp.py", XDP)

    def carried() -> tuple[int, int]:
        before, bridge = statistics(ends.active, "mm0")["tx_bytes"], by_netfront(machine.dom0)
        exchange(ends.active, guest, guest.ip4, 1)
        return statistics(ends.active, "mm0")["tx_bytes"] - before, by_netfront(machine.dom0) - bridge

    with started_anew(machine, guest), shaded(machine, ends):
        attached_and_not(ends, carried)
