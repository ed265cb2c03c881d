"""File systems and disks over the network: sockets used inside the kernel."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench import packets
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
def configured(way: Way, script: str, undo: str) -> Iterator[None]:
    """Have the kernel of the server's guest export something meanwhile: with its folders of settings."""
    place = "/sys/kernel/config"
    begin = f"modprobe configfs; mountpoint -q {place} || mount -t configfs none {place}; set -e"
    way.server.run(f"{begin}\n{script}")
    try:
        yield
    finally:
        way.server.run(f"cd /sys/kernel/config; {undo}", check=False)


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
    packets.export(way.server, "/tmp/t/n")
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
    with way.carries(12 * MIB):
        way.get(f"nbd-client {way.host} 10810 /dev/nbd0 -N t")
        try:
            assert way.checksum("cat /dev/nbd0") == want
            verify(way, "/dev/nbd0")
        finally:
            way.get("nbd-client -d /dev/nbd0")


ISCSI = "iqn.2000-01.org.example:t"


def iscsi_disk(way: Way, lun: int) -> None:
    """Use a disk of the target ISCSI; the kernel takes the program's socket over and reads TCP's queue."""
    way.get("modprobe -a iscsi_tcp sd_mod; echo InitiatorName=iqn.2000-01.org.example:c >/tmp/t/name")
    way.get("mkdir -p /etc/iscsi; cp /tmp/t/name /etc/iscsi/initiatorname.iscsi")
    way.client.start("iscsid -f")
    with way.carries(MIB, "kernel-socket"):
        way.get(f"iscsiadm -m discovery -t sendtargets -p {way.host}; iscsiadm -m node -l")
        try:
            disk = way.get(
                "for i in $(seq 100); do"
                f" ls /sys/class/iscsi_session/*/device/target*/*:{lun}/block && exit 0;"
                " sleep 0.2; done 2>/dev/null; exit 1"
            )
            verify(way, f"/dev/{disk}")
        finally:
            way.get("iscsiadm -m node -u; iscsiadm -m node -o delete")


def test_tgt_with_iscsi(way: Way) -> None:
    way.file(8 * MIB, "/tmp/t/disk")
    way.serve("tgtd -f --iscsi portal=0.0.0.0:3260", 3260)
    way.server.run(
        f"tgtadm --lld iscsi --op new --mode target --tid 1 -T {ISCSI};"
        " tgtadm --lld iscsi --op new --mode logicalunit --tid 1 --lun 1 -b /tmp/t/disk;"
        " tgtadm --lld iscsi --op bind --mode target --tid 1 -I ALL"
    )
    iscsi_disk(way, 1)


def test_lio_with_iscsi(way: Way) -> None:
    """The kernel at both ends."""
    way.file(8 * MIB, "/tmp/t/disk")
    disk, target = "core/fileio_0/t", f"iscsi/{ISCSI}"
    with configured(
        way,
        f"""modprobe -a target_core_mod target_core_file iscsi_target_mod; cd /sys/kernel/config/target
            mkdir -p {disk} iscsi; mkdir {target} {target}/tpgt_1; cd {target}/tpgt_1
            echo fd_dev_name=/tmp/t/disk,fd_dev_size={8 * MIB} >../../../{disk}/control
            echo 1 >../../../{disk}/enable
            mkdir np/{way.host}:3260 lun/lun_0; ln -s ../../../{disk} lun/lun_0/t
            echo 0 >attrib/authentication; echo 0 >attrib/demo_mode_write_protect
            echo 1 >attrib/generate_node_acls; echo 1 >attrib/cache_dynamic_acls; echo 1 >enable""",
        f"""cd target/{target}; cd tpgt_1; echo 0 >enable; rm lun/lun_0/t; rmdir lun/lun_0 np/*
            cd ../../..; rmdir {target}/tpgt_1 {target} iscsi {disk} core/fileio_0""",
    ):
        iscsi_disk(way, 0)


def test_nvme(way: Way) -> None:
    """NVMe over TCP: the kernel at both ends."""
    way.file(8 * MIB, "/tmp/t/disk")
    name = "nqn.2000-01.org.example:t"
    with (
        configured(
            way,
            f"""modprobe -a nvmet nvmet-tcp; cd /sys/kernel/config/nvmet
            mkdir subsystems/{name} subsystems/{name}/namespaces/1 ports/1; cd subsystems/{name}
            echo 1 >attr_allow_any_host; echo -n /tmp/t/disk >namespaces/1/device_path
            echo 1 >namespaces/1/buffered_io; echo 1 >namespaces/1/enable; cd ../../ports/1
            echo tcp >addr_trtype; echo ipv4 >addr_adrfam; echo {way.host} >addr_traddr
            echo 4420 >addr_trsvcid; ln -s ../../subsystems/{name} subsystems/{name}""",
            f"""cd nvmet; rm ports/1/subsystems/{name}; rmdir ports/1 subsystems/{name}/namespaces/1
            rmdir subsystems/{name}""",
        ),
        way.carries(MIB, "kernel-socket"),
    ):
        words = f"transport=tcp,traddr={way.host},trsvcid=4420,nqn={name}"
        way.get(f"modprobe nvme-tcp; echo {words} >/dev/nvme-fabrics")
        try:
            way.get("for i in $(seq 100); do [ -b /dev/nvme0n1 ] && exit 0; sleep 0.2; done; exit 1")
            verify(way, "/dev/nvme0n1")
        finally:
            way.get("echo 1 >/sys/class/nvme/nvme0/delete_controller")
