"""What IPsec, a tunnel or TCP's own signatures protect does not go by ring, whenever they are set."""

import json
from collections.abc import Iterator

import pytest

from rig.guest import Guest
from tests import traffic

# Both ends, in two network namespaces that a veth joins. It tells what moved in each step.
STEPS = r"""
import json, re, socket, struct, subprocess, sys, time

NEAR, FAR, MODE, *TUNNEL = sys.argv[1:]
FAMILY = socket.AF_INET6 if ":" in FAR else socket.AF_INET
SERVER = '''
import socket, sys, threading
def serve(end):
    while text := end.recv(65536):
        end.sendall(text)
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server(("", 7), family=family)
print("listening", flush=True)
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]]).start()
'''
IP_XFRM_POLICY, IPV6_XFRM_POLICY = 17, 35

def sh(command):
    subprocess.run(["sh", "-ec", command], check=True)

def stats():
    told = json.loads(subprocess.run(["xway", "-j", "stats"], capture_output=True, check=True).stdout)
    return {**told["stats"], **told["fallbacks"]}

def talk(end, times=20):
    for _ in range(times):
        end.sendall(b"x" * 1000)
        assert len(end.recv(1000, socket.MSG_WAITALL)) == 1000
        time.sleep(0.005)

def ring(end):
    before = stats()["tx_ring_bytes"]
    talk(end)
    return stats()["tx_ring_bytes"] - before

def leaves(end):
    # The ring ends at once, but the peer has to do its part.
    until = time.monotonic() + 20
    while ring(end) and time.monotonic() < until:
        pass
    return ring(end) == 0

def counted(end, before):
    # Whether it leaves the ring because of IPsec, without a byte of its own: TCP might be stuck by then
    until = time.monotonic() + 20
    while stats()["ipsec"] == before and time.monotonic() < until:
        time.sleep(0.2)
    return stats()["ipsec"] > before

def connect(far=FAR):
    end = socket.create_connection((far, 7))
    talk(end, 40)
    return end

def policies(what):
    for place, src, dst in ("", NEAR, FAR), ("ip netns exec far ", FAR, NEAR):
        for way, a, b in ("out", src, dst), ("in", dst, src):
            words = f"{place}ip xfrm policy {what} src {a} dst {b} dir {way}"
            sh(words + (f" tmpl src {a} dst {b} proto esp mode transport" if what == "add" else ""))

def protected():
    # Bytes that ESP has carried here, both ways
    told = subprocess.run(["ip", "-s", "xfrm", "state"], capture_output=True, text=True, check=True).stdout
    return sum(map(int, re.findall(r"(\d+)\(bytes\), \d+\(packets\)", told)))

def socket_policy(end):
    # struct xfrm_userpolicy_info: any packet may leave as it is
    policy = struct.pack("=16s16sHHHHHBBB3xiI", bytes(16), bytes(16), 0, 0, 0, 0, FAMILY, 0, 0, 0, 0, 0)
    policy += struct.pack("=8Q4QII4B4x", *[2**64 - 1] * 4, *[0] * 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0)
    if FAMILY == socket.AF_INET:
        end.setsockopt(socket.SOL_IP, IP_XFRM_POLICY, policy)
    else:
        end.setsockopt(socket.IPPROTO_IPV6, IPV6_XFRM_POLICY, policy)

for spi, src, dst in (1, NEAR, FAR), (2, FAR, NEAR):
    for place in "", "ip netns exec far ":
        sh(f"{place}ip xfrm state add src {src} dst {dst} proto esp spi {spi} mode transport"
           f" auth 'hmac(sha256)' 0x{'ab' * 32} enc 'cbc(aes)' 0x{'cd' * 16}")
command = ["ip", "netns", "exec", "far", "python3", "-c", SERVER, FAR]
server = subprocess.Popen(command, stdout=subprocess.PIPE)
server.stdout.readline()
told = {}
try:
    first = connect()
    told["plain"] = ring(first)
    policies("add")
    told["leaves"] = leaves(first)
    told["open"] = stats()["ipsec"]
    esp = protected()
    second = connect()
    told["with_policy"] = ring(second)
    told["fresh"] = stats()["ipsec"] - told["open"]
    told["esp"] = protected() - esp
    policies("delete")
    third = connect()
    told["again_plain"] = ring(third)
    before = stats()["ipsec"]
    socket_policy(third)
    told["own_policy"] = ring(third)
    told["own"] = stats()["ipsec"] - before
    fourth = socket.socket(FAMILY)
    socket_policy(fourth)
    fourth.connect((FAR, 7))
    talk(fourth, 40)
    told["own_policy_before"] = ring(fourth)
    told["own_before"] = stats()["ipsec"] - before - told["own"]
    before = stats()["ipsec"]
    inside = (NEAR, FAR, TUNNEL[0], TUNNEL[1]), (FAR, NEAR, TUNNEL[1], TUNNEL[0])
    for place, (src, dst, a, b) in zip(("", "ip netns exec far "), inside):
        sh(f"{place}ip link add tunnel type {MODE} local {src} remote {dst}")
        sh(f"{place}ip link set tunnel up; {place}ip addr add {a} peer {b} dev tunnel")
    told["tunnel"] = ring(connect(TUNNEL[1]))
    told["by_tunnel"] = stats()["ipsec"] - before
    # A route that is added in mid-connection
    fifth = connect()
    told["plain_beside"] = ring(fifth)
    before = stats()["ipsec"]
    sh(f"ip route add {FAR} dev tunnel")
    told["rerouted"] = counted(fifth, before)
    sh(f"ip route del {FAR} dev tunnel")
    talk(fifth)
    # Policies that wait for keys and have packets wait, too
    sixth = connect()
    told["plain_last"] = ring(sixth)
    before = stats()["ipsec"]
    sh("sysctl -qw net.core.xfrm_larval_drop=0; ip xfrm state flush")
    policies("add")
    told["waits_for_keys"] = counted(sixth, before)
    policies("delete")
    talk(sixth)
    # A policy for what comes in alone, at either end, and then one for another port, which lets it pass
    for place, src, dst, port in ("", FAR, NEAR, "sport"), ("ip netns exec far ", NEAR, FAR, "dport"):
        seventh = connect()
        words = f"src {src} dst {dst} proto tcp {port}"
        told.setdefault("plain_inward", []).append(ring(seventh))
        before = stats()["ipsec"]
        sh(f"{place}ip xfrm policy add {words} 8 dir in tmpl src {src} dst {dst} proto esp mode transport")
        time.sleep(3)
        told.setdefault("other_port", []).append(stats()["ipsec"] == before and ring(seventh))
        sh(f"{place}ip xfrm policy add {words} 7 dir in tmpl src {src} dst {dst} proto esp mode transport")
        told.setdefault("inward", []).append(counted(seventh, before))
        sh(f"{place}ip xfrm policy flush")
        talk(seventh)
finally:
    server.kill()
print(json.dumps(told))
"""

# Both ends, a kind of tunnel between them, and the addresses of its ends
ENDS = {
    "ipv4": ("10.9.0.1", "10.9.0.2", "gre", "10.9.0.3", "10.9.0.4"),
    "ipv6": ("fd77::9:1", "fd77::9:2", "ip6tnl", "fd77::9:3", "fd77::9:4"),
}


@pytest.fixture
def two_networks(guest: Guest) -> Iterator[Guest]:
    traffic.unload(guest)
    inside = "ip -n far"
    commands = ["ip netns add far; ip link add v type veth peer name v netns far", f"{inside} link set lo up"]
    for near, far, *_ in ENDS.values():
        where = "dev v nodad" if ":" in near else "dev v"
        bits = 112 if ":" in near else 24
        commands += [f"ip addr add {near}/{bits} {where}", f"{inside} addr add {far}/{bits} {where}"]
    guest.run("; ".join([*commands, f"ip link set v up; {inside} link set v up"]))
    traffic.load(guest, "10.9.0.0/24", "fd77::9:0/112")
    yield guest
    guest.run(
        "ip link del tunnel; ip link del v; ip netns del far; ip xfrm policy flush; ip xfrm state flush",
        check=False,
    )
    traffic.unload(guest)


@pytest.mark.parametrize("family", ENDS)
@pytest.mark.rig(kernel="6.12")
@pytest.mark.rig(kernel="6.1")
@pytest.mark.rig(kernel="newest", deep=True)
def test_ipsec_policies_keep_connections_on_tcp(two_networks: Guest, family: str) -> None:
    """Policies of the network and of a socket, set before the connection and in its middle."""
    told = json.loads(two_networks.run(["python3", "-c", STEPS, *ENDS[family]], timeout=300).stdout)
    assert told["plain"] >= 20000 and told["again_plain"] >= 20000, told
    assert told["leaves"] and not told["with_policy"], told
    assert not told["own_policy"] and not told["own_policy_before"], told
    # Both ends are of this kernel, and each says why it stays.
    assert told["open"] >= 1 and told["fresh"] == 2 and told["own"] == told["own_before"] == 1, told
    assert told["esp"] > 2 * 40 * 1000, told
    assert not told["tunnel"] and told["by_tunnel"] == 2, told
    assert told["plain_beside"] >= 20000 and told["rerouted"], told
    assert told["plain_last"] >= 20000 and told["waits_for_keys"], told
    assert all(count >= 20000 for count in told["plain_inward"] + told["other_port"]), told
    assert told["inward"] == [True, True], told


SIGNED = r"""
import json, socket, struct, subprocess, sys
def stats():
    told = json.loads(subprocess.run(["xway", "-j", "stats"], capture_output=True, check=True).stdout)
    return {**told["stats"], **told["fallbacks"]}
TCP_MD5SIG, TCP_AO_ADD_KEY = 14, 38
def signing(end):
    # struct tcp_md5sig and struct tcp_ao_add begin with whose packets, and end with the key
    text = struct.pack("=H2x4s120x", socket.AF_INET, socket.inet_aton("127.0.0.1"))
    if sys.argv[1] == "md5":
        end.setsockopt(socket.IPPROTO_TCP, TCP_MD5SIG, text + struct.pack("=BBHI80s", 0, 0, 4, 0, b"key!"))
    else:
        text += struct.pack("=64siIHBBBBBB80s", b"hmac(sha1)", 0, 0, 0, 32, 1, 1, 12, 0, 4, b"key!")
        end.setsockopt(socket.IPPROTO_TCP, TCP_AO_ADD_KEY, text)
before = stats()
listener, active = socket.socket(), socket.socket()
for end in (listener, active):
    end.bind(("127.0.0.1", 0))
    signing(end)
listener.listen()
active.connect(listener.getsockname())
passive = listener.accept()[0]
for _ in range(100):
    for one, other in (active, passive), (passive, active):
        one.sendall(b"x" * 1000)
        assert len(other.recv(1000, socket.MSG_WAITALL)) == 1000
after = stats()
print(json.dumps({name: after[name] - before[name] for name in after}))
"""


@pytest.mark.rig(kernel="6.12")
@pytest.mark.rig(kernel="6.1")
def test_signed_connections_stay_on_tcp(guest: Guest) -> None:
    """TCP_MD5SIG before connect() and listen(), as BGP has it."""
    signed(guest, "md5")


@pytest.mark.rig(kernel="newest")
def test_connections_signed_by_tcp_ao_stay_on_tcp(guest: Guest) -> None:
    """The same by TCP-AO (RFC 5925), which Linux has from 6.7 on and Debian in its newest kernel."""
    signed(guest, "ao")


def signed(guest: Guest, how: str) -> None:
    """Have a connection whose packets are signed, and see it on TCP at both ends."""
    traffic.unload(guest)
    traffic.load(guest, "127.0.0.0/8")
    now = json.loads(guest.run(["python3", "-c", SIGNED, how]).stdout)
    assert now["socket-option"] == 2 and not now["attached"] and not now["tx_ring_bytes"], now
    traffic.unload(guest)


# As root of a user namespace of its own, which any program can be: in this network, and in one of its own
OWN_ROOT = "setpriv --reuid 65534 --regid 65534 --clear-groups unshare --map-root-user"
# The socket is made without privileges; whoever has them writes to it.
HANDED = """
import os, socket, struct
def ask(end, family, command, attribute=b"", flags=5):
    body = struct.pack("=BBH", command, 1, 0) + attribute
    end.send(struct.pack("=IHHII", 16 + len(body), family, flags, 1, 0) + body)
    return end.recv(65536)
def attribute(number, value):
    return struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)
def set_on(end):
    # CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, _ID
    told = ask(end, 16, 3, attribute(2, b"xway\\0"), 1)
    at = 20
    while struct.unpack_from("=HH", told, at)[1] != 1:
        at += -(-struct.unpack_from("=H", told, at)[0] // 4) * 4
    family = struct.unpack_from("=H", told, at + 4)[0]
    # XWAY_CMD_SET, XWAY_A_ON: 1, as it is
    told = ask(end, family, 2, attribute(2, b"\\1"))
    return struct.unpack_from("=i", told, 16)[0]
os.seteuid(65534)
end = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
os.seteuid(0)
print(set_on(end), set_on(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)))
"""


@pytest.mark.rig(kernel="6.12")
@pytest.mark.rig(kernel="6.1")
def test_root_of_its_own_namespace(guest: Guest) -> None:
    """A program changes nothing as root of its own namespaces, nor by who has privileges and its socket."""
    traffic.unload(guest)
    traffic.load(guest, "127.0.0.0/8")
    guest.run("sysctl -qw kernel.unprivileged_userns_clone=1", check=False)
    for place in ("", " --net"):
        for command in ("off", "local add 10.0.0.0/8", "local del 127.0.0.0/8"):
            tried = guest.run(f"{OWN_ROOT}{place} xway {command}", check=False)
            assert tried.status and "CAP_NET_ADMIN" in tried.stderr, tried
    for command in ("show", "peer", "stats", "conn --all"):
        tried = guest.run(f"{OWN_ROOT} --net xway -j {command}", check=False)
        assert "127.0.0.0" not in tried.stdout, tried
        assert command.startswith("conn") or "network namespace" in tried.stderr, tried
    assert traffic.xway(guest, "show")["on"]
    handed = guest.run(["python3", "-c", HANDED]).stdout.split()
    assert handed == ["-1", "0"], handed  # EPERM
    traffic.unload(guest)
