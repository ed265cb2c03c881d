"""A rig: an emulated machine with Xen, domain 0 and guests, or one plain VM. Up, down, and found again."""

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
from dataclasses import asdict, dataclass

from rig import bootdisk, build, host, image, kernellog, pace, qemu
from rig.client import AgentGone, CommandTimeout
from rig.debian import DEBIANS, DEFAULT, KERNELS, PROGRAMS, Debian
from rig.errors import EmulatorFault, NotHere, RigError
from rig.guest import Guest
from rig.paths import RUN
from rig.progress import Step

DEFAULT_NAME = "default"
TYPES = ("pv", "pvh", "hvm")
MAX_GUESTS = 16
AGENT_PORT = 7700
DOM0_MEMORY = 768  # MiB
MODEL_MEMORY = 96  # MiB more of domain 0's for the device model of each HVM guest
XEN_MEMORY = 256  # MiB, for Xen itself and its bookkeeping
# Of the emulated machine's memory, MiB, what may lie below 4 GiB; QEMU's default is less. All its CPUs note
# in one word which piece of memory was used last (AddressSpaceDispatch.mru_section). With two pieces that
# word's cache line goes back and forth, and guests that run at once take up to half as long again.
LOW_MEMORY = 3840
# An emulated CPU that the host does not run for a while is no stall.
PATIENCE = "rcupdate.rcu_cpu_stall_timeout=60 watchdog_thresh=30"
BOOT_SECONDS = 180.0  # much, for a host that does other things too
HVM_BOOT_SECONDS = 600.0  # firmware and devices are emulated by an emulated domain 0
LOOK_SECONDS = 30.0  # between two looks at the consoles of guests


@dataclass(frozen=True)
class Config:
    """What to bring up.

    host: which Debian is in all domains, "12" with Xen 4.17 or "13" with Xen 4.20. guests: how many, g1
    and so on. type: "pv", "pvh" or "hvm". kernel: the guests', one of debian.KERNELS, or "debug"
    for ours of debugkernel; domain 0 has 6.12. vcpus and memory (MiB): of each guest. plain: one VM
    named g1, no Xen. clock: "wall", or "instructions": one guest instruction is one nanosecond.
    xenstored: "c" or "o". xway: load the tree's module and start its daemon. policy: what is in
    xwayd.conf. programs: which of debian.PROGRAMS are installed. plugin: of the emulator, with its
    arguments. spare: have memory for one guest more, for tests that migrate one to the same host.
    arguments: for the guests' kernel, besides the rig's own.
    """

    host: str = DEFAULT
    guests: int = 2
    type: str = "pv"
    kernel: str = "6.12"
    vcpus: int = 0  # 0: one, or two in the plain VM
    memory: int = 512
    plain: bool = False
    clock: str = "wall"
    xenstored: str = "c"
    xway: bool = True
    policy: str = "allow all"
    programs: str = "base"
    plugin: str = ""
    spare: bool = True
    arguments: str = ""

    @property
    def debian(self) -> Debian:
        """What runs in all domains."""
        return DEBIANS[self.host]

    @property
    def own_emulator(self) -> bool:
        """Whether it needs the machine's own emulator: see qemu.command().

        QEMU 10.0 tells Xen that a read of CR2 was one of CR0, and Xen 4.17 answers it wrong: see README.md.
        """
        return self.host == "12" and self.type != "pv"

    def checked(self) -> "Config":
        """Return it with defaults filled in; RigError names what is wrong."""
        for name, allowed in (
            ("host", tuple(DEBIANS)),
            ("type", TYPES),
            ("kernel", (*KERNELS, image.DEBUG)),
            ("clock", ("wall", "instructions")),
            ("xenstored", ("c", "o")),
            ("programs", PROGRAMS),
        ):
            if getattr(self, name) not in allowed:
                raise RigError(f"{name} is {getattr(self, name)!r}; it can be {' or '.join(allowed)}")
        guests = 1 if self.plain else self.guests
        if not 0 <= guests <= MAX_GUESTS:
            raise RigError(f"guests is {guests}; it can be 0 to {MAX_GUESTS}")
        instructions = self.clock == "instructions"
        vcpus = self.vcpus or (2 if self.plain and not instructions else 1)
        if not 1 <= vcpus <= 8:
            raise RigError(f"vcpus is {vcpus}; it can be 1 to 8")
        if self.plain and instructions and vcpus != 1:
            raise RigError("a plain VM by the instruction clock has one vcpu")
        if self.plain and self.kernel == image.DEBUG:
            raise RigError(f"the kernel {image.DEBUG} is for Xen's guests")
        if self.type == "hvm" and self.kernel == image.DEBUG:
            raise RigError(f"the kernel {image.DEBUG} is for PV and PVH guests: firmware cannot start it")
        if not 256 <= self.memory <= 8192:
            raise RigError(f"memory is {self.memory} MiB; it can be 256 to 8192")
        if not self.arguments.isprintable() or set(self.arguments) & set("\"'\\"):
            raise RigError(f"arguments are {self.arguments!r}; they can have no quotes and backslashes")
        return Config(**{**asdict(self), "guests": guests, "vcpus": vcpus})


def addresses(number: int) -> tuple[str, str]:
    """Return the IPv4 and IPv6 addresses of guest `number`; 0 is domain 0."""
    last = 10 + number if number else 1
    return f"10.77.0.{last}", f"fd77::{last}"


def hosts() -> str:
    """Return /etc/hosts of every domain."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    for number in range(MAX_GUESTS + 1):
        for address in addresses(number):
            lines.append(f"{address} {guest_name(number)}")
    return "\n".join(lines) + "\n"


def guest_name(number: int) -> str:
    """Return the name of guest `number`; 0 is domain 0."""
    return f"g{number}" if number else "dom0"


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise RigError(f"a rig's name has letters, digits, '.', '_' and '-' only, not {name!r}")


class Machine:
    """A rig that is up. Made by up() or found by find()."""

    def __init__(self, name: str, config: Config, state: dict[str, object]) -> None:
        self.name = name
        self.config = config
        self.folder = RUN / name
        self._pid = int(str(state["pid"]))
        self._started = int(str(state["started"]))
        self.accel = str(state["accel"])
        self._state = state
        pace.use(self.slow)
        ports = state["ports"]
        assert isinstance(ports, list)
        numbers = [1] if config.plain else range(config.guests + 1)
        self.domains = {
            guest_name(number): Guest(
                guest_name(number),
                port,
                *addresses(number),
                config.debian,
                guest_limit=config.clock == "wall",
                dead=self._spoilt,
            )
            for number, port in zip(numbers, ports, strict=True)
        }
        self.products: build.Products | None = None
        self._impossible = False  # a guest's kernel had registers that no program gives it
        self._looked = time.monotonic()

    @property
    def slow(self) -> float:
        """How many times as long as usual to wait for it, at most: see pace."""
        return float(str(self._state.get("slow", 1.0)))

    def measure(self) -> None:
        """See how fast the first domain works, and have limits follow that from now on."""
        first = next(iter(self.domains.values()))
        begin = time.monotonic()
        first.run(pace.WORK)
        instructions = self.config.clock == "instructions"
        self._state["slow"] = pace.slowness(time.monotonic() - begin, instructions)
        self.write_down()
        pace.use(self.slow)

    def write_down(self) -> None:
        """Leave what find() needs."""
        partial = self.folder / "state.new"
        partial.write_text(json.dumps(self._state, indent=1))
        partial.rename(self.folder / "state.json")

    @property
    def dom0(self) -> Guest:
        """Domain 0."""
        return self.guest("dom0")

    @property
    def guests(self) -> list[Guest]:
        """The guests, without domain 0."""
        return [guest for name, guest in self.domains.items() if name != "dom0"]

    def guest(self, name: str) -> Guest:
        """Return the domain with this name; RigError if there is none."""
        try:
            return self.domains[name]
        except KeyError:
            raise RigError(f"no domain {name}; there are {', '.join(self.domains)}") from None

    @property
    def alive(self) -> bool:
        """Whether the emulator runs."""
        return qemu.alive(self._pid, self._started)

    @property
    def emulator_failed(self) -> bool:
        """Whether the emulator has spoilt a domain.

        With two CPUs, each a thread, QEMU now and then resumes a PVH guest with registers that are
        not the guest's: a triple fault, with or without xway. Linux itself panics and never ends so.
        Or one CPU runs a breakpoint that the other has replaced by an instruction of the kernel already.
        Or domain 0's kernel, Debian's with nothing of ours in it, crashes. Or a PV guest's kernel is
        found with flags that no instruction of it makes (check_logs looks for them), with or without xway:
        once NT and DF, in the midst of munmap(), which from there on cleared memory backwards.
        """
        if self._impossible:
            return True
        output = self.output()
        signs = r" Triple fault |\bint3: 0000 \[#"
        # Not if domain 0 has loaded ours: then it may be the one to blame.
        if not self.config.plain and not re.search(r"Modules linked in:.*\bxway_core\b", output):
            signs += r"|\bOops: |Hardware Dom0 crashed"
        return re.search(signs, output) is not None

    def _spoilt(self) -> bool:
        """Tell whether a domain that is silent is so because of the emulator.

        A guest that has died so may hold up for minutes whoever waits for it. So look at the guests' consoles
        now and then, but not where domain 0's work would be measured.
        """
        if self.config.clock == "wall" and time.monotonic() > self._looked + LOOK_SECONDS:
            self._looked = time.monotonic()
            for guest in self.guests:
                self._impossible |= kernellog.impossible(self.console(guest.name).splitlines())
        return self.emulator_failed

    def pin(self) -> None:
        """Keep each emulated CPU on a CPU of the host's, if it is measured by the wall clock."""
        if self.config.clock == "wall":
            qemu.pin(self._pid)

    def output(self) -> str:
        """Return what came from the serial line: Xen's messages and domain 0's, or the plain VM's."""
        try:
            return (self.folder / "console.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def console(self, name: str) -> str:
        """Return what a domain wrote to its console: all that a dead one leaves."""
        self.guest(name)
        if not self.config.plain and name != "dom0":
            # What a guest writes after its migration is under the name that it arrives by.
            look = f"cd /var/log/xen/console; ls -tr guest-{name}.log guest-{name}--*.log | xargs cat"
            with contextlib.suppress(RigError):
                text = self.dom0.run(look, check=False, connect_wait=2.0, timeout=20.0).stdout
                if text:
                    return text
        return self.output()

    def log(self, name: str) -> str:
        """Return a domain's kernel log, or its console's if it does not answer."""
        guest = self.guest(name)
        if self.alive:
            with contextlib.suppress(AgentGone):
                return guest.run(["dmesg"], connect_wait=3.0, timeout=20.0).stdout
        return self.console(name)

    def examine(self, name: str) -> str:
        """Return what Xen knows of a guest that does not answer: does it run, where, and has it a network?

        It is paused for a moment, too: that wakes one that has lost an interrupt.
        """
        if self.config.plain or name == "dom0":
            return ""
        ping = f"ping -c 2 -W 2 {self.guest(name).ip4}"
        look = f"""xl list; xl vcpu-list; id=$(xl domid {name}) || exit 0
            xenstore-ls -f /local/domain/0/backend/vif/$id | grep -w state
            xenstore-ls -f /local/domain/$id/device | grep -w state; xenstore-ls -f /local/domain/$id/data
            for i in 1 2 3; do /usr/lib/xen/bin/xenctx -a $id; sleep 1; done
            {ping}; echo and when it was paused and goes on:; xl pause {name}; xl unpause {name}; {ping}"""
        try:
            return self.dom0.run(look, check=False, connect_wait=2.0, timeout=60.0).stdout
        except CommandTimeout as error:
            return error.result.stdout
        except RigError as error:
            return str(error)

    def check_logs(self) -> list[str]:
        """Return the lines of trouble in every domain's kernel log since the last check."""
        seen_file = self.folder / "log-seen.json"
        seen: dict[str, int] = {}
        with contextlib.suppress(OSError, ValueError):
            seen = json.loads(seen_file.read_text())
        trouble = []
        for name, guest in self.domains.items():
            try:
                records = guest.kernel_records()
            except RigError as error:
                console = self.console(name)
                self._impossible |= kernellog.impossible(console.splitlines())
                trouble.append(f"{name}: kernel log cannot be read: {error}")
                trouble += [f"{name} console: {line}" for line in kernellog.gist(console)]
                trouble += [f"xen: {line}" for line in self.examine(name).splitlines()]
                continue
            last = records[-1][0] if records else -1
            first = seen.get(name, -1) + 1
            if first > last + 1:  # the domain has been started again
                first = 0
            seen[name] = last
            lines = [text for number, text in records if number >= first]
            self._impossible |= kernellog.impossible(lines)
            trouble += [f"{name}: {line}" for line in kernellog.trouble(lines)]
        seen_file.write_text(json.dumps(seen))
        return trouble

    def down(self) -> None:
        """Stop the emulator and remove the rig's folder."""
        qemu.stop(self._pid, self._started)
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_guest(self, name: str, more: str = "") -> None:
        """Have domain 0 start a guest, whose configuration is written first; it is not waited for.

        more: lines of the configuration besides
        """
        number = int(name[1:])
        self.dom0.write(f"/etc/xen/{name}.cfg", xl_config(self.config, number) + more)
        if self.config.type == "hvm":
            self.dom0.write(f"/etc/xen/{name}.disk", _boot_disk(self.config, number))
        self.dom0.run(["xl", "create", "-q", f"/etc/xen/{name}.cfg"], timeout=180)

    def destroy_guest(self, name: str) -> None:
        """End a guest at once, as if its power had failed."""
        self.dom0.run(["xl", "destroy", name])

    def has_guest(self, name: str) -> bool:
        """Return whether domain 0 has a guest, in whatever state."""
        found = self.dom0.run(["xl", "domid", name], check=False, timeout=60)
        return "does not exist" not in found.stderr

    def start_guest(self, name: str, more: str = "") -> None:
        """Start a guest that has ended, wait until it runs commands, and load xway in it as up() does.

        more: lines of its configuration besides
        """
        self.create_guest(name, more)
        self.load_guest(name)

    def load_guest(self, name: str) -> None:
        """Wait until a guest whose kernel starts runs commands, and load xway in it as up() does."""
        guest = self.guest(name)
        _wait(self, guest)
        if self.config.xway:
            if self.products is None:
                made = image.base(self.config.debian, self.config.programs, self.config.kernel)
                self.products = _products(self.config, made)
            build.load(guest, self.products)


# What only HVM guests have: a machine by QEMU in domain 0, with as little in it as can be. Its firmware finds
# the disk that bootdisk makes, and the one with the kernels.
HVM = """vga = "none"
vnc = 0
usb = 0
hpet = 0
device_model_args_hvm = [
  "-drive", "if=none,id=grub,format=raw,readonly=on,file=/etc/xen/{name}.disk",
  "-device", "virtio-blk-pci,drive=grub,addr=8",
  "-drive", "if=none,id=kernels,format=raw,readonly=on,file=/dev/vdb",
  "-device", "virtio-blk-pci,drive=kernels,addr=9"
]
"""
NOT_HVM = """kernel = "/rig/boot/vmlinux-{kernel}"
ramdisk = "/rig/boot/initrd-{kernel}"
cmdline = "{words}"
"""


def _command_line(config: Config, number: int) -> str:
    words = f"console=hvc0 loglevel=5 log_buf_len=1M {PATIENCE} rig.role=guest {identity(number)}"
    return f"{words} {config.arguments}"


def xl_config(config: Config, number: int) -> str:
    """Return the configuration of guest `number` for xl."""
    ip4, ip6 = addresses(number)
    start = HVM if config.type == "hvm" else NOT_HVM
    start = start.format(name=guest_name(number), kernel=config.kernel, words=_command_line(config, number))
    # An HVM guest has disks up to xvdd twice: QEMU emulates them, too, and refuses one that is read-only.
    # The emulated clock is no invariant TSC, so Xen would trap every RDTSC; real hosts do not. And after
    # such a trap QEMU sometimes re-enters a PVH guest with the host's registers: a triple fault.
    return f"""name = "{guest_name(number)}"
type = "{config.type}"
{start}memory = {config.memory}
vcpus = {config.vcpus}
tsc_mode = "native"
disk = ["vdev=xvde,format=raw,access=r,script=/rig/block-rig,target=/dev/vda"]
vif = ["type=vif,mac=00:16:3e:77:01:{number:02x},bridge=xenbr0,ip={ip4} {ip6},script=/rig/vif-bridge"]
on_crash = "preserve"
on_poweroff = "destroy"
on_reboot = "destroy"
"""


def _boot_disk(config: Config, number: int) -> bytes:
    """Return the disk that the firmware of an HVM guest starts; the kernels are on the second."""
    # Early on, Linux would look for bridges at 8192 places, each time by way of domain 0.
    kernel = f"linux (hd1)/vmlinuz-{config.kernel} pci=noearly {_command_line(config, number)}"
    return bootdisk.disk(kernel, f"initrd (hd1)/initrd-{config.kernel}", "boot")


def identity(number: int) -> str:
    """Return the words of the kernel's command line that tell a domain who it is."""
    ip4, ip6 = addresses(number)
    return f"rig.name={guest_name(number)} rig.ip4={ip4} rig.ip6={ip6}"


def _arguments(
    config: Config, made: image.Base, start: image.Start, ports: list[int], accel: str
) -> list[str]:
    """Return QEMU's arguments."""
    instructions = config.clock == "instructions"
    if accel == "kvm":
        args = ["-accel", "kvm", "-cpu", "host"]
    elif instructions:
        args = ["-accel", "tcg,thread=single,tb-size=512", "-icount", "shift=0,sleep=off"]
    else:
        args = ["-accel", "tcg,thread=multi,tb-size=512"]
    numbers = [1] if config.plain else list(range(config.guests + 1))
    forwards = "".join(
        f",hostfwd=tcp:127.0.0.1:{port}-{addresses(number)[0]}:{AGENT_PORT}"
        for number, port in zip(numbers, ports, strict=True)
    )
    args += ["-plugin", config.plugin] if config.plugin else []
    args += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    args += ["-serial", "file:console.log", "-monitor", "unix:monitor,server=on,wait=off"]
    args += ["-drive", f"file={made.root},if=virtio,format=raw,readonly=on"]
    args += [
        "-netdev",
        "user,id=net,restrict=on,net=10.77.0.0/24,host=10.77.0.254,dns=10.77.0.253,ipv6=off" + forwards,
    ]
    args += ["-device", "virtio-net-pci,netdev=net,romfile="]
    if config.plain:
        cpu = [] if accel == "kvm" else ["-cpu", "max"]
        args += [*cpu, "-smp", str(config.vcpus), "-m", str(max(config.memory, 1024))]
        args += ["-device", "virtio-rng-pci"]
        args += ["-kernel", str(made.vmlinux(config.kernel)), "-initrd", str(start.initrd(config.kernel))]
        words = f"console=ttyS0 loglevel=5 log_buf_len=1M {PATIENCE} panic=0 rig.role=plain"
        args += ["-append", f"{words} {identity(1)} {config.arguments}"]
        return args
    nested = config.type != "pv" and accel == "tcg"
    # On two CPUs QEMU loses PVH guests under load: see Machine.emulator_failed.
    cpus = 1 if instructions or nested else 2
    if nested:
        # Where QEMU emulates SVM, a CPU that leaves a guest may lose an interrupt that another thread raises
        # just then (it clears a bit beside it in a word, not atomically) and sleep with it pending until the
        # next one comes. Once every few minutes that was the only timer there is; so a device asks domain 0
        # for its statistics every second.
        args += ["-device", "virtio-balloon-pci,guest-stats-polling-interval=1"]
    most = config.guests + config.spare
    dom0 = DOM0_MEMORY + (most * MODEL_MEMORY if config.type == "hvm" else 0)
    memory = XEN_MEMORY + dom0 + most * (config.memory + 64)
    args += ["-machine", f"pc,max-ram-below-4g={LOW_MEMORY}M"]
    args += [*([] if accel == "kvm" else ["-cpu", qemu.XEN_CPU])]
    args += ["-smp", str(cpus), "-m", str(memory)]
    args += ["-drive", f"file={start.boot_disk},if=virtio,format=raw,readonly=on"]
    xen = (
        f"console=com1 com1=115200,8n1 loglvl=warning guest_loglvl=warning noreboot bootscrub=0 "
        f"dom0_mem={dom0}M,max:{dom0}M dom0_max_vcpus={cpus} sched=credit2"
    )
    if instructions:
        xen += " tsc=stable:socket"
    linux = (
        f"console=hvc0 loglevel=5 log_buf_len=1M {PATIENCE} rig.role=dom0 rig.xenstored={config.xenstored}"
    )
    args += ["-kernel", str(made.xen), "-append", xen]
    args += ["-initrd", f"{made.vmlinux('6.12')} {linux} {identity(0)},{start.initrd('6.12')}"]
    return args


def find(name: str = DEFAULT_NAME) -> Machine:
    """Return the rig that is up under this name; RigError if there is none."""
    _check_name(name)
    folder = RUN / name
    try:
        state = json.loads((folder / "state.json").read_text())
    except (OSError, ValueError):
        raise RigError(f"no rig {name} is up (rig up)") from None
    machine = Machine(name, Config(**state["config"]), state)
    if not machine.alive:
        raise RigError(f"rig {name} has died; its last words are in {folder}/console.log (rig down)")
    return machine


def is_up(name: str) -> bool:
    """Tell whether a rig of this name is up."""
    try:
        return find(name).alive
    except RigError:
        return False


def names() -> list[str]:
    """Return the names of rigs that have a folder, up or dead."""
    return sorted(path.name for path in RUN.iterdir()) if RUN.is_dir() else []


def remove(name: str) -> None:
    """Stop and remove the rig of this name, in whatever state it is; nothing if there is none."""
    _check_name(name)
    folder = RUN / name
    with contextlib.suppress(OSError, ValueError, KeyError):
        state = json.loads((folder / "state.json").read_text())
        qemu.stop(int(state["pid"]), int(state["started"]))
    for pid in qemu.running_in(folder):  # its starter was killed before it could write that down
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def up(config: Config, name: str = DEFAULT_NAME, *, die_with_us: bool = False) -> Machine:
    """Bring up a rig and return it once every domain runs commands. On failure nothing is left.

    die_with_us: it ends with this process. RigError if a rig of this name is up already. When the
    emulator fails it is started again, three times in all.
    """
    for _ in range(2):
        try:
            return _up(config, name, die_with_us)
        except EmulatorFault as error:
            print(f"rig: {error}\nrig: starting again", file=sys.stderr)
    return _up(config, name, die_with_us)


def _up(config: Config, name: str, die_with_us: bool) -> Machine:
    _check_name(name)
    config = config.checked()
    host.need_packages()
    if name in names() and is_up(name):
        raise RigError(f"rig {name} is up already (rig down)")
    remove(name)
    made = image.base(config.debian, config.programs, config.kernel)
    start = image.start(made, hosts())
    products = _products(config, made) if config.xway else None
    accel = "kvm" if config.clock == "wall" and qemu.kvm_works(made.vmlinux("6.12")) else "tcg"
    if config.own_emulator and accel == "tcg" and qemu.at_least(10, own=True):
        raise NotHere(
            f"{config.type} guests of Xen {config.debian.xen} need QEMU older than 10 (rig/README.md)"
        )
    ports = qemu.free_ports(1 if config.plain else config.guests + 1)
    folder = RUN / name
    folder.mkdir(parents=True)
    process = None
    machine = None
    try:
        with Step(f"starting {'the plain VM' if config.plain else 'Xen and its domains'}"):
            arguments = _arguments(config, made, start, ports, accel)
            process = qemu.launch(arguments, folder, die_with_us=die_with_us, own=config.own_emulator)
            state: dict[str, object] = {
                "pid": process.pid,
                "started": qemu.start_time(process.pid),
                "accel": accel,
                "ports": ports,
                "config": asdict(config),
            }
            machine = Machine(name, config, state)
            machine.write_down()
            _boot(machine)
        if products:
            machine.products = products
            with Step("loading xway"):
                build.install(machine.domains, products, config.policy)
        return machine
    except BaseException as error:
        fault = machine is not None and machine.emulator_failed
        if process:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
        if fault and isinstance(error, RigError):
            raise EmulatorFault(str(error)) from error
        raise


def _products(config: Config, made: image.Base) -> build.Products:
    """Build all that the domains get."""
    return build.pack(build.products(config.debian, config.kernel), made.modules(config.kernel))


def _boot(machine: Machine) -> None:
    """Wait for the domains, starting the guests on the way."""
    try:
        if machine.config.plain:
            _wait(machine, machine.guest("g1"))
            machine.measure()
        else:
            _wait(machine, machine.dom0)
            ready = "while [ ! -e /run/rig-ready ]; do sleep 0.1; done"
            machine.dom0.run(ready, timeout=60)
            machine.measure()
            for number in range(1, machine.config.guests + 1):
                machine.create_guest(guest_name(number))
        for guest in machine.guests:
            _wait(machine, guest)
    except RigError as error:
        error.args = (f"{error}\n{_last_words(machine)}",)
        raise


def _last_words(machine: Machine) -> str:
    """Return what can be learned of a rig whose domains do not come up."""
    texts = {name: machine.console(name) for name in machine.domains}
    if not machine.config.plain:
        with contextlib.suppress(RigError):
            texts["xl"] = machine.dom0.run("xl list; xl vcpu-list", timeout=20, connect_wait=2.0).stdout
    return "\n".join(f"{name}: {line}" for name, text in texts.items() for line in kernellog.gist(text))


def _wait(machine: Machine, guest: Guest) -> None:
    """Wait until `guest` runs commands, giving up at once if the emulator dies."""
    is_guest = not machine.config.plain and guest.name != "dom0"
    slow = machine.config.type == "hvm" and is_guest
    patience = pace.limit(HVM_BOOT_SECONDS if slow else BOOT_SECONDS)
    end = time.monotonic() + patience
    while True:
        if not machine.alive:
            log = (machine.folder / "qemu.log").read_text(errors="replace").strip()
            raise RigError(f"the emulator ended while {guest.name} started: {log or 'no message'}")
        if machine.emulator_failed:
            raise EmulatorFault(f"the emulator failed while {guest.name} started")
        try:
            guest.wait_ready(3.0)
            return
        except AgentGone as error:
            if is_guest and not machine.has_guest(guest.name):
                raise EmulatorFault(f"{guest.name} ended while it started") from error
            if time.monotonic() > end:
                # Nothing but Debian runs so far.
                raise EmulatorFault(f"{guest.name} is not up after {patience:.0f} s") from error
