"""The base of the benchmarks: processes, slots, windows, series and the table."""

import json
import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

MS = 1_000_000
MIB = 1 << 20


class Failure(Exception):
    """A command of the benchmark failed."""


@dataclass
class Run:
    """A command that has ended. max_rss is at least the size of the harness: between vfork and
    exec a child is as large as its parent, and the kernel keeps the maximum."""

    argv: list
    wall_ns: int
    code: int
    max_rss: int
    cpu_ns: int
    out: str
    err: str

    def described(self):
        text = (self.out + self.err).strip() or "(no output)"
        return f"$ {' '.join(self.argv)}\nexit {self.code}\n{text[:2000]}"


class Bench:
    """The processes, files and failures of a run. Entered once for each part; leaving a part ends
    its processes and removes its files."""

    def __init__(self, build, tool, jemalloc, gdb):
        self.helpers = os.path.join(build, "bench")
        self.tool = tool
        self.jemalloc = jemalloc
        self.gdb = gdb
        self.failures = []
        self.notes = []
        self.children = []
        self.dir = None
        self.patience = 0

    def __enter__(self):
        self.patience = len(self.failures) + 10
        self.dir = tempfile.mkdtemp(prefix="jeattach-bench-", dir=tmpfs())
        return self

    def __exit__(self, *exc):
        for child in reversed(self.children):
            child.kill()
            child.wait()
        self.children.clear()
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def helper(self, name):
        return os.path.join(self.helpers, name)

    def start(self, argv, conf=None, floor=None, preload=True, **options):
        """Starts a process to be measured, with floor.so if `floor` is given, and with jemalloc:
        the machine's if `preload` is True, else the one at that path."""
        libraries = [self.jemalloc if preload is True else preload] if preload else []
        env = dict(os.environ)
        if floor:
            libraries.append(self.helper("floor.so"))
            env["JEATTACH_FLOOR"] = floor
        if libraries:
            env["LD_PRELOAD"] = " ".join(libraries)
        if conf:
            env["MALLOC_CONF"] = conf
        options.setdefault("stdout", subprocess.DEVNULL)
        child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, **options)
        self.children.append(child)
        return child

    def stop(self, child):
        child.kill()
        child.wait()
        self.children.remove(child)

    def run(self, argv, timeout=30):
        """Runs a command to its end. Only a spawn and a wait are between the two clock readings."""
        with open(self.path("out"), "w+b") as out, open(self.path("err"), "w+b") as err:
            redirect = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, err.fileno(), 2),
            ]
            start = time.perf_counter_ns()
            pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=redirect)
            status, usage = wait_at_most(pid, timeout)
            wall = time.perf_counter_ns() - start
            out.seek(0)
            err.seek(0)
            code = os.waitstatus_to_exitcode(status)
            cpu = int((usage.ru_utime + usage.ru_stime) * 1e9)
            return Run(argv, wall, code, usage.ru_maxrss * 1024, cpu,
                       out.read().decode(errors="replace"), err.read().decode(errors="replace"))

    def fail(self, run, why="failed"):
        """Records a failed command. Raises Failure if ten commands of this part have failed."""
        self.failures.append(f"{why}\n{run.described()}")
        print(f"bench: {why}: {' '.join(run.argv)}", file=sys.stderr)
        if len(self.failures) >= self.patience:
            raise Failure("too many failures")


def tmpfs():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def wait_at_most(pid, seconds):
    """wait4 with a deadline: kills a child that does not end in time."""

    def expired(signum, frame):
        os.kill(pid, signal.SIGKILL)

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return os.wait4(pid, 0)[1:]
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.wait4(pid, 0)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def wait_for(what, ready, seconds=60):
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise Failure(f"no {what} after {seconds} s")
        time.sleep(0.02)


class Slots:
    """The harness's view of slots.h."""

    SIZE, TID, LONGEST, BROKEN = 64, 0, 8, 24

    def __init__(self, path, count):
        wait_for(path, lambda: os.path.exists(path) and os.path.getsize(path) == count * self.SIZE)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.count = count
        wait_for("thread", lambda: all(self.tid(i) for i in range(count)))

    def word(self, slot, offset):
        return struct.unpack_from("Q", self.map, slot * self.SIZE + offset)[0]

    def tid(self, slot):
        return self.word(slot, self.TID)

    def reset(self):
        for slot in range(self.count):
            struct.pack_into("Q", self.map, slot * self.SIZE + self.LONGEST, 0)

    def longest(self, slots):
        return max((self.word(slot, self.LONGEST) for slot in slots), default=0)

    def broken(self):
        return sum(self.word(slot, self.BROKEN) for slot in range(self.count))


class Floor:
    """The client of floor.so, which measures inside the process."""

    def __init__(self, path):
        self.path = path

    def ask(self, line):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(60)
            peer.connect(self.path)
            peer.sendall(line.encode() + b"\n")
            ns, result = peer.recv(64).split()
        if int(result) != 0:
            raise Failure(f"in-process {line.split()[0]} returned {int(result)}")
        return int(ns)

    def toggle(self):
        return self.ask("toggle")

    def dump(self, path):
        """Makes prof.dump write a new file. Returns its time and the size of the profile."""
        ns = self.ask(f"dump {path}")
        size = os.path.getsize(path)
        os.unlink(path)
        return ns, size


class Jeattach:
    """Runs of the tool. Each returns a Run, or None if it failed; the bench records the failure."""

    def __init__(self, bench, pid):
        self.bench = bench
        self.pid = str(pid)
        self.active = None

    def call(self, verb, *options):
        run = self.bench.run([self.bench.tool, verb, self.pid, *options])
        if run.code != 0:
            self.bench.fail(run)
            return None
        return run

    def answer(self, verb, *options):
        """Runs a verb with --json. Returns the run and the parsed answer."""
        run = self.call(verb, *options, "--json")
        try:
            return (run, json.loads(run.out)) if run else (None, None)
        except ValueError:
            self.bench.fail(run, "not JSON")
            return None, None

    def toggle(self, *options):
        """Switches profiling, and checks the line that the tool prints."""
        self.active = not self.active
        run = self.call("on" if self.active else "off", *options)
        want = f"prof.active: {truth(not self.active)} -> {truth(self.active)}"
        if run and run.out.strip() != want:
            self.bench.fail(run, f"did not print '{want}'")
        return run

    def toggle_answer(self, *options, thread=None):
        self.active = not self.active
        options += ("--thread", str(thread)) if thread else ()
        return self.answer("on" if self.active else "off", *options)


class Gdb:
    """Runs of gdb. After a call that did not end, the process is not used again."""

    def __init__(self, bench, pid):
        self.bench = bench
        self.pid = str(pid)
        self.broken = bench.gdb is None
        self.can_call = True

    def call(self, expression):
        if self.broken or not self.can_call:
            return None
        run = self.bench.run([self.bench.gdb, "-nx", "-batch", "-p", self.pid,
                              "-iex", "set debuginfod enabled off", "-ex", f"call {expression}"])
        if run.code != 0 or "$1 = 0\n" not in run.out:
            self.can_call = False
            self.broken = run.code == -signal.SIGKILL
            last = (run.err.strip().splitlines() or ["no message"])[-1]
            end = "did not end in 30 s" if self.broken else f"failed: {last}"
            self.bench.notes.append(f"gdb: {expression} {end}")
            return None
        return run

    def find(self, name):
        """Attaches and prints the address of a function; calls nothing."""
        if self.broken:
            return None
        run = self.bench.run([self.bench.gdb, "-nx", "-batch", "-p", self.pid, "-iex",
                              "set debuginfod enabled off", "-ex", f"print &{name}"])
        if run.code != 0 or f"<{name}>" not in run.out:
            self.broken = True
            self.bench.notes.append(f"gdb: did not find {name}")
            return None
        return run

    def toggle(self, active):
        value = "\\001" if active else "\\000"
        return self.call(f'(int)mallctl("prof.active", (void*)0, (void*)0, "{value}", (long)1)')

    def dump(self):
        return self.call('(int)mallctl("prof.dump", (void*)0, (void*)0, (void*)0, (long)0)')


def truth(value):
    return "true" if value else "false"


@contextmanager
def window(slots, seconds):
    """A window of at least `seconds`, around the work in its body."""
    slots.reset()
    end = time.monotonic() + seconds
    yield
    time.sleep(max(end - time.monotonic(), 0.02))


@dataclass
class Series:
    """The samples of one measure under one condition, in nanoseconds or bytes."""

    values: list = field(default_factory=list)

    def add(self, value):
        self.values.append(value)

    def rank(self, share):
        """Returns the nearest-rank quantile; None if nothing was measured."""
        ordered = sorted(self.values)
        return ordered[max(-(-len(ordered) * share // 100), 1) - 1] if ordered else None

    def median(self):
        return self.rank(50)

    def max(self):
        return max(self.values, default=None)


@dataclass
class Row:
    """A line of the table: a value for each column, the claimed ratio, the target."""

    measure: str
    gdb: object = None
    floor: object = None
    baseline: object = None
    burn: object = None
    jeattach: object = None
    ratio: object = None
    target: str = ""
    reached: object = None
    unit: str = "ns"


HEADINGS = ("measure", "gdb", "floor", "baseline", "burn", "jeattach", "ratio", "target", "")


def quantity(value, unit):
    """Formats a measured value."""
    if value is None:
        return "-"
    if unit == "bytes":
        return f"{value / MIB:.1f} MiB"
    for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f} {name}"
    return f"{value:.0f} ns"


def row_words(row):
    cells = [quantity(value, row.unit)
             for value in (row.gdb, row.floor, row.baseline, row.burn, row.jeattach)]
    ratio = "-" if row.ratio is None else f"{row.ratio:.3g}"
    verdict = {True: "reached", False: "MISSED", None: ""}[row.reached]
    return [row.measure, *cells, ratio, row.target, verdict]


def table_print(rows):
    lines = [HEADINGS] + [row_words(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    for number, line in enumerate(lines):
        cells = [cell.rjust(width) if 1 <= i <= 6 else cell.ljust(width)
                 for i, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths).rstrip())


def ratio(a, b):
    return a / b if a is not None and b else None


def at_most(value, limit):
    return value <= limit if value is not None and limit is not None else None


def jemalloc_find():
    """Returns the path of the shared jemalloc that the dynamic linker would load."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines():
        if line.split()[:1] == ["libjemalloc.so.2"]:
            return line.split()[-1]
    raise Failure("no libjemalloc.so.2: install libjemalloc2")
