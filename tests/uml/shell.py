"""Commands in the User-mode kernel."""

import subprocess


def sh(command: str, timeout: float = 60) -> str:
    """Run a command of the shell's, which must end well in so many seconds; return what it prints."""
    done = subprocess.run(
        command, shell=True, text=True, timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, f"{command}: status {done.returncode}: {done.stdout}"
    return done.stdout
