"""One domain, or the plain VM, as the tests see it."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rig import client, pace
from rig.client import AgentGone, CommandFailed, CommandTimeout, Result
from rig.debian import Debian
from rig.errors import RigError

Command = str | Sequence[str]


def words(command: Command) -> list[str]:
    """Return the words to run: a plain string goes to the shell."""
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)


def shown(command: Command) -> str:
    """Return the command as a person would type it, cut to a line's length."""
    text = command if isinstance(command, str) else shlex.join(command)
    return text if len(text) <= 200 else text[:197] + "..."


class Background:
    """A program that goes on running in a guest; see Guest.start."""

    def __init__(self, guest: "Guest", folder: str, command: str) -> None:
        self.guest = guest
        self.command = command
        self._folder = folder
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the program's exit status, None while it runs."""
        if self._status is None:
            done = self.guest.run(f"cat {self._folder}/status 2>/dev/null || true")
            if done.stdout.strip():
                self._status = int(done.stdout)
        return self._status

    def wait(self, timeout: float = 60.0) -> Result:
        """Wait until it is over; CommandTimeout (and it runs on) after `timeout` seconds, see Guest.run.

        The domain need not answer meanwhile: it may be on the way to another host.
        """
        waiter = f"while [ ! -s {self._folder}/status ]; do sleep 0.05; done"
        try:
            self.guest.run(waiter, timeout=timeout, connect_wait=max(30.0, timeout))
        except CommandTimeout as error:
            raise CommandTimeout(
                f"{self.guest.name}: still running after {pace.limit(timeout):g} s: {self.command}",
                Result(self.stdout(), self.stderr(), -1),
            ) from error
        return Result(self.stdout(), self.stderr(), self.poll() or 0)

    def stdout(self) -> str:
        """Return what it has written to standard output so far."""
        return self.guest.run(["cat", f"{self._folder}/stdout"]).stdout

    def stderr(self) -> str:
        """Return what it has written to standard error so far."""
        return self.guest.run(["cat", f"{self._folder}/stderr"]).stdout

    def kill(self, signal: str = "KILL") -> None:
        """Send a signal to the program and all it started; none if it is over."""
        if self.poll() is None:
            self.guest.run(f"pkill -{signal} -s $(cat {self._folder}/pid) || true")


class Guest:
    """A domain with an agent in it, reached at a port of this host."""

    def __init__(
        self,
        name: str,
        port: int,
        ip4: str,
        ip6: str,
        debian: Debian,
        *,
        guest_limit: bool = True,
        dead: Callable[[], bool] = lambda: False,
    ) -> None:
        """debian: what runs in it. guest_limit, dead: see client.execute."""
        self.name = name
        self.port = port
        self.ip4 = ip4
        self.ip6 = ip6
        self.debian = debian
        self._guest_limit = guest_limit
        self._dead = dead
        self._count = 0

    def run(
        self,
        command: Command,
        *,
        timeout: float | None = 120.0,
        check: bool = True,
        stdin: bytes | str | Path = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        connect_wait: float = 30.0,
    ) -> Result:
        """Run a command: a string by the shell, a list as it is; wait for its end.

        timeout: seconds on an idle machine, see pace; None for no limit. With `check`, CommandFailed if the
        status is not 0. CommandTimeout if it was killed for its time; AgentGone if the domain does not
        answer.
        Output that is not UTF-8 gets replacement characters: use get() for files.
        """
        out, err = bytearray(), bytearray()
        limit = None if timeout is None else pace.limit(timeout)
        try:
            status = client.execute(
                self.port,
                words(command),
                stdin=stdin.encode() if isinstance(stdin, str) else stdin,
                env=env,
                cwd=cwd,
                timeout=limit,
                guest_limit=self._guest_limit,
                dead=self._dead,
                connect_wait=pace.limit(connect_wait),
                on_stdout=out.extend,
                on_stderr=err.extend,
            )
        except AgentGone as error:
            raise AgentGone(f"{self.name}: {error} while running: {shown(command)}") from error
        result = Result(out.decode(errors="replace"), err.decode(errors="replace"), status or 0)
        tail = "".join(f"\n{text[-2000:].rstrip()}" for text in (result.stdout, result.stderr) if text)
        if status is None:
            raise CommandTimeout(
                f"{self.name}: killed after {limit:g} s: {shown(command)}{tail}",
                Result(result.stdout, result.stderr, -1),
            )
        if check and status:
            raise CommandFailed(f"{self.name}: status {status} from: {shown(command)}{tail}", result)
        return result

    def start(self, command: Command, *, env: Mapping[str, str] | None = None) -> Background:
        """Start a program in the background; its output goes to files in the guest."""
        folder = self.run(["mktemp", "-d", "/tmp/rig.XXXXXX"]).stdout.strip()
        script = (
            'cd /root; setsid sh -c \'d=$1; shift; echo $$ >"$d/pid"; "$@" >"$d/stdout" 2>"$d/stderr";'
            ' echo $? >"$d/status.new"; mv "$d/status.new" "$d/status"\' sh "$@" '
            "</dev/null >/dev/null 2>&1 &\n"
            'while [ ! -s "$1/pid" ]; do sleep 0.02; done'
        )
        self.run(["/bin/sh", "-c", script, "sh", folder, *words(command)], env=env)
        return Background(self, folder, shown(command))

    def put(self, local: str | Path, path: str, *, mode: int | None = None, timeout: float = 300.0) -> None:
        """Copy a file of the host into the guest, with its permissions unless `mode` is given."""
        source = Path(local)
        try:
            bits = source.stat().st_mode & 0o7777 if mode is None else mode
        except OSError as error:
            raise RigError(f"cannot read {source}: {error.strerror}") from error
        self._write(source, path, bits, timeout)

    def write(self, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        """Make a file in the guest with this content."""
        self._write(content.encode() if isinstance(content, str) else content, path, mode, 120.0)

    def _write(self, content: bytes | Path, path: str, mode: int, timeout: float) -> None:
        script = (
            'if [ -d "$1" ]; then echo "$1 is a folder" >&2; exit 1; fi; mkdir -p "$(dirname "$1")" && '
            'cat >"$1.rig-new" && chmod "$2" "$1.rig-new" && mv "$1.rig-new" "$1"'
        )
        self.run(["/bin/sh", "-c", script, "sh", path, f"{mode:o}"], stdin=content, timeout=timeout)

    def get(self, path: str, local: str | Path, *, timeout: float = 300.0) -> None:
        """Copy a file of the guest to the host."""
        target = Path(local)
        if target.is_dir():
            target = target / Path(path).name
        errors = bytearray()
        limit = pace.limit(timeout)
        partial = target.with_name(target.name + ".rig-new")
        try:
            with open(partial, "wb") as file:
                status = client.execute(
                    self.port,
                    ["cat", "--", path],
                    timeout=limit,
                    guest_limit=self._guest_limit,
                    dead=self._dead,
                    on_stdout=file.write,
                    on_stderr=errors.extend,
                )
            if status != 0:
                text = errors.decode(errors="replace").strip() or f"not done in {limit:g} s"
                raise RigError(f"{self.name}: cannot get {path}: {text}")
            partial.replace(target)
        except OSError as error:
            raise RigError(f"cannot write {target}: {error.strerror}") from error
        finally:
            partial.unlink(missing_ok=True)

    def read(self, path: str) -> str:
        """Return a text file of the guest."""
        return self.run(["cat", "--", path]).stdout

    def wait_ready(self, timeout: float) -> None:
        """Wait until commands can be run; AgentGone after `timeout` seconds."""
        self.run(["true"], connect_wait=timeout, timeout=60.0)

    def kernel_log(self) -> str:
        """Return the kernel's log, as `dmesg` prints it."""
        return self.run(["dmesg"]).stdout

    def kernel_records(self) -> list[tuple[int, str]]:
        """Return (sequence number, text) of the records in the kernel's log."""
        records = []
        for line in self.run(["/rig/agent", "kmsg"]).stdout.splitlines():
            head, found, text = line.partition(";")
            if found and not line.startswith(" "):
                records.append((int(head.split(",")[1]), text))
        return records
