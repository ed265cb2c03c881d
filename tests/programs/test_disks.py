"""File systems and disks over the network: sockets used inside the kernel."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.programs.way import MIB, Way, smbd


@contextmanager
def mounted(way: Way, command: str) -> Iterator[None]:
    """Mount on /tmp/m in the client's guest meanwhile."""
    way.get(f"mkdir -p /tmp/m; {command} /tmp/m")
    try:
        yield
    finally:
        way.get("umount /tmp/m")


def verify(way: Way, disk: str) -> None:
    """Write blocks to a disk of the client's guest and read them again."""
    way.get(
        f"fio --name=t --filename={disk} --rw=randwrite --bs=16k --size=4m --verify=crc32c"
        " --ioengine=psync --direct=1 --output=/dev/null"
    )


def test_cifs_mount(way: Way) -> None:
    want = way.file(4 * MIB, "/tmp/t/s/file")
    smbd(way)
    way.get("modprobe cifs")
    share = f"mount -t cifs -o guest,port=4450,vers=3.0 //{way.host}/t"
    with way.carries(MIB, "kernel-socket"), mounted(way, share):
        assert way.checksum("cat /tmp/m/file") == want


def test_nfs_mount(way: Way) -> None:
    way.server.run("mkdir -p /tmp/t/n; mount -t tmpfs none /tmp/t/n -o size=16m")
    try:
        want = way.file(4 * MIB, "/tmp/t/n/file")
        way.server.run(
            "modprobe nfsd; mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd;"
            " mkdir -p /var/lib/nfs/v4recovery /run/rpc_pipefs;"
            " exportfs -o rw,no_root_squash,insecure,fsid=0 '*:/tmp/t/n';"
            " (rpc.mountd -N 3 -F & ) >/dev/null 2>&1; rpc.nfsd -N 3 2"
        )
        way.get("modprobe nfsv4")
        share = f"mount -t nfs4 -o vers=4.2 {way.host}:/"
        with way.carries(MIB, "socket-in-use"), mounted(way, share):
            assert way.checksum("cat /tmp/m/file") == want
    finally:
        way.server.run("rpc.nfsd 0; exportfs -au; umount /tmp/t/n", check=False)


def test_nbd(way: Way) -> None:
    """The kernel's client calls the socket as a program would."""
    want = way.file(8 * MIB, "/tmp/t/disk")
    way.server.write("/tmp/t/nbd.conf", "[generic]\nport = 10810\n[t]\nexportname = /tmp/t/disk\n")
    way.serve("nbd-server -d -C /tmp/t/nbd.conf", 10810)
    way.get("modprobe nbd max_part=0")
    with way.carries(12 * MIB):
        way.get(f"nbd-client {way.host} 10810 /dev/nbd0 -N t")
        try:
            assert way.checksum("cat /dev/nbd0") == want
            verify(way, "/dev/nbd0")
        finally:
            way.get("nbd-client -d /dev/nbd0")


def test_iscsi(way: Way) -> None:
    """The kernel takes the program's socket over and reads TCP's queue itself."""
    way.file(8 * MIB, "/tmp/t/disk")
    name = "iqn.2000-01.org.example:t"
    way.serve("tgtd -f --iscsi portal=0.0.0.0:3260", 3260)
    way.server.run(
        f"tgtadm --lld iscsi --op new --mode target --tid 1 -T {name};"
        " tgtadm --lld iscsi --op new --mode logicalunit --tid 1 --lun 1 -b /tmp/t/disk;"
        " tgtadm --lld iscsi --op bind --mode target --tid 1 -I ALL"
    )
    way.get("modprobe -a iscsi_tcp sd_mod; echo InitiatorName=iqn.2000-01.org.example:c >/tmp/t/name")
    way.get("mkdir -p /etc/iscsi; cp /tmp/t/name /etc/iscsi/initiatorname.iscsi")
    way.client.start("iscsid -f")
    with way.carries(MIB, "kernel-socket"):
        way.get(f"iscsiadm -m discovery -t sendtargets -p {way.host}; iscsiadm -m node -l")
        try:
            disk = way.get(
                "for i in $(seq 100); do ls /sys/class/iscsi_session/*/device/target*/*:1/block && exit 0;"
                " sleep 0.2; done 2>/dev/null; exit 1"
            )
            verify(way, f"/dev/{disk}")
        finally:
            way.get("iscsiadm -m node -u; iscsiadm -m node -o delete")
