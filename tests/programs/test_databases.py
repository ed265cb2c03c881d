"""Databases and caches."""

import pytest

from tests import traffic
from tests.programs.way import MIB, Way, postgresql

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]


def test_redis(way: Way) -> None:
    way.serve("redis-server --bind 0.0.0.0 --protected-mode no --port 7001 --save '' --dir /tmp/t", 7001)
    with way.carries(MIB):
        way.get(f"redis-benchmark -h {way.host} -p 7001 -q -n 2000 -c 10 -P 4 -d 500 -t set,get,lpush")
    ask = f"redis-cli -h {way.host} -p 7001"
    assert way.get(f"{ask} llen mylist") == "2000"
    want = way.file(MIB, at_client=True)
    way.get(f"{ask} -x set file </tmp/t/file")
    assert way.checksum(f"{ask} --raw get file | head -c {MIB}") == want


@pytest.mark.parametrize("mode", ["-a", "-b"])
def test_memcached(way: Way, mode: str) -> None:
    """With the conformance test of libmemcached, of the text and of the binary protocol."""
    way.serve("memcached -u root -l 0.0.0.0 -p 7001", 7001)
    # Each of its tests is some messages on a connection: many end before rings are worth it.
    with way.carries(0):
        said = way.get(f"memccapable -h {way.host} -p 7001 {mode} || true")
    assert "[pass]" in said and "FAIL" not in said, said


def test_postgresql(way: Way) -> None:
    to = postgresql(way)
    with way.carries(MIB):
        way.get(f"pgbench {to} -q -i -s 1 postgres 2>&1")
        way.get(f"pgbench {to} -n -c 4 -t 50 postgres")
        ask = "select count(*) from pgbench_accounts union all select count(*) from pgbench_history"
        assert way.get(f'psql {to} -Atc "{ask}" postgres').split() == ["100000", "200"]
        rows = way.checksum(f'psql {to} -Atc "select generate_series(1, 100000)" postgres')
    assert rows == way.checksum("seq 1 100000")


def test_mariadb(way: Way) -> None:
    way.server.run(
        "mariadb-install-db --no-defaults --user=root --datadir=/tmp/t/my --skip-test-db"
        " --auth-root-authentication-method=normal >/dev/null 2>&1",
        timeout=300,
    )
    way.serve(
        "mariadbd --no-defaults --user=root --datadir=/tmp/t/my --socket=/tmp/t/my.sock --port=7001"
        " --bind-address=0.0.0.0 --skip-grant-tables --skip-networking=0 --innodb-buffer-pool-size=32M",
        7001,
        120,
    )
    sql = f"mariadb --no-defaults -N -h {way.host} -P 7001 -u root"
    with way.carries(MIB):
        way.get(f"{sql} -e 'create database t'")
        way.get(
            "(echo 'create table r (i int primary key, t varchar(200)) engine=innodb;';"
            " for i in $(seq 2000); do echo \"insert into r values ($i, repeat('x$i', 20));\"; done)"
            f" | {sql} t"
        )
        rows = way.checksum(f"{sql} t -e 'select i, t from r order by i'")
        for _ in range(4):
            assert way.checksum(f"{sql} t -e 'select i, t from r order by i'") == rows
    assert way.get(f"{sql} t -e 'select count(*), sum(i) from r'").split() == ["2000", "2001000"]


def test_etcd(way: Way) -> None:
    """Go at both ends, gRPC between them."""
    urls = f"http://{way.host}:7001"
    way.serve(
        f"etcd --data-dir /tmp/t/etcd --listen-client-urls {urls} --advertise-client-urls {urls}"
        " --listen-peer-urls http://127.0.0.1:7002 --unsafe-no-fsync",
        7001,
    )
    ctl = f"ETCDCTL_API=3 etcdctl --endpoints {urls} --command-timeout 60s"
    way.get("seq -w 1 100000 >/tmp/t/value")
    with way.carries(3 * MIB):
        for key in range(4):
            way.get(f"{ctl} put key{key} </tmp/t/value")
        want = way.get("for i in 1 2 3 4; do cat /tmp/t/value; echo; done | sha256sum")
        assert way.get(f"{ctl} get --prefix key --print-value-only | sha256sum") == want


# Publishes messages, each confirmed; or reads one, lets the broker fill what room there is, and reads the
# others.
AMQP = """
import pika, random, sys, time
bodies = [random.Random(i).randbytes(32768) for i in range(400)]
channel = pika.BlockingConnection(pika.ConnectionParameters(sys.argv[2], 7001)).channel()
channel.queue_declare("q")
if sys.argv[1] == "publish":
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", "q", body)
else:
    for n, (_, _, body) in enumerate(channel.consume("q", auto_ack=True), 1):
        assert body == bodies[n - 1], n
        if n == 1:
            time.sleep(5)
        if n == len(bodies):
            break
channel.connection.close()
print("right")
"""
BROKER = """exec env HOME=/tmp/t RABBITMQ_CONFIG_FILE=/tmp/t/mq.conf RABBITMQ_MNESIA_BASE=/tmp/t/mq \\
    RABBITMQ_LOG_BASE=/tmp/t RABBITMQ_ENABLED_PLUGINS_FILE=/tmp/t/plugins RABBITMQ_NODENAME=t@localhost \\
    /usr/lib/rabbitmq/bin/rabbitmq-server"""


def test_rabbitmq(way: Way) -> None:
    """Erlang's driver, which asks for one read at a time, and for none while its process has enough."""
    way.write("/tmp/t/amqp.py", AMQP)
    way.server.write(
        "/tmp/t/mq.conf",
        "listeners.tcp.default = 0.0.0.0:7001\nloopback_users = none\ndisk_free_limit.absolute = 1MB\n"
        "vm_memory_high_watermark.relative = 0.8\nlog.console = true\nlog.file = false\n",
    )
    way.serve(BROKER, 7001, 900)  # emulated, it takes minutes
    client = f"/usr/bin/python3 /tmp/t/amqp.py %s {way.host}"
    with way.carries(12 * MIB):
        assert way.get(client % "publish", 600) == "right"
    # For who does not read for seconds the other end goes on by TCP.
    before = traffic.counters(way.client) if way.name != "tcp" else {}
    assert way.get(client % "consume", 600) == "right"
    if before:
        moved = traffic.moved(before, traffic.counters(way.client))
        assert moved["rx_ring_bytes"] > MIB and not moved["violations"], moved
