# SPDX-License-Identifier: GPL-2.0
"""The configuration file and the command line of xwayd."""

import pytest

GOOD = [
    "",
    "\n\n# only a comment\n   \t# and another one",
    "allow all",
    "allow all\nallow all # twice is no harm\n",
    "group shop app1 db1\ngroup watch monitor app1 db1\r\n",
    "group one aaaaaaaa-0000-4000-8000-000000000001",
    "group caf\u00e9 app#1 db1",
    "allow all services=net,sockets\ngroup a services=net x y\ngroup b services=sockets,net x y",
    "address app1 10.0.0.5 fd00::5\naddress app1 10.0.0.6",
    "\taddress  Domain-0\t10.0.0.254  # the bridge",
]

UNKNOWN = "is unknown: expected 'allow', 'group' or 'address'"

QUOTES = "quotes mean nothing here, give a domain whose name has spaces by its UUID"

BAD = [
    ("alow all", 1, f"'alow' {UNKNOWN}"),
    ("Allow all", 1, f"'Allow' {UNKNOWN}"),
    ("\n\nallow", 3, "'allow' needs a word after it: 'allow all'"),
    ("allow app1", 1, "'allow app1' is unknown, only 'allow all' is"),
    ("allow all db1", 1, "'db1' is too much after 'allow all'"),
    ("group", 1, "'group' needs a name and domains: 'group NAME DOMAIN DOMAIN...'"),
    ("allow all\ngroup shop # app1", 2, "group 'shop' has no domains"),
    ("group a x y\ngroup b x\ngroup a z", 3, "group 'a' is already defined in line 1"),
    ("group a x y x", 1, "'x' is in group 'a' twice"),
    ("group a services=disk x", 1, "'disk' is no service: expected 'sockets' or 'net'"),
    ("group a services= x", 1, "'' is no service: expected 'sockets' or 'net'"),
    ("group a services=net,net x", 1, "'net' is given twice in 'services='"),
    ("group a x services=net", 1, "'services=net' must come right after the name of the group"),
    ("group services=net a b", 1, "'services=net' is no name: it comes after the name of the group"),
    ("group a services=net", 1, "group 'a' has no domains"),
    ("allow all services=net app1", 1, "'app1' is too much after 'allow all'"),
    ('group a "my shop" db1', 1, f'"my: {QUOTES}'),
    ("address 'my shop' 10.0.0.5", 1, f"'my: {QUOTES}"),
    ("address", 1, "'address' needs a domain and addresses: 'address DOMAIN ADDRESS...'"),
    ("address app1", 1, "'address app1' has no addresses"),
    ("address app1 10.0.0", 1, "'10.0.0' is not an IP address"),
    ("address app1 10.0.0.5/24", 1, "'10.0.0.5/24' is not an IP address"),
    ("address app1 10.0.0.5, 10.0.0.6", 1, "'10.0.0.5,' is not an IP address"),
    ("address app1 fd00::5%eth0", 1, "'fd00::5%eth0' is not an IP address"),
    ("address app1 127.0.0.1", 1, "'127.0.0.1' cannot be the address of one domain"),
    ("address app1 0.0.0.0", 1, "'0.0.0.0' cannot be the address of one domain"),
    ("address app1 255.255.255.255", 1, "'255.255.255.255' cannot be the address of one domain"),
    ("address app1 ::1", 1, "'::1' cannot be the address of one domain"),
    ("address app1 fe80::1", 1, "'fe80::1' cannot be the address of one domain"),
    ("address app1 ff02::1", 1, "'ff02::1' cannot be the address of one domain"),
    ("address app1 ::ffff:10.0.0.5", 1, "'::ffff:10.0.0.5' cannot be the address of one domain"),
    ("address a fd00::5\naddress a fd00:0::5", 2, "'fd00:0::5' is given to 'a' twice"),
    ("group a x\0y", 1, "byte 0x00 at column 10 is not text"),
    ("\ngroup a \x1b[2J", 2, "byte 0x1b at column 9 is not text"),
    ("group a " + "x" * 66000, 1, "the line is longer than 65536 bytes"),
]


@pytest.mark.parametrize("text", GOOD)
def test_good(tools, run, tmp_path, text):
    conf = tmp_path / "x.conf"
    conf.write_bytes(text.encode())
    done = run(tools / "xwayd", "--check-config", conf)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "text,line,what", BAD, ids=[b[2][:40].encode("unicode_escape").decode() for b in BAD]
)
def test_bad(tools, run, tmp_path, text, line, what):
    conf = tmp_path / "x.conf"
    conf.write_bytes(text.encode())
    done = run(tools / "xwayd", "--check-config", conf)
    assert done.returncode == 2
    assert done.stderr == f"{conf}:{line}: {what}\n"


def test_missing_file(tools, run, tmp_path):
    done = run(tools / "xwayd", "--check-config", tmp_path / "none")
    assert (done.returncode, done.stderr) == (2, f"{tmp_path}/none: No such file or directory\n")


def test_directory(tools, run, tmp_path):
    done = run(tools / "xwayd", "--check-config", tmp_path)
    assert (done.returncode, done.stderr) == (2, f"{tmp_path}: Is a directory\n")


def test_example_is_good(tools, run):
    example = tools.parent.parent / "tools/systemd/xwayd.conf"
    assert run(tools / "xwayd", "--check-config", example).returncode == 0


def test_start_with_bad_config(tools, run, tmp_path):
    conf = tmp_path / "x.conf"
    conf.write_text("allow all\nnonsense\n")
    done = run(tools / "xwayd", "--config", conf, "--lock", tmp_path / "lock")
    assert done.returncode == 2
    assert f"{conf}:2: 'nonsense' {UNKNOWN}" in done.stderr


@pytest.mark.parametrize("args", [["--nonsense"], ["--config"], ["extra"]])
def test_usage(tools, run, args):
    done = run(tools / "xwayd", *args)
    assert done.returncode == 2
    assert "xwayd --help" in done.stderr


def test_help(tools, run):
    done = run(tools / "xwayd", "--help")
    assert done.returncode == 0
    for option in "--config --check-config --clear --lock --debug --version".split():
        assert option in done.stdout


@pytest.mark.parametrize("before", [None, 0o644, 0o666])
def test_lock_is_private(tools, run, tmp_path, before):
    """Nobody else can open the lock, and keep xwayd from starting."""
    lock = tmp_path / "lock"
    if before:
        lock.touch()
        lock.chmod(before)
    run(tools / "xwayd", "--config", tmp_path / "none", "--lock", lock, XENSTORED_PATH=tmp_path / "none")
    assert lock.stat().st_mode & 0o777 == 0o600


def test_second_copy(tools, run, tmp_path):
    import fcntl

    lock = tmp_path / "lock"
    with lock.open("w") as held:
        held.write("4711\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run(tools / "xwayd", "--config", tmp_path / "none", "--lock", lock)
        assert done.returncode == 3
        assert f"another xwayd runs already ({lock}, process 4711)" in done.stderr
        assert run(tools / "xwayd", "--clear", "--lock", lock).returncode == 3
