#!/usr/bin/env python3
"""Real programs under load, with jemalloc: the tool harms none, and leaves nothing behind.

    programs.py NAME...    runs these programs
    programs.py --list     prints their names

Each program serves its usual load. In pairs of periods, one is without the tool; in the other, on,
dump, stats and off run one after the other, again and again. Throughput and the 99th percentile of
the response times are printed. What is asserted is that no request fails, that no run of the tool
fails, and that the program is as before: alive, not traced, profiling off, no file, no descriptor
and no executable memory left behind.
"""

import dataclasses
import glob
import http.client
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
import typing
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import lib  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = 5
SECONDS = 4  # of one period
CONNECTIONS = 4
CONF = "prof:true,prof_active:false,lg_prof_sample:17"
# What a run of the tool may end with: done, the process has ended (of those that are short-lived),
# or no safe point in time, which is no harm.
MAY_END = (lib.OK, lib.NO_SAFE_MOMENT)


def program(name):
    """Returns the path of a program of this machine; a skip if it is not installed."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise unittest.SkipTest("%s is not installed" % name)
    return path


def jemalloc():
    found = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if not found:
        raise unittest.SkipTest("libjemalloc2 is not installed")
    return found[0]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def children(pid):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = lib.read_text("/proc/%s/stat" % name).rpartition(")")[2].split()
            if fields[1] == str(pid):
                found.append(int(name))
        except OSError:
            continue
    return found


def command_line(pid):
    try:
        return lib.read_text("/proc/%d/cmdline" % pid).replace("\0", " ")
    except OSError:
        return ""


@dataclasses.dataclass
class Load:
    """What one period of load has done. latencies: seconds, of each request."""

    rate: float
    p99_ms: float
    errors: int
    note: str = ""


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def closed_loop(connect, seconds):
    """Returns the Load of CONNECTIONS clients that each send a request when they have the answer
    to the one before. connect() returns a function that makes one request, or raises."""
    latencies, errors = [], []
    until = time.monotonic() + seconds

    def client():
        try:
            request = connect()
            while time.monotonic() < until:
                began = time.monotonic()
                request()
                latencies.append(time.monotonic() - began)
        except (OSError, http.client.HTTPException, ValueError) as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=client) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(len(latencies) / seconds, percentile(latencies, 0.99) * 1000, len(errors),
                "; ".join(errors[:2]))


def http_client(port, path, expected):
    def connect():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

        def request():
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200 or expected not in body:
                raise ValueError("status %d, %r" % (answer.status, body[:60]))

        return request

    return connect


# ---- the programs --------------------------------------------------------------------------


class Server:
    """A program that is started, answers, and is put under load."""

    preload = True
    conf = CONF
    environment: typing.Dict[str, str] = {}
    path = "/"
    expected = b""

    def __init__(self, directory):
        self.directory = directory
        self.port = free_port()
        self.process = None

    def command(self):
        raise NotImplementedError

    def prepare(self):
        """Makes what the program needs, before it is started."""

    def start(self):
        self.prepare()
        variables = dict(self.environment, MALLOC_CONF=self.conf)
        if self.preload:
            variables["LD_PRELOAD"] = jemalloc()
        with open(os.path.join(self.directory, "log"), "wb") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.directory, env=lib.tool_environment(variables),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if not lib.wait_until(lambda: self.process.poll() is not None or self.ready(), 60, 0.1):
            raise AssertionError("it does not answer: " + self.log())
        if self.process.poll() is not None:
            raise AssertionError("it has ended: " + self.log())

    def log(self):
        return lib.read_text(os.path.join(self.directory, "log"))[-1500:]

    def ready(self):
        try:
            http_client(self.port, self.path, self.expected)()()
            return True
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def load(self, seconds):
        return closed_loop(http_client(self.port, self.path, self.expected), seconds)

    def targets(self):
        """Returns the processes that the tool is to work on now."""
        return [self.process.pid]

    def stop(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Redis(Server):
    preload = False  # linked with it

    def command(self):
        words = "--port 0 --daemonize no --appendonly no --unixsocket socket --save".split()
        return [program("redis-server")] + words + [""]

    def ready(self):
        return os.path.exists(os.path.join(self.directory, "socket"))

    def load(self, seconds):
        """redis-benchmark counts requests, not seconds: it is run until the period is over."""
        rates, tails, until, errors = [], [], time.monotonic() + seconds, 0
        words = "-n 30000 -t set,get -d 400 -r 100000 -c 20 --csv -s socket".split()
        while time.monotonic() < until:
            done = subprocess.run([program("redis-benchmark")] + words, cwd=self.directory,
                                  capture_output=True, text=True)
            rows = re.findall(r'^"(?:SET|GET)","([\d.]+)",(?:"[\d.]+",){4}"([\d.]+)"', done.stdout,
                              re.M)
            errors += done.returncode != 0 or len(rows) != 2
            rates += [float(row[0]) for row in rows]
            tails += [float(row[1]) for row in rows]
        return Load(statistics.mean(rates or [0]), max(tails or [0]), errors)


class Memcached(Server):
    def command(self):
        words = ["-u", "root", "-l", "127.0.0.1", "-p", str(self.port), "-t", "4"]
        return [program("memcached")] + words

    def connect(self):
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        answers = peer.makefile("rb")
        state = {"at": 0}

        def request():
            state["at"] += 1
            key, value = b"key%d" % (state["at"] % 5000), b"x" * (100 + state["at"] % 900)
            peer.sendall(b"set %s 0 0 %d\r\n%s\r\nget %s\r\n" % (key, len(value), value, key))
            if answers.readline() != b"STORED\r\n":
                raise ValueError("not stored")
            head = answers.readline()
            if not head.startswith(b"VALUE " + key):
                raise ValueError("no value: %r" % head)
            answers.read(int(head.split()[3]) + 2)
            if answers.readline() != b"END\r\n":
                raise ValueError("no end")

        return request

    def ready(self):
        try:
            self.connect()()
            return True
        except (OSError, ValueError):
            return False

    def load(self, seconds):
        return closed_loop(self.connect, seconds)


class Nginx(Server):
    expected = b"hello"

    def prepare(self):
        with open(os.path.join(self.directory, "page"), "w") as file:
            file.write("hello " * 2000)
        text = """daemon off; worker_processes 2; pid %(d)s/pid; error_log %(d)s/errors; user root;
            events { worker_connections 256; }
            http { access_log off; client_body_temp_path %(d)s/b; proxy_temp_path %(d)s/p;
              fastcgi_temp_path %(d)s/f; uwsgi_temp_path %(d)s/u; scgi_temp_path %(d)s/s;
              gzip on; gzip_types text/plain; gzip_proxied any;
              server { listen 127.0.0.1:%(p)d; root %(d)s;
                       location / { try_files /page =404; } } }"""
        with open(os.path.join(self.directory, "conf"), "w") as file:
            file.write(text % {"d": self.directory, "p": self.port})

    def command(self):
        return [program("nginx"), "-p", self.directory, "-c", os.path.join(self.directory, "conf")]

    def targets(self):
        return children(self.process.pid)


class Varnish(Server):
    """Caches what a server of Python's own gives; jemalloc is linked in."""

    preload = False
    expected = b"hello"

    def prepare(self):
        self.backend_port = free_port()
        with open(os.path.join(self.directory, "page"), "w") as file:
            file.write("hello " * 2000)
        self.backend = subprocess.Popen(
            [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(self.backend_port)],
            cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    path = "/page"

    def command(self):
        return [program("varnishd"), "-F", "-j", "none", "-n", os.path.join(self.directory, "v"),
                "-a", "127.0.0.1:%d" % self.port, "-b", "127.0.0.1:%d" % self.backend_port]

    def targets(self):
        return [pid for pid in children(self.process.pid)
                if lib.read_text("/proc/%d/comm" % pid).startswith("cache")]

    def stop(self):
        super().stop()
        lib.end_process(self.backend)


class Node(Server):
    expected = b"hello"

    def command(self):
        script = """require('http').createServer((q, r) => {
            const b = Buffer.alloc(20000, 'hello '); r.end(b.toString() + JSON.stringify(
            Array.from({length: 200}, (_, i) => ({i, s: 'x'.repeat(i)}))).length)
        }).listen(%d, '127.0.0.1')""" % self.port
        return [program("node"), "-e", script]


class Python(Server):
    expected = b"hello"
    environment = {"PYTHONMALLOC": "malloc"}

    def command(self):
        script = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = ''.join('hello %%d ' %% i for i in range(800)).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body)))
        self.end_headers(); self.wfile.write(body)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(('127.0.0.1', %d), H).serve_forever()
""" % self.port
        return [sys.executable, "-c", script]


class Java(Server):
    expected = b"hello"

    def prepare(self):
        text = """import com.sun.net.httpserver.*; import java.net.*; import java.nio.*;
            import java.util.concurrent.*; import java.util.zip.*;
            class Hello { public static void main(String[] a) throws Exception {
              HttpServer s = HttpServer.create(new InetSocketAddress("127.0.0.1",
                Integer.parseInt(a[0])), 0);
              s.setExecutor(Executors.newFixedThreadPool(4));
              s.createContext("/", e -> { StringBuilder b = new StringBuilder();
                for (int i = 0; i < 800; i++) b.append("hello ").append(i);
                byte[] x = b.toString().getBytes(); ByteBuffer d = ByteBuffer.allocateDirect(40000);
                d.put(x); Deflater z = new Deflater(); z.setInput(x); z.finish();
                z.deflate(new byte[9000]); z.end();
                e.sendResponseHeaders(200, x.length); e.getResponseBody().write(x); e.close(); });
              s.start(); } }"""
        with open(os.path.join(self.directory, "Hello.java"), "w") as file:
            file.write(text)
        subprocess.run([program("javac"), "Hello.java"], cwd=self.directory, check=True)

    def command(self):
        return [program("java"), "-Xmx256m", "-cp", self.directory, "Hello", str(self.port)]


class Ruby(Server):
    expected = b"hello"

    def command(self):
        script = """require 'socket'
            s = TCPServer.new('127.0.0.1', %d)
            loop { c = s.accept; Thread.new { begin
              while (l = c.gets)
                next unless l == "\\r\\n"
                b = (0...800).map { |i| "hello #{i} " }.join
                c.write "HTTP/1.1 200 OK\\r\\nContent-Length: #{b.bytesize}\\r\\n\\r\\n" + b
              end
            rescue SystemCallError; end } }""" % self.port
        return [program("ruby"), "-e", script]


class Go(Server):
    """A server whose handlers allocate by C's malloc."""

    expected = b"hello"

    def prepare(self):
        text = """package main
            // #include <stdlib.h>
            // #include <string.h>
            import "C"
            import ("net/http"; "os"; "strings"; "unsafe")
            func main() {
              text := strings.Repeat("hello ", 800)
              http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
                c := C.CString(text); d := C.strdup(c); w.Write([]byte(C.GoString(d)))
                C.free(unsafe.Pointer(c)); C.free(unsafe.Pointer(d)) })
              http.ListenAndServe(os.Args[1], nil) }"""
        with open(os.path.join(self.directory, "hello.go"), "w") as file:
            file.write(text)
        settings = dict(os.environ, GOCACHE=os.path.join(self.directory, "cache"), GOFLAGS="",
                        GOPATH=os.path.join(self.directory, "path"), GO111MODULE="off")
        subprocess.run([program("go"), "build", "-o", "hello", "hello.go"], cwd=self.directory,
                       env=settings, check=True)

    def command(self):
        return [os.path.join(self.directory, "hello"), "127.0.0.1:%d" % self.port]


class Postgres(Server):
    """The backends of pgbench's connections."""

    def binaries(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not found:
            raise unittest.SkipTest("postgresql is not installed")
        return found[-1]

    def as_nobody(self, words):
        lib.require_root()
        return [program("setpriv"), "--reuid", str(lib.NOBODY), "--regid", str(lib.NOBODY),
                "--clear-groups"] + words

    def prepare(self):
        os.chmod(self.directory, 0o755)
        self.data = os.path.join(self.directory, "data")
        os.mkdir(self.data)
        os.chown(self.data, lib.NOBODY, lib.NOBODY)
        words = [os.path.join(self.binaries(), "initdb"), "-D", self.data]
        words += ["-A", "trust", "-U", "pg"]
        subprocess.run(self.as_nobody(words), check=True, capture_output=True, cwd="/")

    def command(self):
        words = [os.path.join(self.binaries(), "postgres"), "-D", self.data, "-k", self.data,
                 "-p", str(self.port), "-c", "listen_addresses=", "-c", "fsync=off",
                 "-c", "autovacuum=off"]
        return self.as_nobody(words)

    def bench(self, *words):
        argv = [os.path.join(self.binaries(), "pgbench"), "-h", self.data, "-p", str(self.port)]
        return subprocess.run(argv + ["-U", "pg"] + list(words) + ["postgres"],
                              capture_output=True, text=True, cwd=self.directory)

    def ready(self):
        return self.bench("-i", "-q", "-s", "2").returncode == 0

    def load(self, seconds):
        done = self.bench("-c", str(CONNECTIONS), "-j", "2", "-T", str(seconds), "-l",
                          "--log-prefix=bench")
        latencies = []
        for name in glob.glob(os.path.join(self.directory, "bench*")):
            latencies += [int(line.split()[2]) / 1000 for line in lib.read_text(name).splitlines()]
            os.unlink(name)
        rate = re.search(r"tps = ([\d.]+) \(without", done.stdout)
        failed = re.search(r"failed transactions: (\d+)", done.stdout)
        errors = int(done.returncode != 0) + int(failed[1] if failed else 1)
        return Load(float(rate[1]) if rate else 0, percentile(latencies, 0.99), errors,
                    done.stderr[-200:] if errors else "")

    def targets(self):
        return [pid for pid in children(self.process.pid) if "pg postgres" in command_line(pid)]


class Mariadb(Server):
    def prepare(self):
        self.data = os.path.join(self.directory, "data")
        install = program("mariadb-install-db")
        words = ["--no-defaults", "--datadir=" + self.data, "--user=root",
                 "--auth-root-authentication-method=normal"]
        subprocess.run([install] + words, check=True, capture_output=True, cwd=self.directory)

    def command(self):
        return [program("mariadbd"), "--no-defaults", "--datadir=" + self.data, "--user=root",
                "--socket=" + os.path.join(self.directory, "socket"), "--skip-networking",
                "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0",
                "--pid-file=" + os.path.join(self.directory, "pid")]

    def client(self, *words):
        socket_word = "--socket=" + os.path.join(self.directory, "socket")
        argv = [program("mariadb"), "--no-defaults", socket_word, "-uroot"]
        return subprocess.run(argv + list(words), capture_output=True, text=True)

    def sysbench(self, *words):
        argv = [program("sysbench"), "oltp_read_write", "--db-driver=mysql", "--mysql-user=root",
                "--mysql-socket=" + os.path.join(self.directory, "socket"), "--mysql-db=load",
                "--tables=2", "--table-size=2000", "--threads=%d" % CONNECTIONS, "--percentile=99"]
        return subprocess.run(argv + list(words), capture_output=True, text=True,
                              cwd=self.directory)

    def ready(self):
        program("sysbench")
        if self.client("-e", "create database if not exists `load`").returncode:
            return False
        return self.sysbench("prepare").returncode == 0

    def load(self, seconds):
        done = self.sysbench("--time=%d" % seconds, "--rand-type=uniform", "run")
        rate = re.search(r"transactions: +\d+ +\(([\d.]+) per", done.stdout)
        tail = re.search(r"99th percentile: +([\d.]+)", done.stdout)
        return Load(float(rate[1]) if rate else 0, float(tail[1]) if tail else 0,
                    int(done.returncode != 0), "" if rate else (done.stdout + done.stderr)[-200:])


class Clang(Server):
    """A compiler: each request is one run. Its result must be the same each time."""

    def prepare(self):
        text = ("int f%d(int a, int b) { struct { int x[%d]; } s = {{a}};"
                " for (int i = 0; i < b; i++) s.x[i %% %d] += i * a; return s.x[b %% %d]; }")
        functions = [text % (i, i + 1, i + 1, i + 1) for i in range(120)]
        with open(os.path.join(self.directory, "big.c"), "w") as file:
            file.write("\n".join(functions))
        self.running = None
        self.wanted = None

    def start(self):
        self.prepare()
        self.compile()

    def compile(self):
        out = os.path.join(self.directory, "big.o")
        variables = {"MALLOC_CONF": CONF, "LD_PRELOAD": jemalloc()}
        self.running = subprocess.Popen([program("clang"), "-O2", "-c", "big.c", "-o", out],
                                        cwd=self.directory, env=lib.tool_environment(variables),
                                        stderr=subprocess.PIPE)
        said = self.running.communicate()[1]
        made = lib.read_bytes(out)
        self.wanted = self.wanted or made
        if self.running.returncode or said or made != self.wanted:
            raise ValueError("clang: exit code %d, %r" % (self.running.returncode, said[:100]))

    def load(self, seconds):
        latencies, errors, began = [], [], time.monotonic()
        while time.monotonic() < began + seconds:
            start = time.monotonic()
            try:
                self.compile()
            except (OSError, ValueError) as error:
                errors.append(repr(error))
            latencies.append(time.monotonic() - start)
        return Load(len(latencies) / (time.monotonic() - began), max(latencies) * 1000, len(errors),
                    "; ".join(errors[:2]))

    def targets(self):
        running = self.running
        return [running.pid] if running and running.poll() is None else []

    def stop(self):
        if self.running and self.running.poll() is None:
            self.running.kill()


PROGRAMS = {
    "redis": Redis, "memcached": Memcached, "nginx": Nginx, "varnish": Varnish, "node": Node,
    "python": Python, "java": Java, "ruby": Ruby, "go": Go, "postgres": Postgres,
    "mariadb": Mariadb, "clang": Clang,
}
SHORT_LIVED = ("postgres", "clang")  # a process ends with its connection, or its work


# ---- the test ------------------------------------------------------------------------------


class Disturbance:
    """Runs on, dump, stats, off on each target, again and again, until it is told to stop."""

    def __init__(self, server, directory, may_end):
        self.server, self.directory, self.may_end = server, directory, may_end
        self.codes, self.faults, self.longest, self.over = {}, [], 0, threading.Event()
        self.thread = threading.Thread(target=self.work)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.over.set()
        self.thread.join()

    def work(self):
        while not self.over.is_set():
            for pid in self.server.targets():
                self.visit(pid)
            self.over.wait(0.05)

    def visit(self, pid):
        profile = os.path.join(self.directory, "profile")
        self.one("on", pid)
        self.one("dump", pid, "-o", profile)
        if os.path.exists(profile):
            os.unlink(profile)
        self.one("stats", "--full", pid)
        self.one("dump", pid, "--call", "-o", profile)
        if os.path.exists(profile):
            os.unlink(profile)
        self.one("off", pid)

    def one(self, verb, pid, *words):
        result = lib.run_tool(verb, "--json", "--timeout", "10s", pid, *words)
        self.codes[(verb, result.code)] = self.codes.get((verb, result.code), 0) + 1
        held = re.findall(r'"held_ns": (\d+)', result.out.decode())
        self.longest = max([self.longest] + [int(ns) for ns in held])
        if result.code not in self.may_end:
            self.faults.append(str(result)[:600])


class Programs(lib.TestCase):
    def pair(self, server, name, may_end):
        """One period without the tool, one with it; returns both loads and the disturbance."""
        without = server.load(SECONDS)
        with Disturbance(server, self.directory(), may_end) as disturbance:
            during = server.load(SECONDS)
        for load in (without, during):
            self.assertEqual(load.errors, 0, load.note)
            self.assertGreater(load.rate, 0, name)
        self.assertEqual(disturbance.faults, [])
        return without, during, disturbance

    def footprint(self, server, pids):
        """Returns what the tool could leave: profiles, code, descriptors, a seccomp filter."""
        found = {"files": sorted(name for _, _, names in os.walk(server.directory)
                                 for name in names if name.endswith(".heap"))}
        for pid in pids:
            opened = lib.descriptors(pid).values()
            found[pid] = {
                # Those who compile at run time have other executable memory of their own.
                "code": [m for m in lib.mappings(pid) if "jeattach" in m.path],
                "descriptors": sorted(name for name in opened if "jeattach" in name),
                "filter": lib.status_fields(pid)["Seccomp"],
            }
        return found

    def assert_as_before(self, server, before, pids):
        self.assertEqual(self.footprint(server, pids), before)
        for pid in pids:
            for tid in lib.threads(pid):
                self.assertEqual(lib.tracer_of_thread(pid, tid), 0)
            self.assertNotIn(lib.state_of(pid), "tTZ")
            told = lib.run_tool("status", "--json", "--no-call", pid)
            self.assertIn('"prof.active": false', told.text)

    def check(self, name):
        directory = self.directory()
        server = PROGRAMS[name](directory)
        self.addCleanup(server.stop)
        server.start()
        server.load(1)
        short = name in SHORT_LIVED
        pids = [] if short else server.targets()
        before = self.footprint(server, pids)
        # A process of a moment may end, or not have begun to allocate.
        may_end = MAY_END + ((lib.GONE, lib.NO_JEMALLOC, lib.NOT_PERMITTED) if short else ())
        pairs = [self.pair(server, name, may_end) for _ in range(PAIRS)]
        if not short:
            self.assertEqual(server.targets(), pids, "other processes: some have ended")
        self.assert_as_before(server, before, pids)
        self.assertTrue(sum(sum(d.codes.values()) for _, _, d in pairs), "the tool was not run")
        self.tell(name, pairs)

    def tell(self, name, pairs):
        middle = lambda values: statistics.median(values)
        rates = [[load.rate for load in column] for column in list(zip(*pairs))[:2]]
        tails = [[load.p99_ms for load in column] for column in list(zip(*pairs))[:2]]
        codes = {}
        for _, _, disturbance in pairs:
            for key, count in disturbance.codes.items():
                codes[key] = codes.get(key, 0) + count
        print("%-10s without %9.1f/s p99 %8.2f ms, with %9.1f/s p99 %8.2f ms (%+.1f %%); "
              "longest stop %.1f ms; runs: %s" % (
                  name, middle(rates[0]), middle(tails[0]), middle(rates[1]), middle(tails[1]),
                  (middle(rates[1]) / middle(rates[0]) - 1) * 100,
                  max(d.longest for _, _, d in pairs) / 1e6,
                  ", ".join("%s %d: %d" % (verb, code, count)
                            for (verb, code), count in sorted(codes.items()))), flush=True)


def add_methods():
    for name in PROGRAMS:
        setattr(Programs, "test_" + name, lambda self, name=name: self.check(name))


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(PROGRAMS))
        return
    sys.argv[1:] = ["test_" + name for name in sys.argv[1:]]
    lib.main()


add_methods()

if __name__ == "__main__":
    main()
