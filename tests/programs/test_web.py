"""Web servers, their clients, a proxy."""

import re

import pytest

from tests.programs.way import MIB, Way

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]


def nginx(way: Way, tls: bool = False, words: str = "") -> str:
    want = way.file(8 * MIB, "/tmp/t/www/file")
    extra = ""
    if tls:
        way.server.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9 -subj /CN=g1"
            " -keyout /tmp/t/key -out /tmp/t/cert 2>/dev/null"
        )
        extra = "ssl_certificate /tmp/t/cert; ssl_certificate_key /tmp/t/key;"
    listen = "8080 ssl http2" if tls else "8080"
    way.server.write(
        "/tmp/t/nginx.conf",
        "daemon off; pid /tmp/t/pid; error_log stderr; user root; events { }\n"
        "http { sendfile on; tcp_nopush on; access_log off;\n"
        f"{words} server {{ listen {listen}; {extra} root /tmp/t/www; }} }}\n",
    )
    way.serve("nginx -c /tmp/t/nginx.conf", 8080)
    return want


def test_nginx_wget(way: Way) -> None:
    want = nginx(way)
    with way.carries(8 * MIB):
        assert way.checksum(f"wget -q -O - http://{way.host}:8080/file") == want


def test_nginx_http2_tls(way: Way) -> None:
    want = nginx(way, tls=True)
    with way.carries(8 * MIB):
        url = f"https://{way.host}:8080/file"
        assert way.checksum(f"curl -sSk --http2 {url}") == want
    assert way.get(f"curl -skI -o /dev/null -w '%{{http_version}}' --http2 {url}") == "2"


SMALL = """
import http.client, sys, time
took, ends = [], time.monotonic() + 300
while not took or time.monotonic() < ends:
    begin = time.monotonic()
    link = http.client.HTTPConnection(sys.argv[1], 8080, timeout=120)
    link.request("GET", "/small")
    assert link.getresponse().read() == b"small\\n"
    link.close()
    took.append(time.monotonic() - begin)
    if b"done" in open("/tmp/t/large", "rb").read():
        break
    time.sleep(0.2)
print(len(took), max(took))
"""


def test_nginx_sendfile_does_not_starve(way: Way) -> None:
    """One process sends 2 GiB by as large calls as it likes, to a fast reader, while others ask."""
    nginx(way, words="sendfile_max_chunk 0; tcp_nodelay on;")
    way.server.run("truncate -s 2G /tmp/t/www/huge; echo small >/tmp/t/www/small")
    way.client.write("/tmp/t/small.py", SMALL)
    way.client.run("touch /tmp/t/large")
    with way.carries(2048 * MIB):
        url = f"http://{way.host}:8080/huge"
        large = way.client.start(f"(curl -sS {url} | wc -c; echo done) >/tmp/t/large")
        count, longest = way.get(f"python3 /tmp/t/small.py {way.host}", timeout=400).split()
        large.wait(400)
    assert way.client.run("cat /tmp/t/large").stdout.split() == [str(2048 * MIB), "done"]
    print(way.name, count, longest)
    assert int(count) > 5 and float(longest) < 5, (count, longest)


def test_lynx(way: Way) -> None:
    want = nginx(way)
    with way.carries(8 * MIB):
        assert way.checksum(f"lynx -source http://{way.host}:8080/file") == want


def test_haproxy(way: Way) -> None:
    """Through a proxy in the client's guest, which splices."""
    want = nginx(way)
    way.client.write(
        "/tmp/t/haproxy.cfg",
        "global\n stats socket /tmp/t/haproxy.sock\n"
        "defaults\n mode tcp\n option splice-response\n timeout connect 20s\n timeout client 60s\n"
        f" timeout server 60s\nlisten t\n bind 127.0.0.1:8081\n server s {way.host}:8080\n",
    )
    way.client.start("haproxy -db -f /tmp/t/haproxy.cfg")
    with way.carries(8 * MIB):
        url = "http://127.0.0.1:8081/file"
        assert way.checksum(f"curl -sS --retry 20 --retry-connrefused --retry-delay 1 {url}") == want
    # It makes pipes when it splices, and keeps them.
    told = way.get("echo show info | socat - UNIX-CONNECT:/tmp/t/haproxy.sock")
    assert re.search(r"^Pipes(Used|Free): [1-9]", told, re.MULTILINE), told


def test_apache(way: Way) -> None:
    want = way.file(8 * MIB, "/tmp/t/www/file")
    way.server.run("chmod -R a+rX /tmp/t")
    way.server.write(
        "/tmp/t/apache.conf",
        "ServerRoot /etc/apache2\nServerName g1\nListen 8080\nPidFile /tmp/t/pid\nErrorLog /tmp/t/log\n"
        "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n"
        "LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n"
        "User www-data\nGroup www-data\nDocumentRoot /tmp/t/www\nEnableSendfile On\n"
        "<Directory /tmp/t/www>\nRequire all granted\n</Directory>\n",
    )
    way.serve("apache2 -X -f /tmp/t/apache.conf", 8080)
    with way.carries(8 * MIB):
        assert way.checksum(f"curl -sS http://{way.host}:8080/file") == want


def test_caddy(way: Way) -> None:
    """A server in Go."""
    want = way.file(8 * MIB, "/tmp/t/www/file")
    way.serve("caddy file-server --root /tmp/t/www --listen :8080", 8080)
    with way.carries(8 * MIB):
        assert way.checksum(f"curl -sS http://{way.host}:8080/file") == want


def test_busybox(way: Way) -> None:
    """A static binary at both ends."""
    want = way.file(8 * MIB, "/tmp/t/www/file")
    assert "static" in way.get("file -L /bin/busybox")
    way.serve("busybox httpd -f -p 8080 -h /tmp/t/www", 8080)
    with way.carries(8 * MIB):
        assert way.checksum(f"busybox wget -q -O - http://{way.host}:8080/file") == want
