"""Shared by the tests: running the tool, victims, redis-server, and reading the state of a process.
"""

import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOL = os.path.abspath(os.environ.get("JEATTACH", os.path.join(ROOT, "build", "jeattach")))
VICTIMS = os.path.abspath(
    os.environ.get("JEATTACH_VICTIMS", os.path.join(ROOT, "build", "tests", "victims"))
)
# The same tool, which shows its ptrace calls and writes on stderr; and the same again, which is
# refused executable memory (tests/refused).
TRACED_TOOL = os.path.abspath(
    os.environ.get("JEATTACH_TRACED",
                   os.path.join(ROOT, "build", "tests", "refused", "jeattach-traced"))
)
PLAN = os.environ.get("JEATTACH_PLAN", "build/tests/plan/plan-shown")
REFUSED_TOOL = os.path.abspath(
    os.environ.get("JEATTACH_REFUSED",
                   os.path.join(ROOT, "build", "tests", "refused", "jeattach-refused"))
)
SKIPPED = 77
# ./test --long: tests that otherwise take a sample do all of their work.
LONG = bool(os.environ.get("JEATTACH_LONG"))
TOOL_TIMEOUT = 40
SYS_TGKILL = 234
NOBODY = 65534

# Exit codes of the tool.
OK, INTERNAL, USAGE, GONE, NOT_PERMITTED, NO_JEMALLOC = 0, 1, 2, 3, 4, 5
PROFILING_OFF, NO_SAFE_MOMENT, CALL_LATE, OUTPUT_FAILED, REFUSED, INTERRUPTED = 6, 7, 8, 9, 10, 130


class TestCase(unittest.TestCase):
    """With temporary directories and processes that end with the test."""

    longMessage = True

    def directory(self):
        path = tempfile.mkdtemp(prefix="jeattach-test.")
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def victim(self, mode="nanosleep", **options):
        victim = Victim(mode, self.directory(), **options)
        self.addCleanup(victim.stop)
        return victim

    def process(self, argv, **options):
        process = Process(argv, **options)
        self.addCleanup(end_process, process)
        return process

    def assert_unharmed(self, victim, rounds=2, slow=False):
        """The victim continues, its self-check found no fault, and it is not traced.

        slow: it was stopped for longer than a timeout may be late, as expected.
        """
        victim.wait_rounds(rounds)
        counters = victim.counters()
        allowed = ("late",) if slow or victim.lateness_is_the_machines() else ()
        faults = {name: counters[name] for name in FAULTS if counters[name] and name not in allowed}
        self.assertEqual(faults, {}, counters["text"])
        self.assertEqual(tracer_of(victim.pid), 0, "still traced")
        self.assertIn(state_of(victim.pid), "RSD", "not running")

    def assert_failed(self, result, code, *words):
        """Checks the exit code, an empty stdout (with --json the error), and a message in the usual
        form with all of `words`."""
        self.assertEqual(result.code, code, result)
        if "--json" in result.args:
            self.assertEqual(json.loads(result.out)["error"]["exit"], code, result)
        else:
            self.assertEqual(result.out, b"", result)
        self.assertTrue(result.err.startswith("jeattach: "), result)
        for word in words:
            self.assertIn(word.lower(), result.err.lower(), result)

    def assert_ran(self, result):
        self.assertEqual(result.code, OK, result)
        return result

    def switch(self, victim, verb, *words):
        """Runs `on` or `off`, and checks its output."""
        result = self.assert_ran(run_tool(verb, victim.pid, *words))
        value = "true" if verb == "on" else "false"
        other = "false" if verb == "on" else "true"
        wanted = r"\Aprof\.active: (%s -> %s|%s \(unchanged\))\n" % (other, value, value)
        sampling = r"\d+ of \d+ sample(?: \(\d+ ha(?:s|ve) not allocated yet\))?"
        known = r"threads: (%s|.*unknown for .*)\n\Z" % sampling
        wanted += known if verb == "on" else r"\Z"
        self.assertRegex(result.text, wanted)
        return result

    def assert_profile(self, data, stacks=1):
        """Checks that `data` is a heap profile as jemalloc writes it."""
        self.assertRegex(data[:64], rb"^heap_v2/\d+\n")
        head, mark, tail = data.partition(b"\nMAPPED_LIBRARIES:\n")
        self.assertTrue(mark, "no MAPPED_LIBRARIES")
        self.assertIn(b"libjemalloc", tail)
        self.assertTrue(data.endswith(b"\n"), "ends in the middle of a line")
        self.assertGreaterEqual(len(re.findall(rb"^@ 0x", head, re.M)), stacks)


FAULTS = ("errors", "eintr", "early", "late", "errno_lost")


# ---- the tool ------------------------------------------------------------------------------


class Result(namedtuple("Result", "args code out err seconds wall", defaults=(0,))):
    """wall: seconds from start to end. seconds: less those in which it waited for a CPU."""

    @property
    def text(self):
        return self.out.decode()

    def __str__(self):
        return "jeattach %s: exit code %s after %.2f s\nstdout: %s\nstderr: %s" % (
            " ".join(self.args),
            self.code,
            self.wall,
            self.out[:500],
            self.err[-3000:],
        )

    __repr__ = __str__


def tool_environment(extra=None):
    env = {name: value for name, value in os.environ.items() if not name.startswith("JEATTACH_")}
    env.pop("MALLOC_CONF", None)
    env.update(extra or {})
    return env


def run_tool(*args, env=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, tool=None,
             timeout=TOOL_TIMEOUT, **options):
    """Runs the tool to its end; code is None if it had to be killed."""
    words = [str(word) for word in args]
    started = time.monotonic()
    process = Process(
        [tool or TOOL] + words,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=tool_environment(env),
        **options,
    )
    try:
        out, err = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        code = None
    wall = time.monotonic() - started
    seconds = wall - process.waited / 1e9
    result = Result(words, code, out or b"", err.decode(errors="replace"), seconds, wall)
    if "Sanitizer" in result.err or "runtime error:" in result.err:
        raise AssertionError("a sanitizer reports: %s" % (result,))
    return result


# ---- processes -----------------------------------------------------------------------------


class Process(subprocess.Popen):
    """Adds up how long the processes that this one has waited for were ready to run without a CPU,
    in ns: a tool that waits for a CPU while a thread is stopped is not slow."""

    waited_for_cpu = 0
    waited = 0  # its own part

    def _try_wait(self, wait_flags):
        with contextlib.suppress(OSError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | wait_flags)
            waited = waited_for_cpu(self.pid)
            Process.waited_for_cpu += waited - self.waited
            self.waited = waited
        return super()._try_wait(wait_flags)


def end_process(process):
    """Ends one child and reaps it."""
    if process.poll() is None:
        process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    process.wait()


def wait_until(condition, timeout=20, pause=0.002):
    """Calls `condition` until it is true; returns its last value."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(pause)


def name_in_files(pid):
    """Returns the name of a process in those of watch: with its container, where tests run in one."""
    processes = json.loads(run_tool("ps", "--json").out)["processes"]
    found = next(process for process in processes if process["pid"] == pid)
    within = found["pod"] or found["container"] or ""
    return found["name"] + ("@" + within[:12 if len(within) == 64 else None] if within else "")


def read_text(path):
    with open(path, "rb") as file:
        return file.read().decode(errors="surrogateescape")


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def tgkill(pid, tid, number):
    """Sends a signal to one thread of another process; the C library has no function for that."""
    if ctypes.CDLL(None, use_errno=True).syscall(SYS_TGKILL, pid, tid, int(number)) != 0:
        raise OSError(ctypes.get_errno(), "tgkill")


def pages_with_contents(pid):
    """The number of present pages of each writable mapping; the zero page counts as well."""
    found = {}
    with open("/proc/%d/pagemap" % pid, "rb") as pagemap:
        for line in read_text("/proc/%d/maps" % pid).splitlines():
            span, prot = line.split()[:2]
            start, end = (int(word, 16) for word in span.split("-"))
            if "w" in prot:
                pagemap.seek(start // 4096 * 8)
                entries = pagemap.read((end - start) // 4096 * 8)
                words = struct.unpack("<%dQ" % (len(entries) // 8), entries)
                found[span] = sum(word >> 63 for word in words)
    return found


def status_fields(pid):
    """Returns /proc/PID/status as a dictionary."""
    lines = read_text("/proc/%d/status" % pid).splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def state_of(pid):
    return status_fields(pid)["State"][0]


def tracer_of(pid):
    return int(status_fields(pid)["TracerPid"])


def tracer_of_thread(pid, tid):
    """0 if it is not traced; the leader may be free while another thread is traced."""
    text = read_text("/proc/%d/task/%d/status" % (pid, tid))
    return int(re.search(r"^TracerPid:\s*(\d+)", text, re.M)[1])


def waited_for_cpu(thread):
    """Returns for how many ns it was ready to run without a CPU; 0 if the kernel does not count
    them. A pid is its first thread, others are PID/task/TID."""
    with contextlib.suppress(OSError, IndexError):
        return int(read_text("/proc/%s/schedstat" % thread).split()[1])
    return 0


def signal_masks(pid):
    fields = status_fields(pid)
    names = ("SigQ", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")
    return {name: fields[name] for name in names if name != "SigQ"}


def descriptors(pid):
    base = "/proc/%d/fd" % pid
    found = {}
    for name in os.listdir(base):
        with contextlib.suppress(OSError):
            found[int(name)] = os.readlink("%s/%s" % (base, name))
    return found


def threads(pid):
    return sorted(int(name) for name in os.listdir("/proc/%d/task" % pid))


Mapping = namedtuple("Mapping", "start end perms offset device inode path")


def mappings(pid):
    """/proc/PID/maps: `start-end perms offset dev inode path`."""
    found = []
    for line in read_text("/proc/%d/maps" % pid).splitlines():
        words = line.split(None, 5)
        start, _, end = words[0].partition("-")
        path = words[5] if len(words) > 5 else ""
        found.append(Mapping(int(start, 16), int(end, 16), *words[1:5], path))
    return found


def covered(maps):
    """Returns (start, end, perms, path) with neighbours of one kind joined: how the kernel merges
    adjacent anonymous mappings depends on their order."""
    joined = []
    for m in maps:
        key = (m.perms, m.path, m.inode)
        if joined and joined[-1][1] == m.start and joined[-1][2] == key and m.inode == "0":
            joined[-1] = (joined[-1][0], m.end, key)
        else:
            joined.append((m.start, m.end, key))
    return joined


def text_hashes(pid):
    """Returns a digest of each executable file mapping, as the process sees it."""
    digests = {}
    with open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
        for m in mappings(pid):
            if "x" in m.perms and m.inode != "0":
                digests[(m.path, m.start)] = hash_range(memory, m.start, m.end - m.start)
    return digests


def hash_range(memory, start, size):
    memory.seek(start)
    digest = hashlib.blake2b(digest_size=16)
    while size > 0:
        data = memory.read(min(size, 1 << 20))
        if not data:
            break
        digest.update(data)
        size -= len(data)
    return digest.hexdigest()


# ---- victims -------------------------------------------------------------------------------

REPORT = struct.Struct("<Qii10Q128s")
REPORT_MAGIC = 0x6D69746369765F6A
READY, FAILED = 1, 2
LATE_SLACK_NS = 500 * 10**6  # of tests/victims/modes.c
COUNTERS = (
    "magic pid state iterations errors eintr early late errno_lost max_late_ns "
    "helper_rounds helper_late helper_max_late_ns text"
).split()


def malloc_conf(directory, sample=12):
    return "prof:true,prof_active:false,lg_prof_sample:%d,prof_prefix:%s/jeprof" % (
        sample,
        directory,
    )


class Victim:
    """One self-checking process (tests/victims/victim.c)."""

    def __init__(self, mode, directory, ms=100, prof=True, conf=None, user=None, arguments=(),
                 library=None, program="victim"):
        self.directory = directory
        self.report_path = os.path.join(directory, "report")
        self.mode = mode
        self.ms = ms
        self.files_before = None
        self._prepare_files(user)
        env = tool_environment()
        if prof:
            env["MALLOC_CONF"] = conf or malloc_conf(directory)
        if library:
            env["LD_PRELOAD"] = library
        program = os.path.join(VICTIMS, program)
        if not os.access(program, os.X_OK):
            raise unittest.SkipTest("%s was not built: what it needs is not installed" % program)
        if user:  # that user may not be able to read the build directory
            program = shutil.copy(program, directory)
        argv = [program, mode, self.report_path, "--time", str(ms)]
        self.process = subprocess.Popen(
            argv + list(arguments),
            env=env,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stderr=self.stderr,
            **({"user": user, "group": user, "extra_groups": []} if user else {}),
        )
        self.pid = self.process.pid
        try:
            self._wait_ready()
        except BaseException:
            self.stop()
            raise
        self.files_before = self.files()

    def _prepare_files(self, user):
        # A pipe that nobody reads would fill: if the tool dies without executable memory,
        # jemalloc's report goes to it. Write-only, which REFUSED_TOOL relies on.
        self._said = tempfile.TemporaryFile()
        self.stderr = open("/proc/self/fd/%d" % self._said.fileno(), "wb")
        with open(self.report_path, "wb") as file:
            file.truncate(REPORT.size)
        if user:
            os.chmod(self.directory, 0o755)
            os.chown(self.report_path, user, user)
        self._file = open(self.report_path, "rb")
        self._map = mmap.mmap(self._file.fileno(), REPORT.size, prot=mmap.PROT_READ)

    def _wait_ready(self):
        if not wait_until(lambda: self.counters()["state"] or self.process.poll() is not None):
            raise AssertionError("the victim does not start")
        if self.counters()["state"] == FAILED:  # it prints this before it ends
            self.process.wait(TOOL_TIMEOUT)
        code = self.process.poll()
        if code == SKIPPED:
            raise unittest.SkipTest(self.said())
        if code is not None or self.counters()["state"] != READY:
            raise AssertionError("the victim ended: %s" % self.said())

    def said(self):
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()

    def counters(self):
        values = dict(zip(COUNTERS, REPORT.unpack(self._map[: REPORT.size])))
        values["text"] = values["text"].split(b"\0")[0].decode()
        return values

    def lateness_is_the_machines(self):
        """True if a timeout is late by no more than the tools have waited for a CPU. The victim's
        own wait is not part of its count."""
        allowed = self.ms * 10**6 + LATE_SLACK_NS + Process.waited_for_cpu
        return self.counters()["max_late_ns"] <= allowed

    def alive(self):
        return self.process.poll() is None

    def wait_rounds(self, count, timeout=None):
        """Waits until `count` more rounds are complete; False if they do not come, or it died."""
        goal = self.counters()["iterations"] + count
        limit = timeout or 10 + count * self.ms / 100
        wait_until(lambda: self.counters()["iterations"] >= goal or not self.alive(), limit)
        return self.alive() and self.counters()["iterations"] >= goal

    def files(self):
        return sorted(os.listdir(self.directory))

    def new_files(self):
        return [name for name in self.files() if name not in self.files_before]

    def stop(self):
        end_process(self.process)
        self._map.close()
        self._file.close()
        self._said.close()
        self.stderr.close()


def victim_names(option):
    victim = os.path.join(VICTIMS, "victim")
    return subprocess.run([victim, option], capture_output=True, text=True).stdout.split()


Snapshot = namedtuple("Snapshot", "maps masks descriptors threads text")


def snapshot(pid):
    """The state that an attach must leave unchanged."""
    return Snapshot(
        covered(mappings(pid)), signal_masks(pid), descriptors(pid), threads(pid), text_hashes(pid)
    )


def snapshot_differences(pid, before, timeout=5.0):
    """Returns the names of differences. Masks and maps have a moment to settle: a thread may be
    inside a call with a temporary mask."""
    differing = []

    def compare():
        now = snapshot(pid)
        differing[:] = [name for name in now._fields if getattr(now, name) != getattr(before, name)]
        return not differing

    wait_until(compare, timeout, 0.02)
    return list(differing)


# ---- redis ---------------------------------------------------------------------------------


class Redis:
    """Debian's redis-server on a socket of its own, with a load."""

    def __init__(self, directory, sample=14):
        for program in ("redis-server", "redis-cli", "redis-benchmark", "setpriv"):
            if not shutil.which(program):
                raise unittest.SkipTest("%s is not installed" % program)
        self.directory = directory
        self.socket = os.path.join(directory, "socket")
        self.load = None
        argv = "redis-server --port 0 --daemonize no --appendonly no --save".split()
        self.process = subprocess.Popen(
            with_parent(argv + ["", "--dir", directory, "--unixsocket", self.socket]),
            env=tool_environment({"MALLOC_CONF": malloc_conf(directory, sample)}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self.pid = self.process.pid
        if not wait_until(self.ping):
            self.stop()
            raise AssertionError("redis-server does not answer")

    def ping(self):
        return self.cli("ping") == "PONG"

    def cli(self, *words):
        argv = ["redis-cli", "-s", self.socket] + list(words)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
        return done.stdout.strip()

    def start_load(self):
        words = "-q -n 1000000000 -t set,get -d 400 -r 100000 -c 20"
        self.load = subprocess.Popen(
            with_parent(["redis-benchmark", "-s", self.socket] + words.split()),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def commands_done(self):
        return int(re.search(r"total_commands_processed:(\d+)", self.cli("info", "stats"))[1])

    def stop(self):
        if self.load:
            end_process(self.load)
        end_process(self.process)


def with_parent(argv):
    """Returns the command, which the kernel ends together with this process."""
    return ["setpriv", "--pdeathsig", "KILL"] + argv


# ---- running a file of tests ---------------------------------------------------------------


class _Reasons(unittest.TextTestResult):
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print("SKIP: %s" % reason, flush=True)


def _selected(names):
    loaded = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    cases = [case for group in loaded for case in group]
    return unittest.TestSuite(
        case for case in cases if not names or case.id().rsplit(".", 1)[1] in names
    )


def interrupted(number, frame):
    raise KeyboardInterrupt


def raise_on_signals():
    """Cleanups then run if the test is told to end; unittest continues after SystemExit."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)


def main():
    """Runs the tests named in the arguments, or all. Exit code 77 if all are skipped."""
    raise_on_signals()
    suite = _selected(sys.argv[1:])
    if not suite.countTestCases():
        sys.exit("no such test: %s" % " ".join(sys.argv[1:]))
    if not os.access(TOOL, os.X_OK):
        sys.exit("the tool is not there: %s" % TOOL)
    result = unittest.TextTestRunner(resultclass=_Reasons, verbosity=2).run(suite)
    if not result.wasSuccessful():
        sys.exit(1)
    skipped = {getattr(test, "test_case", test).id() for test, _ in result.skipped}
    # A skip of a whole class counts no test as run.
    sys.exit(SKIPPED if skipped and len(skipped) >= result.testsRun else 0)


def capability(number):
    """True if this process has the capability in its effective set."""
    return bool(int(status_fields(os.getpid())["CapEff"], 16) >> number & 1)


def require_root():
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root, to start processes of another user")


