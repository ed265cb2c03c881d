"""Languages whose runtimes use sockets in their own ways."""

import subprocess
from pathlib import Path

import pytest

from rig import compiler
from rig.machine import Machine
from rig.packages import TRIXIE
from tests import traffic
from tests.programs.way import MIB, Way

pytestmark = [pytest.mark.rig(kernel="6.12"), pytest.mark.rig(kernel="6.1")]


def compiled(files: dict[str, str], command: str) -> Path:
    """Compile `files` (their texts by name) on this host and return the program.

    command: run by the shell in their folder; leaves the program in ./program.
    """
    folder = traffic.TOP / "build/tests/programs" / Path(next(iter(files))).stem
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "program"


ASYNCIO_SERVER = """
import asyncio
async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def main():
    await (await asyncio.start_server(echo, "0.0.0.0", 7001)).serve_forever()
asyncio.run(main())
"""
ASYNCIO_CLIENT = """
import asyncio, os, sys
async def one(host):
    reader, writer = await asyncio.open_connection(host, 7001)
    sent = os.urandom(1 << 20)
    async def send():
        for at in range(0, len(sent), 5000):
            writer.write(sent[at:at + 5000])
            await writer.drain()
        writer.write_eof()
    got, _ = await asyncio.gather(reader.read(), send())
    writer.close()
    assert got == sent, (len(got), len(sent))
async def main():
    await asyncio.gather(*(one(sys.argv[1]) for _ in range(4)))
    print("right")
asyncio.run(main())
"""


def test_python_asyncio(way: Way) -> None:
    way.server.write("/tmp/t/server.py", ASYNCIO_SERVER)
    way.client.write("/tmp/t/client.py", ASYNCIO_CLIENT)
    way.talk("python3 /tmp/t/server.py", f"python3 /tmp/t/client.py {way.host}", 7 * MIB)


JAVA = """
import java.io.*; import java.net.*; import java.nio.*; import java.nio.channels.*; import java.util.*;
public class T {
    public static void main(String[] a) throws Exception {
        if (a[0].equals("server")) {
            ServerSocketChannel l = ServerSocketChannel.open().bind(new InetSocketAddress(7001));
            SocketChannel s = l.accept();
            ByteBuffer b = ByteBuffer.allocateDirect(20000);
            while (s.read(b) >= 0) { b.flip(); while (b.hasRemaining()) s.write(b); b.clear(); }
            s.close();
            return;
        }
        byte[] sent = new byte[2 << 20];
        new Random(7).nextBytes(sent);
        Socket s = new Socket(a[1], 7001);
        Thread t = new Thread(() -> { try {
            for (int at = 0; at < sent.length; at += 4096) s.getOutputStream().write(sent, at, 4096);
            s.shutdownOutput();
        } catch (IOException e) { throw new UncheckedIOException(e); } });
        t.start();
        System.out.println(Arrays.equals(sent, s.getInputStream().readAllBytes()) ? "right" : "wrong");
    }
}
"""


def test_java(way: Way) -> None:
    """Channels in the server, streams in the client; compiled by the guest's own java."""
    way.write("/tmp/t/T.java", JAVA)
    java = "java -Xint -Xmx128m -XX:+UseSerialGC /tmp/t/T.java"
    way.talk(f"{java} server", f"{java} client {way.host}", 3 * MIB, seconds=180, timeout=300)


NODE = """
const net = require("net"), crypto = require("crypto");
if (process.argv[2] == "server")
    net.createServer({ allowHalfOpen: true }, s => s.pipe(s)).listen(7001, "0.0.0.0");
else {
    const sent = crypto.randomBytes(4 << 20), got = [];
    const s = net.connect(7001, process.argv[3], () => s.end(sent));
    s.on("data", d => got.push(d));
    s.on("close", () => console.log(Buffer.concat(got).equals(sent) ? "right" : "wrong"));
}
"""


def test_node(way: Way) -> None:
    way.write("/tmp/t/t.js", NODE)
    node = "node --jitless /tmp/t/t.js"
    way.talk(f"{node} server", f"{node} client {way.host}", 8 * MIB)


GRPC = """
import concurrent.futures, os, sys, grpc
class Echo(grpc.GenericRpcHandler):
    def service(self, call):
        return grpc.stream_stream_rpc_method_handler(lambda requests, _: requests)
if sys.argv[1] == "server":
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Echo(),))
    server.add_insecure_port("0.0.0.0:7001")
    server.start()
    server.wait_for_termination()
sent = [os.urandom(size) for size in (1, 100, 10000, 1000000) * 3]
with grpc.insecure_channel(sys.argv[2] + ":7001") as channel:
    print("right" if list(channel.stream_stream("/t/t")(iter(sent))) == sent else "wrong")
"""


def test_grpc(way: Way) -> None:
    way.write("/tmp/t/t.py", GRPC)
    way.talk("python3 /tmp/t/t.py server", f"python3 /tmp/t/t.py client {way.host}", 5 * MIB)


GO = """
package main

import ("bytes"; "fmt"; "io"; "math/rand"; "net"; "os"; "sync")

func one(host string, seed int64) {
    sent := make([]byte, 1<<22)
    rand.New(rand.NewSource(seed)).Read(sent)
    c, err := net.Dial("tcp", host+":7001")
    if err != nil { panic(err) }
    go func() { c.Write(sent); c.(*net.TCPConn).CloseWrite() }()
    got, err := io.ReadAll(c)
    if err != nil || !bytes.Equal(got, sent) { panic("wrong") }
}

func main() {
    if os.Args[1] == "server" {
        l, err := net.Listen("tcp", ":7001")
        if err != nil { panic(err) }
        for {
            c, err := l.Accept()
            if err != nil { panic(err) }
            go func() { io.Copy(c, c); c.Close() }() // between two sockets: splice
        }
    }
    var all sync.WaitGroup
    for i := int64(0); i < 4; i++ {
        all.Add(1)
        go func(i int64) { one(os.Args[2], i); all.Done() }(i)
    }
    all.Wait()
    fmt.Println("right")
}
"""


def test_go(way: Way) -> None:
    """Static, with a goroutine for each direction. MPTCP, newer Go's default, would keep it on TCP."""
    program = compiled({"t.go": GO}, "CGO_ENABLED=0 go build -o program t.go")
    way.put(program, "/tmp/t/go")
    way.talk("GODEBUG=multipathtcp=0 /tmp/t/go server", f"/tmp/t/go client {way.host}", 28 * MIB)


GO_HTTP = """
package main

import ("bytes"; "crypto/sha256"; "fmt"; "io"; "math/rand"; "net/http"; "os"; "sync")

func main() {
    if os.Args[1] == "server" {
        http.HandleFunc("/sum", func(w http.ResponseWriter, r *http.Request) {
            all, err := io.ReadAll(r.Body)
            if err != nil { panic(err) }
            w.Write(all)
        })
        http.Handle("/", http.FileServer(http.Dir("/tmp/t/www")))
        panic(http.ListenAndServe(":7001", nil))
    }
    base := "http://" + os.Args[2] + ":7001/"
    var all sync.WaitGroup
    for i := int64(0); i < 4; i++ {
        all.Add(1)
        go func() {
            defer all.Done()
            sent := make([]byte, 1<<20)
            rand.New(rand.NewSource(i)).Read(sent)
            for n := 0; n < 4; n++ {
                r, err := http.Post(base + "sum", "application/octet-stream", bytes.NewReader(sent))
                if err != nil { panic(err) }
                got, err := io.ReadAll(r.Body)
                r.Body.Close()
                if err != nil || !bytes.Equal(got, sent) { panic("wrong") }
            }
        }()
    }
    all.Wait()
    r, err := http.Get(base + "file") // by sendfile()
    if err != nil { panic(err) }
    sum := sha256.New()
    io.Copy(sum, r.Body)
    fmt.Printf("%x\\n", sum.Sum(nil))
}
"""


def test_go_http(way: Way, machine: Machine) -> None:
    """Today's Go: its servers listen with MPTCP, unless told otherwise."""
    go = TRIXIE.unpacked("golang-1.24-go", "golang-1.24-src")
    root = go / "usr/lib/go-1.24"
    environment = f"GOROOT={root} GOTOOLCHAIN=local GO111MODULE=off CGO_ENABLED=0"
    program = compiled({"h.go": GO_HTTP}, f"{environment} {root}/bin/go build -o program h.go")
    way.put(program, "/tmp/t/go")
    want = way.file(8 * MIB, "/tmp/t/www/file")
    way.serve("/tmp/t/go server", 7001)
    # Before 6.12.60 the kernel has no ring for what an MPTCP listener accepts.
    reason = "kernel-socket" if machine.config.kernel == "6.1" else ""
    with way.carries(24 * MIB, reason):
        assert way.get(f"/tmp/t/go client {way.host}") == want


RUST = """
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "server" {
        let listener = TcpListener::bind("0.0.0.0:7001").await.unwrap();
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut from, mut to) = socket.split();
                tokio::io::copy(&mut from, &mut to).await.unwrap();
                to.shutdown().await.unwrap();
            });
        }
    }
    let mut all = Vec::new();
    for seed in 0..4u32 {
        let address = format!("{}:7001", args[2]);
        all.push(tokio::spawn(async move {
            let byte = |i: u32| (i.wrapping_mul(2654435761 + seed) >> 24) as u8;
            let sent: Vec<u8> = (0..1 << 20).map(byte).collect();
            let (mut from, mut to) = TcpStream::connect(address).await.unwrap().into_split();
            let copy = sent.clone();
            let sender = tokio::spawn(async move {
                to.write_all(&copy).await.unwrap();
                to.shutdown().await.unwrap();
            });
            let mut got = Vec::new();
            from.read_to_end(&mut got).await.unwrap();
            sender.await.unwrap();
            assert!(got == sent);
        }));
    }
    for one in all {
        one.await.unwrap();
    }
    println!("right");
}
"""
CARGO = """
[package]
name = "t"
version = "0.1.0"
edition = "2021"
[dependencies]
tokio = { version = "1", features = ["net", "io-util", "rt-multi-thread", "macros"] }
[[bin]]
name = "t"
path = "t.rs"
"""


def test_rust_tokio(way: Way) -> None:
    """With the crates that Debian ships."""
    linker, *words = compiler.command(way.server.debian)
    flags = " ".join([f"-Clinker={linker}", *(f"-Clink-arg={word}" for word in words)])
    program = compiled(
        {"t.rs": RUST, "Cargo.toml": CARGO},
        f"RUSTFLAGS='{flags}'"
        " cargo build -q --release --offline --config 'source.crates-io.replace-with=\"debian\"'"
        " --config 'source.debian.directory=\"/usr/share/cargo/registry\"';"
        " cp target/release/t program",
    )
    way.put(program, "/tmp/t/rust")
    way.talk("/tmp/t/rust server", f"/tmp/t/rust client {way.host}", 7 * MIB)
