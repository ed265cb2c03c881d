"""Programs that copy files."""

import pytest

from tests.programs.way import MIB, Way, smbd, sshd

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]


def test_scp(way: Way) -> None:
    want, options = way.file(4 * MIB), sshd(way)
    with way.carries(4 * MIB):
        way.get(f"scp -q {options} {way.host}:/tmp/t/file /tmp/t/copy")
    assert way.checksum("cat /tmp/t/copy") == want


def test_sftp(way: Way) -> None:
    want, options = way.file(4 * MIB), sshd(way)
    with way.carries(4 * MIB):
        way.get(f"echo get /tmp/t/file /tmp/t/copy | sftp -q -b - {options} {way.host}")
    assert way.checksum("cat /tmp/t/copy") == want


def test_ssh(way: Way) -> None:
    want, options = way.file(4 * MIB, at_client=True), sshd(way)
    with way.carries(8 * MIB):
        assert way.checksum(f"ssh {options} {way.host} cat </tmp/t/file") == want


def test_rsync_daemon(way: Way) -> None:
    want = way.file(4 * MIB)
    way.server.write("/tmp/t/rsyncd.conf", "use chroot = no\n[t]\npath = /tmp/t\n")
    way.serve("rsync --daemon --no-detach --port 8730 --config /tmp/t/rsyncd.conf", 8730)
    with way.carries(4 * MIB):
        way.get(f"rsync -a rsync://{way.host}:8730/t/file /tmp/t/copy")
    assert way.checksum("cat /tmp/t/copy") == want


def vsftpd(way: Way) -> None:
    """Start it for what is in /tmp/t/ftp."""
    way.server.put(
        way.server.debian.archive.unpacked("vsftpd") / "usr/sbin/vsftpd", "/tmp/t/vsftpd", mode=0o755
    )
    way.server.write(
        "/tmp/t/vsftpd.conf",
        "listen=YES\nlisten_port=2121\nanonymous_enable=YES\nanon_root=/tmp/t/ftp\nbackground=NO\n"
        "secure_chroot_dir=/tmp/t/empty\nseccomp_sandbox=NO\nno_anon_password=YES\nftp_username=daemon\n",
    )
    way.server.run("mkdir -p /tmp/t/empty; chmod -R a+rX /tmp/t")
    way.serve("/tmp/t/vsftpd /tmp/t/vsftpd.conf", 2121)


def test_vsftpd(way: Way) -> None:
    want = way.file(8 * MIB, "/tmp/t/ftp/file")
    vsftpd(way)
    with way.carries(8 * MIB):
        assert way.checksum(f"curl -sS ftp://{way.host}:2121/file") == want


def test_lftp(way: Way) -> None:
    want = way.file(8 * MIB, "/tmp/t/ftp/file")
    vsftpd(way)
    with way.carries(8 * MIB):
        way.get(f"lftp -c 'open ftp://{way.host}:2121; pget -n 3 file -o /tmp/t/copy'")
    assert way.checksum("cat /tmp/t/copy") == want


def test_proftpd(way: Way) -> None:
    """There and back."""
    folder = way.server.debian.archive.unpacked(
        "proftpd-core",
        "libhashkit2",
        "libhiredis0.14",
        "libmemcached11",
        "libmemcachedutil2",
        "libpcre2-posix3",
    )
    way.put_tree(folder / "usr", "/tmp/t/usr")
    want = way.file(8 * MIB, "/tmp/t/ftp/file")
    way.server.write(
        "/tmp/t/proftpd.conf",
        "Port 2121\nUseIPv6 off\nUser daemon\nGroup daemon\nDelayEngine off\nUseReverseDNS off\n"
        "PidFile /tmp/t/pid\nScoreboardFile /tmp/t/score\nWtmpLog off\nTransferLog none\n"
        "ModulePath /tmp/t/usr/lib/proftpd\n<Anonymous /tmp/t/ftp>\nUser daemon\nUserAlias anonymous daemon\n"
        "RequireValidShell off\nAllowStoreRestart on\n</Anonymous>\n",
    )
    way.server.run("mkdir -p /tmp/t/ftp/in; chown daemon /tmp/t/ftp/in; chmod -R a+rX /tmp/t")
    command = "/tmp/t/usr/sbin/proftpd -n -c /tmp/t/proftpd.conf"
    way.serve(f"LD_LIBRARY_PATH=$(echo /tmp/t/usr/lib/*-linux-gnu) {command}", 2121)
    place = f"ftp://{way.host}:2121"
    with way.carries(16 * MIB):
        assert way.checksum(f"curl -sS {place}/file") == want
        way.get(f"curl -sS {place}/file -o /tmp/t/copy && curl -sS -T /tmp/t/copy {place}/in/back")
    assert way.server.run("sha256sum </tmp/t/ftp/in/back").stdout.split()[0] == want


def test_smbclient(way: Way) -> None:
    want = way.file(4 * MIB, "/tmp/t/s/file")
    smbd(way)
    with way.carries(4 * MIB):
        way.get(f"smbclient -N -p 4450 //{way.host}/t -c 'get file /tmp/t/copy; put /tmp/t/copy back'")
    assert way.checksum("cat /tmp/t/copy") == want
    assert way.server.run("sha256sum </tmp/t/s/back").stdout.split()[0] == want
