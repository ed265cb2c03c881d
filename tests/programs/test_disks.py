"""File systems and disks over the network: sockets used inside the kernel."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench import disks
from tests.programs.way import MIB, Way, smbd

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]

# By the wire both ways: cp and cat would have the server copy.
COPY = "dd if=/tmp/m/file of=/tmp/m/back bs=1M status=none"


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


@contextmanager
def exported(way: Way, script: str, undo: str) -> Iterator[None]:
    """Have the kernel of the server's guest export a disk meanwhile."""
    way.file(8 * MIB, "/tmp/t/disk")
    disks.set_target(way.server, script, "/tmp/t/disk", 8 * MIB)
    try:
        yield
    finally:
        disks.set_target(way.server, undo)


def cifs_mount(way: Way) -> None:
    """Read and write what is shared as t on port 4450."""
    want = way.file(4 * MIB, "/tmp/t/s/file")
    way.get("modprobe cifs")
    share = f"mount -t cifs -o guest,port=4450,vers=3.0 //{way.host}/t"
    with mounted(way, share):
        with way.carries(8 * MIB):
            assert way.checksum("cat /tmp/m/file") == want
            way.get(COPY)
        way.outlives_module(COPY)
    assert way.server.run("sha256sum </tmp/t/s/back").stdout.split()[0] == want


def test_cifs_mount(way: Way) -> None:
    smbd(way)
    cifs_mount(way)


@pytest.mark.rig(kernel="6.12")
def test_ksmbd_with_cifs(way: Way) -> None:
    """The kernel at both ends. Linux 6.1 refuses the mount, by TCP, too."""
    for name in ("mountd", "control"):
        way.server.put(
            way.server.debian.archive.unpacked("ksmbd-tools") / "usr/libexec/ksmbd.tools",
            f"/tmp/t/ksmbd.{name}",
        )
    way.server.write(
        "/tmp/t/ksmbd.conf",
        "[global]\ntcp port = 4450\nmap to guest = bad user\nguest account = root\n"
        "[t]\npath = /tmp/t/s\nguest ok = yes\nread only = no\n",
    )
    way.server.run("modprobe ksmbd; mkdir -p /tmp/t/s; : >/tmp/t/users")
    way.serve("/tmp/t/ksmbd.mountd -n -c /tmp/t/ksmbd.conf -u /tmp/t/users", 4450)
    try:
        cifs_mount(way)
    finally:
        way.server.run("/tmp/t/ksmbd.control -s; pkill ksmbd; sleep 1; modprobe -r ksmbd", check=False)


def test_nfs_mount(way: Way) -> None:
    disks.export_nfs(way.server, "/tmp/t/n")
    try:
        want = way.file(4 * MIB, "/tmp/t/n/file")
        way.get("modprobe nfsv4")
        share = f"mount -t nfs4 -o vers=4.2 {way.host}:/"
        with mounted(way, share):
            with way.carries(8 * MIB):
                assert way.checksum("cat /tmp/m/file") == want
                way.get(COPY)
            way.outlives_module(COPY)
        assert way.server.run("sha256sum </tmp/t/n/back").stdout.split()[0] == want
    finally:
        way.server.run("rpc.nfsd 0; exportfs -au; umount /tmp/t/n", check=False)


def test_glusterfs(way: Way) -> None:
    """A file system in user space at both ends: one-shot epoll by many threads, large readv and writev."""
    way.server.run(
        "mkdir -p /tmp/t/g /var/lib/glusterd; mount -t tmpfs none /tmp/t/g -o size=64m; mkdir /tmp/t/g/brick"
    )
    try:
        way.serve("glusterd -N", 24007)
        gluster = "gluster --mode=script volume"
        way.server.run(
            f"{gluster} create t transport tcp {way.host}:/tmp/t/g/brick force && {gluster} start t",
            timeout=300,
        )
        want = way.file(16 * MIB, "/tmp/t/file", at_client=True)
        way.get("modprobe fuse")
        with way.carries(32 * MIB), mounted(way, f"mount -t glusterfs {way.host}:/t"):
            way.get("cp /tmp/t/file /tmp/m/file; sync /tmp/m/file; echo 3 >/proc/sys/vm/drop_caches")
            assert way.checksum("cat /tmp/m/file") == want
        assert way.server.run("sha256sum </tmp/t/g/brick/file").stdout.split()[0] == want
    finally:
        way.server.run(
            "gluster --mode=script volume stop t force; pkill gluster; sleep 2; pkill -9 gluster;"
            " umount /tmp/t/g; rm -rf /var/lib/glusterd",
            check=False,
        )


def test_nbd(way: Way) -> None:
    """The kernel's client calls the socket as a program would."""
    want = way.file(8 * MIB, "/tmp/t/disk")
    way.server.write("/tmp/t/nbd.conf", "[generic]\nport = 10810\n[t]\nexportname = /tmp/t/disk\n")
    way.serve("nbd-server -d -C /tmp/t/nbd.conf", 10810)
    way.get("modprobe nbd max_part=0")
    way.get(f"nbd-client {way.host} 10810 /dev/nbd0 -N t")
    try:
        with way.carries(12 * MIB):
            assert way.checksum("cat /dev/nbd0") == want
            verify(way, "/dev/nbd0")
        way.outlives_module("dd if=/dev/nbd0 of=/dev/nbd0 bs=1M iflag=direct oflag=direct status=none")
        assert way.checksum("cat /dev/nbd0") == way.server.run("sha256sum </tmp/t/disk").stdout.split()[0]
    finally:
        way.get("nbd-client -d /dev/nbd0")


def iscsi_disk(way: Way, lun: int) -> None:
    """Use a disk of the target; the kernel takes the program's socket over and reads TCP's queue."""
    with way.carries(MIB, "kernel-socket"):
        disk = disks.iscsi_login(way.client, way.host, lun)
        try:
            verify(way, disk)
        finally:
            disks.iscsi_logout(way.client)


def test_tgt_with_iscsi(way: Way) -> None:
    way.file(8 * MIB, "/tmp/t/disk")
    way.serve("tgtd -f --iscsi portal=0.0.0.0:3260", 3260)
    way.server.run(
        f"tgtadm --lld iscsi --op new --mode target --tid 1 -T {disks.TARGET};"
        " tgtadm --lld iscsi --op new --mode logicalunit --tid 1 --lun 1 -b /tmp/t/disk;"
        " tgtadm --lld iscsi --op bind --mode target --tid 1 -I ALL"
    )
    iscsi_disk(way, 1)


def test_lio_with_iscsi(way: Way) -> None:
    """The kernel at both ends."""
    with exported(way, disks.LIO, disks.NO_LIO):
        iscsi_disk(way, 0)


def test_nvme(way: Way) -> None:
    """NVMe over TCP: the kernel at both ends."""
    with exported(way, disks.NVMET, disks.NO_NVMET), way.carries(MIB, "kernel-socket"):
        disk = disks.nvme_connect(way.client, way.host)
        try:
            verify(way, disk)
        finally:
            disks.nvme_disconnect(way.client)
