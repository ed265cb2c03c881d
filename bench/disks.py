"""Disks and file systems over the network: sockets used inside the kernel, over netfront and by MMNet."""

import json
from abc import abstractmethod

from bench.packets import Packets, metric
from bench.results import Metric
from rig.guest import Guest

MIB = 128
TREE, FILE = "/tmp/exported", "disk"  # of all kinds: one is used at a time
# What the kernel exports as NFS 4's root: a folder in memory
NFS = """set -e
mkdir -p $TREE /var/lib/nfs/v4recovery /run/rpc_pipefs
mountpoint -q $TREE || mount -t tmpfs -o size=160m none $TREE
modprobe nfsd
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,no_root_squash,insecure,fsid=0 *:$TREE
(rpc.mountd -N 3 -F & ) >/dev/null 2>&1
rpc.nfsd -N 3 2"""
CONFIGFS = """modprobe configfs; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
set -e; cd /sys/kernel/config"""
TARGET, SUBSYSTEM = "iqn.2000-01.org.example:t", "nqn.2000-01.org.example:t"
# Settings of the kernel's iSCSI target for FILE of BYTES on HOST, and of its NVMe target
LIO = f"""modprobe -a target_core_mod target_core_file iscsi_target_mod; cd target; at=iscsi/{TARGET}
mkdir -p core/fileio_0/t iscsi; mkdir $at $at/tpgt_1; cd $at/tpgt_1
echo fd_dev_name=$FILE,fd_dev_size=$BYTES >../../../core/fileio_0/t/control
echo 1 >../../../core/fileio_0/t/enable
mkdir np/$HOST:3260 lun/lun_0; ln -s ../../../core/fileio_0/t lun/lun_0/t
echo 0 >attrib/authentication; echo 0 >attrib/demo_mode_write_protect
echo 1 >attrib/generate_node_acls; echo 1 >attrib/cache_dynamic_acls; echo 1 >enable"""
NO_LIO = f"""cd target/iscsi/{TARGET}/tpgt_1; echo 0 >enable; rm lun/lun_0/t; rmdir lun/lun_0 np/*
cd ../../..; rmdir iscsi/{TARGET}/tpgt_1 iscsi/{TARGET} iscsi core/fileio_0/t core/fileio_0"""
NVMET = f"""modprobe -a nvmet nvmet-tcp; cd nvmet
mkdir subsystems/{SUBSYSTEM} subsystems/{SUBSYSTEM}/namespaces/1 ports/1; cd subsystems/{SUBSYSTEM}
echo 1 >attr_allow_any_host; echo -n $FILE >namespaces/1/device_path
echo 1 >namespaces/1/buffered_io; echo 1 >namespaces/1/enable; cd ../../ports/1
echo tcp >addr_trtype; echo ipv4 >addr_adrfam; echo $HOST >addr_traddr
echo 4420 >addr_trsvcid; ln -s ../../subsystems/{SUBSYSTEM} subsystems/{SUBSYSTEM}"""
NO_NVMET = f"""cd nvmet; rm ports/1/subsystems/{SUBSYSTEM}; rmdir ports/1 subsystems/{SUBSYSTEM}/namespaces/1
rmdir subsystems/{SUBSYSTEM}"""
INITIATOR = f"""modprobe -a iscsi_tcp sd_mod; mkdir -p /etc/iscsi
echo InitiatorName={TARGET}c >/etc/iscsi/initiatorname.iscsi"""
LOGIN = """iscsiadm -m discovery -t sendtargets -p $HOST >&2; iscsiadm -m node -l >&2
for i in $(seq 100); do
    ls /sys/class/iscsi_session/*/device/target*/*:$LUN/block && exit 0; sleep 0.2
done 2>/dev/null; exit 1"""
NVME = f"""modprobe nvme-tcp
echo transport=tcp,traddr=$HOST,trsvcid=4420,nqn={SUBSYSTEM} >/dev/nvme-fabrics
for i in $(seq 100); do [ -b /dev/nvme0n1 ] && exit 0; sleep 0.2; done; exit 1"""
SMB_CONF = """[global]
server role = standalone
map to guest = Bad User
guest account = root
smb ports = 4450
lock directory = {place}
state directory = {place}
cache directory = {place}
private directory = {place}
pid directory = {place}
ncalrpc dir = {place}
load printers = no
disable spoolss = yes
log file = {place}/log
[t]
path = {tree}
guest ok = yes
read only = no
"""


def export_nfs(server: Guest, tree: str) -> None:
    """Have the server's kernel export a new folder in its memory, as the root of NFS 4."""
    server.run(f"TREE={tree}; {NFS}", timeout=60)


def export_smb(server: Guest, place: str, tree: str) -> str:
    """Write what smbd needs to share a folder as t on port 4450; return the command that starts it."""
    server.run(["mkdir", "-p", place, tree])
    server.write(f"{place}/smb.conf", SMB_CONF.format(place=place, tree=tree))
    return f"smbd -F --no-process-group -s {place}/smb.conf"


def set_target(server: Guest, script: str, file: str = "", size: int = 0) -> None:
    """Have the server's kernel export a file as a disk, or not any more: LIO, NVMET, NO_LIO, NO_NVMET."""
    server.run(f"HOST={server.ip4} FILE={file} BYTES={size}\n{CONFIGFS}\n{script}", timeout=60)


def iscsi_login(client: Guest, host: str, lun: int) -> str:
    """Have a client's kernel use a host's disk by iSCSI; return its path."""
    client.run(INITIATOR)
    client.start("iscsid -f")
    env = {"LC_ALL": "C", "HOME": "/root"}
    return "/dev/" + client.run(f"HOST={host} LUN={lun}\n{LOGIN}", timeout=120, env=env).stdout.strip()


def iscsi_logout(client: Guest) -> None:
    """Have it use no such disk any more."""
    client.run("iscsiadm -m node -u; iscsiadm -m node -o delete", timeout=120)


def nvme_connect(client: Guest, host: str) -> str:
    """Have a client's kernel use a host's disk by NVMe over TCP; return its path."""
    client.run(f"HOST={host}\n{NVME}", timeout=120)
    return "/dev/nvme0n1"


def nvme_disconnect(client: Guest) -> None:
    """Have it use no such disk any more."""
    client.run("echo 1 >/sys/class/nvme/nvme0/delete_controller", timeout=120)


class Disk(Packets):
    """What another guest has in its memory, by the network, past the client's cache."""

    file: str

    def __init_subclass__(cls) -> None:
        """Name its figures."""
        cls.metrics = tuple(
            metric(f"{cls.name}, {way}", "Mbit/s", True, f"fio, {MIB} MiB by 1 MiB, four at once, O_DIRECT")
            for way in ("read", "write")
        )

    @abstractmethod
    def attach(self, server: Guest, client: Guest) -> str:
        """Have the server export it and the client use it; return the file or the disk."""

    def start(self, server: Guest, client: Guest) -> None:
        """Make what is exported, and attach it."""
        server.run(
            f"mkdir -p {TREE}; mountpoint -q {TREE} || mount -t tmpfs -o size=160m none {TREE};"
            f" truncate -s {MIB}M {TREE}/{FILE}"
        )
        self.file = self.attach(server, client)

    def run(self, client: Guest) -> dict[str, float]:
        """Write and read all of it."""
        return {one.name: self._fio(one) for one in reversed(self.metrics)}

    def _fio(self, one: Metric) -> float:
        way = one.name.rpartition(" ")[2]
        words = f"--name=t --filename={self.file} --rw={way} --bs=1m --size={MIB}m --iodepth=4"
        how = "--ioengine=libaio --direct=1 --output-format=json"
        job = json.loads(self.client(["fio", *words.split(), *how.split()]))["jobs"][0]
        return float(job[way]["bw_bytes"]) * 8 / 1e6

    def mounted(self, client: Guest, kind: str, what: str) -> str:
        """Mount what is exported; return the file's path."""
        place = f"/tmp/{kind}"
        client.run(f"mkdir -p {place}; mount -t {kind} {what} {place}", timeout=60)
        return f"{place}/{FILE}"


class Nfs(Disk):
    """The kernel at both ends."""

    name = "NFS"

    def attach(self, server: Guest, client: Guest) -> str:
        """Mount it."""
        export_nfs(server, TREE)
        client.run("modprobe nfsv4")
        return self.mounted(client, "nfs4", f"-o vers=4.2 {self.host}:/")


class Smb(Disk):
    """The kernel's client and Samba."""

    name = "SMB"

    def attach(self, server: Guest, client: Guest) -> str:
        """Mount it, without a cache of the client's: O_DIRECT needs that."""
        server.start(export_smb(server, "/tmp/smb", TREE))
        server.run(
            "for i in $(seq 300); do ss -Hltn sport = :4450 | grep -q . && exit 0; sleep 0.1; done; exit 1",
            timeout=60,
        )
        client.run("modprobe cifs")
        return self.mounted(client, "cifs", f"-o guest,port=4450,vers=3.0,cache=none //{self.host}/t")


class Iscsi(Disk):
    """The kernel at both ends."""

    name = "iSCSI"

    def attach(self, server: Guest, client: Guest) -> str:
        """Log in."""
        set_target(server, LIO, f"{TREE}/{FILE}", MIB << 20)
        return iscsi_login(client, self.host, 0)


class Nvme(Disk):
    """The kernel at both ends."""

    name = "NVMe/TCP"

    def attach(self, server: Guest, client: Guest) -> str:
        """Connect."""
        set_target(server, NVMET, f"{TREE}/{FILE}")
        return nvme_connect(client, self.host)


DISKS: dict[str, type[Disk]] = {"nfs": Nfs, "smb": Smb, "iscsi": Iscsi, "nvme": Nvme}
