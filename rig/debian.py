"""The releases of Debian that the domains of a rig can be of: Xen, programs and kernels of each."""

from collections.abc import Mapping
from dataclasses import dataclass

from rig.errors import RigError
from rig.packages import BOOKWORM, TRIXIE, TRIXIE_BACKPORTS, Archive

# In every domain and the plain VM, one image for all. XEN stands for its version.
GUEST_PACKAGES = (
    "bridge-utils conntrack curl ethtool gdb iperf3 iproute2 iptables iputils-ping kmod libasan8 "
    "libjansson4 libmnl0 libtsan2 libubsan1 libxencall1 libxenevtchn1 "
    "libxengnttab1 libxenmiscXEN libxenstore4 lsof netbase netcat-openbsd nftables nginx-light "
    "openssh-client openssh-server procps psmisc python3 qemu-system-xen redis-server redis-tools socat "
    "sockperf strace tcpdump time wget xen-utils-XEN xenstore-utils zstd"
)

# Besides those, in an image of its own: what the table of programs needs.
COMPAT_PACKAGES = (
    "apache2 busybox-static caddy cifs-utils etcd-client etcd-server file fio git glusterfs-client "
    "glusterfs-server haproxy inetutils-inetd inetutils-telnet inetutils-telnetd iperf lftp "
    "libmemcached-tools libnl-genl-3-200 libwrap0 lynx mariadb-client-core mariadb-server-core memcached "
    "mount nbd-client nbd-server nfs-common nfs-kernel-server nodejs nuttcp open-iscsi openmpi-bin openssl "
    "python3-grpcio python3-mpi4py python3-pika rabbitmq-server rsync samba smbclient tcl tgt wrk"
)

# Sets of programs as named on the command line.
PROGRAMS = ("base", "compat")


@dataclass(frozen=True)
class Kernel:
    """A kernel of Debian's. image, headers: packages that depend on those of its newest version."""

    archive: Archive
    image: str
    headers: str

    def _newest(self, package: str, prefix: str) -> str:
        """Return the package that `package`, which always depends on the newest, depends on."""
        for name in self.archive.depends(package):
            if name.startswith(prefix):
                return name
        raise RigError(f"{package} of {self.archive.codename} depends on no {prefix}*")

    def release(self) -> str:
        """Return the newest version as `uname -r` prints it."""
        return self._newest(self.image, "linux-image-").removeprefix("linux-image-")

    def packages(self) -> dict[str, str]:
        """Return the packages with the newest version, and their versions.

        Debian 12 and 13 have all of it in one package; later ones have several, on which that depends.
        """
        release = self.release()
        image = f"linux-image-{release}"
        names = [image, *(name for name in self.archive.depends(image) if name.endswith(f"-{release}"))]
        self.archive.look_up(names)
        return {name: self.archive.version(name) for name in names}

    def header_packages(self) -> list[str]:
        """Return the packages with the headers, the one with their Makefile first."""
        top = self._newest(self.headers, "linux-headers-")
        parts = ("linux-headers-", "linux-kbuild-")
        return [top, *(name for name in self.archive.depends(top) if name.startswith(parts))]

    def compiler(self) -> str:
        """Return the package with the compiler that the headers ask for, as "gcc-14"."""
        return self._newest(self.header_packages()[0], "gcc-")


@dataclass(frozen=True, eq=False)
class Debian:
    """A release of Debian. xen: the version of its Xen. kernels: by name as on the command line.

    more, more_compat: packages that other releases have not, or under another name.
    """

    number: str
    archive: Archive
    xen: str
    kernels: Mapping[str, Kernel]
    more: str
    more_compat: str

    @property
    def hypervisor(self) -> str:
        """The package with Xen."""
        return f"xen-hypervisor-{self.xen}-amd64"

    @property
    def archives(self) -> list[Archive]:
        """Where its packages and kernels are from."""
        return list(dict.fromkeys([self.archive, *(kernel.archive for kernel in self.kernels.values())]))

    def refresh(self) -> None:
        """Read the package lists anew of all that it is made of: see Archive.refresh."""
        for archive in self.archives:
            archive.refresh()

    def look_up(self, names: list[str]) -> None:
        """Read the records of the packages `names`, Xen and the kernels in as few goes as can be."""
        for archive in self.archives:
            here = [kernel for kernel in self.kernels.values() if kernel.archive is archive]
            first = [*names, self.hypervisor] if archive is self.archive else []
            archive.look_up([*first, *(kernel.image for kernel in here)])
            archive.look_up(f"linux-image-{kernel.release()}" for kernel in here)

    def programs(self, which: str) -> list[str]:
        """Return the packages in an image of this set of programs."""
        text = f"{GUEST_PACKAGES} {self.more}"
        if which == "compat":
            text += f" {COMPAT_PACKAGES} {self.more_compat}"
        return text.replace("XEN", self.xen).split()


# By name, as on the command line; each release of Debian has its own 6.12.
KERNELS = ("6.12", "6.1", "newest")
OLDEST = Kernel(BOOKWORM, "linux-image-amd64", "linux-headers-amd64")
NEWEST = Kernel(TRIXIE_BACKPORTS, "linux-image-amd64", "linux-headers-amd64")


def _kernels(archive: Archive, image: str, headers: str) -> Mapping[str, Kernel]:
    return dict(zip(KERNELS, (Kernel(archive, image, headers), OLDEST, NEWEST), strict=True))


# By number, as on the command line.
DEBIANS = {
    "12": Debian(
        "12",
        BOOKWORM,
        "4.17",
        _kernels(BOOKWORM, "linux-image-6.12-amd64", "linux-headers-6.12-amd64"),
        "libpython3.11-testsuite postgresql-15",
        "libglib2.0-0 openjdk-17-jdk-headless php8.2-fpm php8.2-pgsql",
    ),
    "13": Debian(
        "13",
        TRIXIE,
        "4.20",
        _kernels(TRIXIE, "linux-image-amd64", "linux-headers-amd64"),
        "libpython3.13-testsuite postgresql-17",
        "libglib2.0-0t64 openjdk-21-jdk-headless php8.4-fpm php8.4-pgsql",
    ),
}
DEFAULT = "13"
