"""jeattach ps: lists exactly the processes with jemalloc, without touching any."""

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

import lib

CROWD = 2000
CROWD_LIMIT = 1.0  # seconds of CPU time: others may keep the machine busy
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def jemalloc_library():
    """The shared library that the victims are linked with."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    for line in listed.splitlines():
        if line.split()[:1] == ["libjemalloc.so.2"]:
            return line.split()[-1]
    raise unittest.SkipTest("libjemalloc.so.2 is not installed")


def listing(*words, **options):
    """Returns the document of `ps --json`, and its processes by pid."""
    result = lib.run_tool("ps", "--json", *words, **options)
    if result.code != lib.OK:
        raise AssertionError(result)
    document = json.loads(result.text)
    document["by_pid"] = {process["pid"]: process for process in document["processes"]}
    return document, result


def pids_with_jemalloc():
    """The expected result for shared libraries: the processes that have one mapped."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if "/libjemalloc.so" in maps_of(int(name)):
                found.add(int(name))
    return found


class Crowd:
    """Many sleeping children of this process, all copies of it."""

    def __init__(self, count):
        self.pids = []
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                while True:
                    signal.pause()
            self.pids.append(pid)

    def stop(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
        for pid in self.pids:
            os.waitpid(pid, 0)


class Ps(lib.TestCase):
    def preloaded(self, argv, conf=None, **options):
        env = lib.tool_environment({"LD_PRELOAD": jemalloc_library()})
        if conf:
            env["MALLOC_CONF"] = conf
        process = self.process(argv, env=env, **options)
        loaded = lambda: "/libjemalloc.so" in maps_of(process.pid)
        self.assertTrue(lib.wait_until(loaded), "jemalloc is not loaded")
        return process

    def test_rows(self):
        """Linkage, version, prof state and memory, in both forms of output."""
        victim = self.victim()
        sleeper = self.preloaded(["sleep", "600"])
        plain = self.process(["sleep", "600"])
        document, _ = listing()
        self.assertNotIn(plain.pid, document["by_pid"])
        self.assertNotIn(os.getpid(), document["by_pid"])
        for pid, name, linkage in (
            (victim.pid, "victim", "shared"),
            (sleeper.pid, "sleep", "preloaded"),
        ):
            row = document["by_pid"][pid]
            self.assertEqual((row["name"], row["linkage"]), (name, linkage), row)
            self.assertEqual((row["ns_pid"], row["prefix"]), (pid, ""), row)
            self.assertRegex(row["version"], r"^\d+\.\d+\.\d+-\d+-g[0-9a-f]+$")
            self.assertIn("/libjemalloc.so", row["module"])
            kilobytes = int(lib.status_fields(pid)["VmRSS"].split()[0])
            self.assertAlmostEqual(row["rss"] / 1024, kilobytes, delta=kilobytes / 4)
        text = self.assert_ran(lib.run_tool("ps")).text
        release = document["by_pid"][victim.pid]["version"].partition("-")[0]
        line = r"(?m)^ *%d +%d +%s +%s +%s +\S+ +[\d.]+ MiB +\S"
        self.assertRegex(text, line % (victim.pid, victim.pid, "victim", release, "shared"))
        self.assertRegex(text, line % (sleeper.pid, sleeper.pid, "sleep", release, "preloaded"))
        self.assertRegex(text, r"\A *PID +NSPID +NAME +JEMALLOC +LINKAGE +PROF +RSS +CONTAINER\n")
        self.assert_unharmed(victim)

    def test_overwritten_environment(self):
        """PostgreSQL and nginx write titles over it, and nginx drops variables: the order of loading
        still tells that jemalloc is preloaded. Whether MALLOC_CONF was set, nothing tells."""
        conf = "prof:true,prof_active:false"
        argv = [sys.executable, "-c", WIPED]
        process = self.preloaded(argv, conf=conf, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assertEqual(listing()[0]["by_pid"][process.pid]["linkage"], "preloaded")
        told = json.loads(self.assert_ran(lib.run_tool("status", "--json", process.pid)).text)
        self.assertEqual((told["opt.prof"], told["environment_overwritten"]), (True, True))
        self.assertEqual((told["variable_known"], told["variable_value"]), (False, None))
        text = self.assert_ran(lib.run_tool("status", process.pid)).text
        self.assertRegex(text, r"environment +MALLOC_CONF \?: the process has overwritten")

    def test_prof_state(self):
        """The printed state never differs from that of a call."""
        for conf, answers in (
            ("prof:true,prof_active:false", ("inactive", "enabled", None)),
            ("prof:true", ("active", "enabled", None)),
            ("prof:false", ("disabled", "absent", None)),
        ):
            sleeper = self.preloaded(["sleep", "600"], conf)
            status = json.loads(self.assert_ran(lib.run_tool("status", "--json", sleeper.pid)).text)
            row = listing()[0]["by_pid"][sleeper.pid]
            self.assertIn(row["prof"], answers, conf)
            for name in ("config.prof", "opt.prof", "prof.active"):
                self.assertIn(row[name], (status[name], None), (conf, name))

    def test_without_words(self):
        victim = self.victim()
        self.assertRegex(self.assert_ran(lib.run_tool()).text, r"(?m)^ *%d " % victim.pid)

    def test_nothing_is_stopped(self):
        """No ptrace call at all: a process that is traced already, and one that is stopped."""
        victim = self.victim()
        held = self.process(
            [os.path.join(lib.VICTIMS, "hold"), str(victim.pid)], stdout=subprocess.PIPE
        )
        self.assertTrue(lib.wait_until(lambda: lib.tracer_of(victim.pid) == held.pid))
        stopped = self.preloaded(["sleep", "600"])
        os.kill(stopped.pid, signal.SIGSTOP)
        self.assertTrue(lib.wait_until(lambda: lib.state_of(stopped.pid) == "T"))
        found = listing()[0]["by_pid"]
        self.assertIn(victim.pid, found)
        self.assertIn(stopped.pid, found)
        self.assertEqual(lib.state_of(stopped.pid), "T")

    def test_crowd(self):
        """2,000 copies of one program, a few of them with jemalloc, in less than a second."""
        crowd = Crowd(CROWD)
        self.addCleanup(crowd.stop)
        few = {self.preloaded(["sleep", "600"]).pid for _ in range(7)}
        few.add(self.victim().pid)
        document, result = listing()
        print("%d processes in %.3f s" % (document["looked_at"], result.seconds), flush=True)
        found = set(document["by_pid"])
        self.assertGreaterEqual(document["looked_at"], CROWD + len(few))
        self.assertEqual(few - found, set())
        self.assertEqual(found & set(crowd.pids), set())
        self.assertEqual(few & found, few & pids_with_jemalloc())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        listing()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print("%.3f s of processor time" % seconds, flush=True)
        if not sanitized():
            self.assertLess(seconds, CROWD_LIMIT)

    def test_processes_that_end(self):
        """Hundreds of processes with jemalloc start and end during the scans. The library is a file
        of its own, so that one of them is often the first in which it is seen; a result from the
        last moment of a process must not be used for the others."""
        library = shutil.copy(jemalloc_library(), self.directory())
        script = "while :; do LD_PRELOAD=%s sleep 0.001 & sleep 0.002; done" % library
        for _ in range(2):
            self.process(["sh", "-c", script], stderr=subprocess.DEVNULL)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            last = self.process(["sleep", "60"], env=lib.tool_environment({"LD_PRELOAD": library}))
            self.assertTrue(lib.wait_until(lambda: library in maps_of(last.pid)))
            document, result = listing()
            self.assertIn(last.pid, document["by_pid"], "a file was forgotten")
            self.assertNotIn("cannot", result.err)
            lib.end_process(last)

    def test_names(self):
        """A name cannot act on the terminal, nor break the document."""
        name = b"\x1b[2J\n\"\x9b\xff"
        argv = ["python3", "-c", NAMED, name.hex()]
        process = self.preloaded(argv, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        document, _ = listing()
        self.assertIn("\x1b[2J\n\"", document["by_pid"][process.pid]["name"])
        out = self.assert_ran(lib.run_tool("ps")).out
        lines = [line for line in out.split(b"\n") if line.split()[:1] == [b"%d" % process.pid]]
        self.assertEqual(len(lines), 1)
        self.assertIn(b'?[2J?"', lines[0])
        self.assertNotRegex(out, rb"[\x00-\x09\x0b-\x1f\x7f]")

    def test_pid_namespace(self):
        """A process in mount and pid namespaces of its own: both pids, and its own file tree."""
        if not shutil.which("unshare"):
            raise unittest.SkipTest("unshare is not installed")
        lib.require_root()
        inner = "mount -t tmpfs none /mnt && exec sleep 600"
        argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inner]
        outer = self.preloaded(argv, stderr=subprocess.PIPE)
        # It has its name before its libraries are loaded.
        loaded = lambda p: comm(p) == "sleep" and "libjemalloc" in maps_of(p)
        wanted = lambda: [p for p in children(outer.pid) if loaded(p) and lib.state_of(p) == "S"]
        if not lib.wait_until(lambda: wanted() or outer.poll() is not None) or outer.poll():
            raise unittest.SkipTest("no namespaces: %s" % outer.stderr.read().decode().strip())
        pid = wanted()[0]
        row = listing()[0]["by_pid"][pid]
        self.assertEqual((row["pid"], row["ns_pid"]), (pid, 1))
        self.assertEqual(row["linkage"], "preloaded")

    def test_unreadable(self):
        """Without root the processes of another user are counted, not left out."""
        lib.require_root()
        victim = self.victim()
        own = self.victim(user=lib.NOBODY)
        as_nobody = {"user": lib.NOBODY, "group": lib.NOBODY, "extra_groups": []}
        tool = shutil.copy(lib.TOOL, self.directory())
        os.chmod(os.path.dirname(tool), 0o755)
        document, result = listing(tool=tool, **as_nobody)
        self.assertNotIn(victim.pid, document["by_pid"])
        self.assertIn(own.pid, document["by_pid"])
        self.assertGreater(document["unreadable"], 0)
        said = r"%d of %d processes could not be read \(\S.*\[\d+\](, \.\.\.)?\): run as root"
        self.assertRegex(result.err, said % (document["unreadable"], document["looked_at"]))

    def test_leader_that_ended(self):
        """The first thread is a zombie, the others continue."""
        process = self.preloaded(["python3", "-c", LEADERLESS], stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assertTrue(lib.wait_until(lambda: lib.state_of(process.pid) == "Z"))
        self.assertIn(process.pid, listing()[0]["by_pid"])

    def test_cut_short(self):
        result = lib.run_tool("ps", "--json", "--timeout", "0.000001")
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertGreater(json.loads(result.text)["left_out"], 0)
        self.assertIn("not complete", result.err)

    def test_usage(self):
        for words in (("1",), ("-p", "1"), ("--thread", "1"), ("--no-call",)):
            result = lib.run_tool("ps", *words)
            self.assert_failed(result, lib.USAGE)

    def test_stdout_that_is_full(self):
        with open("/dev/full", "wb") as full:
            result = lib.run_tool("ps", stdout=full)
        self.assertEqual(result.code, lib.OUTPUT_FAILED, result)


NAMED = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)
print("ready", flush=True)
time.sleep(600)
"""

# Its environment is between the fields env_start and env_end of /proc/PID/stat.
WIPED = """
import ctypes, os, time
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
start, end = int(fields[47]), int(fields[48])
os.environ.clear()
ctypes.memset(start, 0, end - start)
ctypes.memmove(start, b"nginx: worker process", 21)
print("ready", flush=True)
time.sleep(600)
"""

LEADERLESS = """
import ctypes, threading, time
def stay():
    print("ready", flush=True)
    time.sleep(600)
threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def sanitized():
    """True if the tool is built with the address sanitizer, which slows it down."""
    with open(lib.TOOL, "rb") as file:
        return b"__asan_init" in file.read()


def maps_of(pid):
    return lib.read_text("/proc/%d/maps" % pid)


def comm(pid):
    with contextlib.suppress(OSError):
        return lib.read_text("/proc/%d/comm" % pid).strip()
    return None


def children(pid):
    """Returns all descendants."""
    found = []
    with contextlib.suppress(OSError):
        for child in lib.read_text("/proc/%d/task/%d/children" % (pid, pid)).split():
            found += [int(child)] + children(int(child))
    return found


if __name__ == "__main__":
    lib.main()
