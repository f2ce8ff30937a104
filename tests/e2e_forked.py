"""A process that shares its memory with a child, as redis does while it saves: reading makes it grow
by no page, and at a memory limit it is not killed.
"""

import contextlib
import os
import signal
import subprocess
import sys

import groups
import lib

# Objects of many sizes, 200 MB of them, and a child that waits.
PROGRAM = """
import ctypes, os, random, signal
random.seed(1)
kept = [b"x" * random.choice((50, 200, 1000, 3000, 9000, 50000)) for i in range(19000)]
random.shuffle(kept)
del kept[::8]
prctl, parent, (reader, writer) = ctypes.CDLL(None).prctl, os.getpid(), os.pipe()
child = os.fork()
if child == 0:
    prctl(1, signal.SIGKILL)
    os.write(writer, b"1")
    while os.getppid() == parent:
        signal.pause()
    os._exit(0)
os.read(reader, 1)
print(child, flush=True)
while True:
    signal.pause()
"""
CONF = "prof:true,prof_active:true,lg_prof_sample:14"
GROWTH = 512 << 10
READS = (("status",), ("stats",), ("stats", "--bins"), ("stats", "--threads"),
         ("explain", "-d", "50ms"), ("frag",), ("leak", "-d", "50ms", "--settle", "1ms"),
         ("top", "--once"), ("peek",))
AT_LIMIT = (("status",), ("stats", "--no-call"), ("explain", "-d", "50ms"), ("on", "--no-call"))
PAGES_LEFT = 8


class Forked(lib.TestCase):
    def start(self, group=None):
        env = dict(lib.tool_environment(), LD_PRELOAD="libjemalloc.so.2", MALLOC_CONF=CONF,
                   PYTHONMALLOC="malloc")
        process = self.process([sys.executable, "-c", PROGRAM], env=env, text=True, stdout=subprocess.PIPE,
                               preexec_fn=group and group.enter)
        with process.stdout:
            child = int(process.stdout.readline())
        self.addCleanup(self.end_child, child)
        if "/libjemalloc.so" not in lib.read_text("/proc/%d/maps" % process.pid):
            self.skipTest("Debian's jemalloc is not installed")
        return process.pid

    def end_child(self, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def private(self, pid):
        """Bytes that it shares with nobody: a page that is copied is one more."""
        lines = lib.read_text("/proc/%d/smaps_rollup" % pid).splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))

    def growth(self):
        """Returns the verb after which a new process has grown by GROWTH or more; None."""
        pid = self.start()
        path = os.path.join(self.directory(), "heap")
        before = self.private(pid)
        for verb in READS + (("dump", "-o", path),):
            self.assert_ran(lib.run_tool(verb[0], pid, *verb[1:]))
            if self.private(pid) - before >= GROWTH:
                return verb
        return None

    def test_growth(self):
        """Three processes: the kernel itself moves pages of one at times (DAMON, compaction), by up
        to 250 KiB with no tool at all, and what a verb copies it copies each time."""
        self.assertIn(None, [self.growth() for _ in range(3)])

    def test_limit(self):
        """With eight pages left the kernel kills it for the ninth."""
        lib.require_root()
        group = groups.MemoryGroup("jeattach-forked-%d" % os.getpid(), 1 << 30)
        self.addCleanup(group.remove)
        pid = self.start(group)
        path = os.path.join(self.directory(), "heap")
        group.limit(group.usage() + PAGES_LEFT * 4096)
        for verb in AT_LIMIT + (("dump", "--no-call", "-o", path),):
            self.assert_ran(lib.run_tool(verb[0], pid, *verb[1:]))
            self.assertIn(lib.state_of(pid), "RSD", verb)


if __name__ == "__main__":
    lib.main()
