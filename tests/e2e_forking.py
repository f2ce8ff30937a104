"""Targets that fork: with the C library of Debian 11, with two C libraries, during a call."""

import contextlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

import lib
import linked
import releases

SOURCE = os.path.join(lib.ROOT, "tests", "victims", "forker.c")
REPORT = struct.Struct("<4Q")
PACKAGES = ("libc6", "libjemalloc2", "libgcc-s1", "libstdc++6", "dash")
STARTS = 100  # until libpthread is mapped below libc, which the kernel decides by chance
CONF = "prof:true,prof_active:true,lg_prof_sample:12,prof_prefix:%s/jeprof"
FORBIDDEN = {
    "libc.so.6": ("fork", "vfork", "posix_spawn", "__libc_dlopen_mode"),
    "libpthread.so.0": ("pthread_create", "pthread_exit"),
    "libdl.so.2": ("dlopen", "dlclose"),
}


class Forker:
    """One process that forks; tests/victims/forker.c describes its report."""

    def __init__(self, directory, argv, mode, env=None, preload=None):
        self.mode = mode
        self.path = os.path.join(directory, "report")
        with open(self.path, "wb") as file:
            file.truncate(4096)
        env = dict(env or {}, MALLOC_CONF=CONF % directory)
        if preload:
            env["LD_PRELOAD"] = preload
        # Write-only, which REFUSED_TOOL relies on.
        with open(os.path.join(directory, "stderr"), "wb") as errors:
            self.process = subprocess.Popen(argv + [self.path, mode], env=env, cwd=directory,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors)
        self.pid = self.process.pid
        if not lib.wait_until(lambda: self.report()[0] or self.process.poll() is not None) or \
                self.process.poll() is not None:
            self.stop()
            raise AssertionError("the forker does not start")

    def report(self):
        """ready, rounds, children with a used scratch area, children with an empty one"""
        with open(self.path, "rb") as file:
            return REPORT.unpack(file.read(REPORT.size))

    def goes_on(self):
        goal = self.report()[1] + 2 * (self.mode != "asked")
        return lib.wait_until(lambda: self.report()[1] >= goal)

    def fork(self):
        """Returns the child, which stays."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def stop(self):
        lib.end_process(self.process)


class Dash:
    """Debian 11's shell, which forks for each subshell; a file holds their number."""

    def __init__(self, directory, argv):
        self.path = os.path.join(directory, "rounds")
        script = "n=0; while :; do ( : ); n=$((n+1)); echo $n >%s; done" % self.path
        self.process = subprocess.Popen(
            lib.with_parent(argv + ["-c", script]), env={"MALLOC_CONF": CONF % directory},
            cwd=directory, stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        if not lib.wait_until(self.rounds):
            self.stop()
            raise AssertionError("dash does not start")

    def rounds(self):
        with contextlib.suppress(OSError, ValueError):
            return int(lib.read_text(self.path))
        return 0

    def goes_on(self):
        goal = self.rounds() + 2
        return lib.wait_until(lambda: self.rounds() >= goal)

    def stop(self):
        lib.end_process(self.process)


class TestCase(lib.TestCase):
    @classmethod
    def setUpClass(cls):
        if linked.missing():
            raise unittest.SkipTest(linked.missing())
        cls.folder = tempfile.mkdtemp(prefix="jeattach-forking.")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)

    def calls(self, forker, count, *verbs):
        """Runs each verb `count` times; the forker continues after each of them."""
        for words in verbs:
            for _ in range(count):
                result = lib.run_tool(words[0], forker.pid, *words[1:], "--timeout", "20s",
                                      stdout=subprocess.DEVNULL)
                self.assert_ran(result)
            self.assertTrue(forker.goes_on(), (words, result))


def lowest(pid, name):
    starts = [m.start for m in lib.mappings(pid) if os.path.basename(m.path).startswith(name)]
    return min(starts or [0])


class OldLibrary(TestCase):
    """glibc 2.31: libpthread exports some names of the C library, and may be mapped below it."""

    def old_library(self):
        self.root = releases.fetch("glibc-2.31", "bullseye", PACKAGES)
        self.libraries = os.path.join(self.root, "lib/x86_64-linux-gnu")
        jemalloc = os.path.join(self.root, releases.LIBRARY)
        paths = "%s:%s" % (self.libraries, os.path.dirname(jemalloc))
        return [os.path.join(self.libraries, "ld-2.31.so"), "--library-path", paths, "--preload",
                jemalloc]

    def old_program(self):
        """The forker, linked with that library by this machine's compiler."""
        path = os.path.join(self.folder, "forker")
        names = ("libc.so.6", "libpthread.so.0", "libdl.so.2")
        libraries = [os.path.join(self.libraries, name) for name in names]
        linked.run("gcc", "-O2", "-D_GNU_SOURCE", SOURCE, "-nodefaultlibs", "-Wl,--no-as-needed",
                   "-Wl,--allow-shlib-undefined", *libraries, "-o", path)
        return path

    def start(self, start):
        """Returns a process that start() makes, with libpthread below libc."""
        for _ in range(STARTS):
            forker = start()
            self.addCleanup(forker.stop)
            if 0 < lowest(forker.pid, "libpthread") < lowest(forker.pid, "libc-2"):
                return forker
            forker.stop()
        raise unittest.SkipTest("libpthread never lies below libc here")

    def forker(self):
        argv = self.old_library() + [self.old_program()]
        return self.start(lambda: Forker(self.directory(), argv, "alone"))

    def dash(self):
        argv = self.old_library() + [os.path.join(self.root, "bin/dash")]
        return self.start(lambda: Dash(self.directory(), argv))

    def test_forbidden(self):
        forker = self.forker()
        text = self.assert_ran(lib.run_tool(forker.pid, tool=lib.PLAN)).text
        ranges = re.findall(r"^ +0x([0-9a-f]+)-0x([0-9a-f]+) (.*)$", text, re.M)
        for library, names in FORBIDDEN.items():
            path = os.path.realpath(os.path.join(self.libraries, library))
            base = lowest(forker.pid, os.path.basename(path))
            listed = linked.run("nm", "-D", "--defined-only", path)
            for name in names:
                value = re.search(r"^([0-9a-f]+) \S %s(@.*)?$" % name, listed, re.M)
                at = base + int(value[1], 16)
                self.assertTrue(any(int(start, 16) <= at < int(end, 16)
                                    for start, end, _ in ranges), (library, name, text))
        borrowed = re.search(r"system call at 0x([0-9a-f]+), sigreturn at 0x([0-9a-f]+)", text)
        for address in borrowed.groups():
            found = [m.path for m in lib.mappings(forker.pid)
                     if m.start <= int(address, 16) < m.end]
            self.assertIn("libc-2.31.so", found[0])

    def test_stopped_in_clone(self):
        forker = self.forker()
        self.calls(forker, 20, ("stats", "--full"), ("dump", "--call", "-o", "/dev/null"))

    def test_every_verb(self):
        verbs = (("on", "--call"), ("off", "--call"), ("on", "--call"), ("dump",), ("dump", "--call", "-o", "/dev/null"),
                 ("dump", "-o", "/dev/null"), ("stats", "--full"),
                 ("stats", "--full", "--json"), ("purge",), ("mallctl", "version", "arenas.narenas"),
                 ("mallctl", "arena.0.dirty_decay_ms=5000"), ("mallctl", "prof.reset"), ("top", "--once"),
                 ("record", "--call", "-d", "1ms", "-o", "/dev/null"))
        for start in (self.forker, self.dash):
            self.calls(start(), 200, *verbs)


class StaticProgram(TestCase):
    """It has loaded libraries, and with them a second C library."""

    def check(self, strip):
        program = linked.build(SOURCE, "static-pie", "_rjem_", self.folder, strip, ("-DLOADS",))
        forker = Forker(self.directory(), [program], "alone")
        self.addCleanup(forker.stop)
        self.assertTrue(lowest(forker.pid, "libc.so"), "no second C library")
        self.calls(forker, 10, ("stats", "--full"), ("dump", "--call", "-o", "/dev/null"))

    def test_static_that_loads(self):
        self.check(strip=False)

    def test_stripped_that_loads(self):
        self.check(strip=True)


SCRATCH_PAGES = 1 + 64  # inject/call.h, SCRATCH_LEN
OPENS = ("2", "85", "257")  # open, creat, openat


def pages(pid):
    """Returns the numbers of the pages that are mapped."""
    return {page for m in lib.mappings(pid) for page in range(m.start >> 12, m.end >> 12)}


class Children(TestCase):
    """Returns which part of the tool's scratch memory a child forked during a call has."""

    def forker(self, mode):
        self.home = self.directory()
        program = os.path.join(lib.VICTIMS, "forker")
        forker = Forker(self.home, [program], mode, preload="libjemalloc.so.2")
        self.addCleanup(forker.stop)
        # jemalloc maps memory in the first calls, and keeps it.
        self.calls(forker, 2, ("dump", "--call", "-o", "/dev/null"))
        return forker

    def in_open(self, pid):
        text = lib.read_text("/proc/%d/syscall" % pid)
        return text.split()[0] in OPENS and lib.state_of(pid) == "S"

    def check(self, tool):
        """A dump into a FIFO without a reader stays in open(2) until one comes."""
        forker = self.forker("asked")
        pipe = os.path.join(self.home, "jeprof.%d.0.m0.heap" % forker.pid)
        os.mkfifo(pipe)
        before = pages(forker.pid)
        dump = self.process([tool, "dump", str(forker.pid)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env=lib.tool_environment())
        self.assertTrue(lib.wait_until(lambda: self.in_open(forker.pid)), "no call under way")
        mapped = pages(forker.pid) - before
        self.assertEqual(len(mapped), SCRATCH_PAGES)
        kept = pages(forker.fork()) & mapped
        with open(pipe, "rb") as file:
            file.read()
        dump.wait(lib.TOOL_TIMEOUT)
        self.assertEqual(pages(forker.pid) & mapped, set(), "the forker itself has kept it")
        self.assertEqual(len(kept), 0, "the child has pages of the scratch area")

    def test_no_copy(self):
        self.check(lib.TOOL)

    def test_no_copy_without_executable_memory(self):
        self.check(lib.REFUSED_TOOL)

    def test_beside_a_forking_thread(self):
        """Each child checks itself. A child may be forked just after the mmap."""
        forker = self.forker("beside")
        self.calls(forker, 15, ("dump", "--call", "-o", "/dev/null"), ("stats", "--full"))
        self.assertEqual(forker.report()[2], 0, "children with a used scratch area")


if __name__ == "__main__":
    lib.main()
