#!/usr/bin/env python3
"""Real programs whose memory only turns over: `leak` accuses nothing.

    innocent.py NAME...    runs these programs; NAME is that of --list
    innocent.py --list     prints their names

Each program has a bounded cache, which is full, or none, and a steady load. With jemalloc, with
profiling that begins with the run of `leak`, and with the allocator of the C library.
"""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import programs  # noqa: E402
from programs import lib  # noqa: E402

SECONDS = 20
WARM_UP = 15
PAUSE = 0.004  # between two requests of one of the four connections
ACCUSING = ("grows", "one_of", "once")


def paced(connect):
    """As connect, with a pause after each request: a steady load, not the largest."""

    def connect_slowly():
        request = connect()

        def request_and_rest():
            request()
            time.sleep(PAUSE)

        return request_and_rest

    return connect_slowly


class Steady:
    """Mixed into servers: an http server's load, with pauses."""

    conf = "prof:true,prof_active:false"

    def request_path(self):
        return self.path

    def load(self, seconds):
        return programs.closed_loop(paced(self.connect), seconds)

    def connect(self):
        def request():
            programs.http_client(self.port, self.request_path(), self.expected)()()

        return request


class Redis(Steady, programs.Redis):
    """40 MB of the most recently used keys, with values of 100 to 1,000 bytes."""

    def command(self):
        return super().command() + ["--maxmemory", "40mb", "--maxmemory-policy", "allkeys-lru"]

    def connect(self):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(os.path.join(self.directory, "socket"))
        answers = peer.makefile("rb")

        def request():
            lines = [b"SET key:%d %s\r\n" % (random.randrange(1000000),
                                            b"x" * random.randrange(100, 1000)) for _ in range(10)]
            peer.sendall(b"".join(lines))
            for _ in lines:
                if answers.readline() != b"+OK\r\n":
                    raise ValueError("no OK")

        return request


class Memcached(Steady, programs.Memcached):
    """16 MB, which the warm-up fills."""

    def command(self):
        return super().command() + ["-m", "16"]

    def connect(self):
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        answers = peer.makefile("rb")

        def request():
            lines = []
            for _ in range(20):
                value = b"x" * random.randrange(100, 1000)
                lines.append(b"set key%d 0 0 %d\r\n%s\r\n" % (random.randrange(1000000),
                                                             len(value), value))
            peer.sendall(b"".join(lines))
            for _ in lines:
                if answers.readline() != b"STORED\r\n":
                    raise ValueError("not stored")

        return request


class Nginx(Steady, programs.Nginx):
    pass


class Varnish(Steady, programs.Varnish):
    """200 pages of 12 kB, all in its cache. (Where objects expire or are evicted, varnish 7.1.1
    keeps their object heads, MAIN.n_objecthead, and `leak` says so.)"""

    def command(self):
        return super().command() + ["-p", "default_ttl=3600", "-s", "malloc,64m"]

    def request_path(self):
        return "/page?%d" % random.randrange(200)


class Node(Steady, programs.Node):
    expected = b"hello"

    def command(self):
        script = """const cache = new Map();
            require('http').createServer((q, r) => {
            const b = Buffer.alloc(2000 + Math.random() * 8000, 'hello ');
            cache.set(Math.floor(Math.random() * 1e9), [b, {s: 'x'.repeat(100)}]);
            if (cache.size > 2000) cache.delete(cache.keys().next().value);
            r.end(b.toString()) }).listen(%d, '127.0.0.1')""" % self.port
        return [programs.program("node"), "-e", script]


PYTHON = """
import collections, http.server, random, sys
cache = collections.OrderedDict()
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = ('hello ' * random.randrange(20, 400)).encode()
        cache[random.random()] = {'body': body, 'words': [str(i) for i in range(20)]}
        while len(cache) > 4000:
            cache.popitem(last=False)
        self.send_response(200); self.send_header('Content-Length', str(len(body)))
        self.end_headers(); self.wfile.write(body)
    def log_message(self, *words): pass
http.server.HTTPServer(('127.0.0.1', %d), H).serve_forever()
"""


class Python(Steady, programs.Python):
    environment = {}

    def command(self):
        return ["/usr/bin/python3", "-c", PYTHON % self.port]


class PythonMalloc(Python):
    environment = {"PYTHONMALLOC": "malloc"}


class Java(Steady, programs.Java):
    def command(self):
        words = super().command()
        return words[:1] + ["-Xms64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC"] + words[1:]


class Rust(Steady, programs.Server):
    """A map with 20,000 strings, of which the oldest is dropped for each new one."""

    expected = b"hello"

    def prepare(self):
        text = """
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex};
#[derive(Default)]
struct Cache { map: HashMap<u64, String>, order: VecDeque<u64>, next: u64 }
impl Cache {
    fn put(&mut self) {
        self.next = self.next.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let key = self.next;
        self.map.insert(key, "hello ".repeat((key >> 33) as usize % 300 + 1));
        self.order.push_back(key);
        if self.order.len() > 20000 { let old = self.order.pop_front().unwrap();
                                      self.map.remove(&old); }
    }
}
fn main() {
    let port = std::env::args().nth(1).unwrap();
    let cache = Arc::new(Mutex::new(Cache::default()));
    for _ in 0..20000 { cache.lock().unwrap().put(); }
    for peer in std::net::TcpListener::bind("127.0.0.1:".to_owned() + &port).unwrap().incoming() {
        let (cache, mut peer) = (cache.clone(), peer.unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(peer.try_clone().unwrap()).lines() {
                match line { Err(_) => return, Ok(text) if !text.is_empty() => continue, _ => () }
                for _ in 0..20 { cache.lock().unwrap().put(); }
                let body = "hello".repeat(200);
                let head = format!("HTTP/1.1 200 OK\\r\\nContent-Length: {}\\r\\n\\r\\n", body.len());
                if peer.write_all((head + &body).as_bytes()).is_err() { return }
            }
        });
    }
}
"""
        with open(os.path.join(self.directory, "service.rs"), "w") as file:
            file.write(text)
        subprocess.run([programs.program("rustc"), "-O", "-g", "service.rs"], cwd=self.directory,
                       check=True, capture_output=True)

    def command(self):
        return [os.path.join(self.directory, "service"), str(self.port)]


class Postgres(Steady, programs.Postgres):
    """One backend, whose connection stays. Its shared buffers are few, so that it has used all of
    them after the warm-up."""

    def command(self):
        return super().command() + ["-c", "shared_buffers=4MB", "-c", "wal_buffers=256kB"]

    def load(self, seconds):
        self.bench("-n", "-c", "1", "-R", "300", "-T", str(seconds))


class Mariadb(Steady, programs.Mariadb):
    def load(self, seconds):
        self.sysbench("--time=%d" % seconds, "--rate=60", "--rand-type=uniform", "run")


JEMALLOC = {
    "redis": Redis, "memcached": Memcached, "nginx": Nginx, "varnish": Varnish, "node": Node,
    "python": PythonMalloc, "java": Java, "rust": Rust, "postgres": Postgres, "mariadb": Mariadb,
}
# redis and varnish are linked with jemalloc.
PROGRAMS = dict(JEMALLOC)
PROGRAMS.update({name + "_glibc": base for name, base in JEMALLOC.items()
                 if name not in ("redis", "varnish", "python")})
PROGRAMS["python_glibc"] = Python


class Innocent(lib.TestCase):
    @contextlib.contextmanager
    def loaded(self, server):
        """With the load, from the end of the warm-up on."""
        load = threading.Thread(target=server.load, args=(WARM_UP + SECONDS + 8,))
        load.start()
        time.sleep(WARM_UP)
        yield
        load.join()

    def check(self, name):
        server = PROGRAMS[name](self.directory())
        if name.endswith("_glibc"):
            server.preload = False
        self.addCleanup(server.stop)
        server.start()
        with self.loaded(server):
            pid = server.targets()[0]
            result = lib.run_tool("leak", "--json", "-d", "%ds" % SECONDS, pid,
                                  timeout=SECONDS + lib.TOOL_TIMEOUT)
        self.assertIn(result.code, (lib.OK, lib.PROFILING_OFF), result)
        told = json.loads(result.out)
        print("%-16s %s" % (name, told["answer"]), flush=True)
        self.assertNotIn(told["verdict"], ACCUSING, json.dumps(told, indent=1)[:4000])


def add_methods():
    for name in PROGRAMS:
        setattr(Innocent, "test_" + name, lambda self, name=name: self.check(name))


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(PROGRAMS))
        return
    sys.argv[1:] = ["test_" + name for name in sys.argv[1:]]
    lib.main()


add_methods()

if __name__ == "__main__":
    main()
