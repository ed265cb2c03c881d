"""Tells trouble from talk in a kernel's log."""

import re
from collections.abc import Iterable

TROUBLE = re.compile(
    r"\bBUG\b|\bWARNING\b|\bOops\b|Kernel panic|hung task|blocked for more than"
    r"|possible circular locking|INFO: possible|suspicious RCU|inconsistent lock state"
    r"|possible recursive locking|held lock freed|lock held when returning"
    r"|\bKASAN\b|\bKFENCE\b|\bUBSAN\b|\bKCSAN\b|\bKMSAN\b|unreferenced object|new suspected memory leaks"
    r"|general protection|unable to handle|INFO: rcu|rcu: INFO|rcu_\w+ (self-)?detected|soft lockup"
    r"|hard LOCKUP|refcount_t|list_(add|del) corruption|bad page state|Bad rss-counter"
    r"|[Gg]rant.*(leak|still in use)|scheduling while atomic|sleeping function called"
    r"|Out of memory|page allocation failure|segfault at|trap invalid opcode",
)

# What an untouched boot of the rig says, and it is not trouble.
ALLOWED = re.compile(
    r"Unknown kernel command line parameters|hung_task|kfence: initialized|^\s*$",
)

# A kernel's registers at a fault, in a PV guest or any other
REGISTERS = re.compile(r"RSP: (?:e02b|0018):[0-9a-f]+\s+EFLAGS: ([0-9a-f]{8})\b")

# Flags that no kernel here ever has: TF, since nobody steps through it, NT, VM, VIF and VIP, and bits that no
# processor has
IMPOSSIBLE = 0xFFDAC128
# A place in xway's code, as a call trace has it
OURS = re.compile(r"\+0x[0-9a-f]+/0x[0-9a-f]+ \[xway")


def trouble(lines: Iterable[str]) -> list[str]:
    """Return the lines that tell of trouble."""
    return [line for line in lines if TROUBLE.search(line) and not ALLOWED.search(line)]


def impossible(lines: Iterable[str]) -> bool:
    """Tell whether a kernel had flags that no instruction of it makes, and nothing of xway's came before."""
    for line in lines:
        registers = REGISTERS.search(line)
        if registers and int(registers[1], 16) & IMPOSSIBLE:
            return True
        if OURS.search(line):
            break
    return False


def gist(text: str, most: int = 40) -> list[str]:
    """Return the lines of a log from the first that tells of trouble on, or else its last, at most `most`."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if trouble([line]):
            return lines[number : number + most]
    return lines[-most:]
