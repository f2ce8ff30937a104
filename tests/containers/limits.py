"""At a memory limit: no verb makes the kernel kill the target.

A call needs pages, which are charged to the target's cgroup. With a few pages left, and the
kernel's OOM killer on, each verb works or is refused; the target is never killed.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cgroups  # noqa: E402
import releases  # noqa: E402
from boxes import lib  # noqa: E402

PAGE = 4096
LEFT = (0, 1, 2, 3, 4, 6, 8, 12, 16)  # pages below the limit
SAMPLE = (0, 2, 4, 8, 16)
RUNS = 100  # of each verb with JEATTACH_LONG
WORKS = 4 << 20  # enough for every verb on a victim of one thread

# Every verb that calls, in each way in which it does, as in tests/kill_matrix.py, and more.
# DIR: a new directory.
CALLS = {
    "on": ("on", "--call"),
    "off": ("off", "--call"),
    "dump": ("dump",),
    "stream": ("dump", "--call", "-o", "-"),
    "stats": ("mallctl", "PID", "stats.allocated"),
    "report": ("stats", "--full", "--json"),
    "full": ("stats", "--full"),
    "mallctl": ("mallctl", "PID", "opt.prof", "arena.0.decay", "stats.resident", "version"),
    "reset": ("mallctl", "PID", "prof.reset=12"),
    "purge": ("purge",),
    "record": ("record", "--call", "-d", "1ms", "-o", "/dev/null"),
    "watch": ("watch", "--call", "--when", "rss>1K", "--once", "--on", "-o", "DIR"),
    "status": ("status",),
}
# Those that read memory, or write one byte of it.
READS = {
    "byte": ("on", "--no-call"),
    "read": ("dump", "--no-call", "-o", "-"),
    "gauges": ("stats", "--no-call"),
    "threads": ("stats", "--threads"),
    "frag": ("frag",),
    "top": ("top", "--once"),
    "leak": ("leak", "-d", "1ms", "--settle", "1ms"),
    "peek": ("peek",),
    "repair": ("on", "--repair"),
}
# argv[1]: what it does at a line on stdin, when it has its memory.
PREPARED = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
print("first", flush=True)
sys.stdin.readline()
if sys.argv[1] == "locks" and libc.mlockall(2) != 0:
    sys.exit("mlockall")
parent = os.getpid()
if sys.argv[1] == "forks" and os.fork() == 0:
    libc.prctl(1, 9)  # PR_SET_PDEATHSIG; the parent may have ended before
    os.getppid() == parent and libc.pause()
    os._exit(0)
print("ready", flush=True)
libc.pause()
"""
NONE = {"none": ()}  # without the tool: that the victim itself survives is no luck
FIRST_DUMP = ("dump", "--call", "-o", "-")
VERBS = dict(CALLS, **READS, **NONE)


def needed(text):
    """Returns the bytes that a refusal names, which are rounded to three digits, and what each CPU
    may keep to itself."""
    number = re.search(r"a call may need ([0-9.]+) MiB", text)[1]
    return int((float(number) + 0.01) * (1 << 20)) // PAGE * PAGE + 63 * PAGE * os.cpu_count()


class Limits(lib.TestCase):
    def setUp(self):
        lib.require_root()
        self.kills = self.refused = self.done = 0

    def directory(self):
        """Of memory: a victim that writes into a page of a disk's file needs a journal, and dies
        at its limit without any tool."""
        path = tempfile.mkdtemp(prefix="jeattach-test.", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def at_limit(self, left, limit):
        """Returns a victim in a group of its own that has `left` pages below its limit."""
        group = cgroups.Group("memory")
        own = cgroups.own_group("memory")
        self.addCleanup(group.remove)
        group.add(0)
        try:
            victim = self.victim("nanosleep", ms=20)
        finally:
            cgroups.enter(own)
        self.assertTrue(victim.wait_rounds(3))  # what a round needs, it has
        limit(group, victim, left * PAGE)
        return group, victim

    def run_verb(self, name, left, limit=lambda group, victim, left: group.squeeze(left)):
        group, victim = self.at_limit(left, limit)
        directory = self.directory()
        pid = str(victim.pid)
        words = [{"DIR": directory, "PID": pid}.get(word, word) for word in VERBS[name]]
        if words and pid not in words:
            words.append(pid)
        result = words and (self.watch(words) if name == "watch" else lib.run_tool(*words))
        survived = victim.wait_rounds(2)
        where = "%s with %d pages left: %s" % (name, left, result)
        self.assertEqual(group.number("memory.oom_control", "oom_kill"), 0, where)
        self.assertTrue(survived, where)
        if words:
            self.check_outcome(name, result, where)
        with contextlib.suppress(OSError):  # no such file where swap is not counted
            group.write("memory.memsw.limit_in_bytes", -1)
        group.write("memory.limit_in_bytes", -1)
        self.assert_unharmed(victim, slow=True)
        self.doCleanups()
        return result

    def watch(self, words):
        """It tries again and again until it is interrupted."""
        process = self.process([lib.TOOL] + words, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = []
        with process.stderr:
            for line in process.stderr:
                said.append(line)
                if "next try" in line:
                    process.send_signal(signal.SIGINT)
        code = process.wait(lib.TOOL_TIMEOUT)
        refused = "next try" in "".join(said)
        return lib.Result(words, lib.NO_SAFE_MOMENT if refused else code, b"", "".join(said), 0)

    def check_outcome(self, name, result, where):
        """It has done its work, or it says why not, and names the group."""
        if result.code == lib.NO_SAFE_MOMENT:
            self.assertIn("its memory limit is reached: /sys/fs/cgroup/memory/jeattach-test", result.err)
            self.refused += 1
        else:
            self.assertEqual(result.code, lib.OK, where)
            self.done += 1

    def sweep(self, names):
        """Each verb again and again, with a few pages more each time."""
        for name in names:
            for i in range(RUNS if lib.LONG else len(SAMPLE)):
                self.run_verb(name, LEFT[i % len(LEFT)] if lib.LONG else SAMPLE[i])
        print("%d done, %d refused, 0 kills" % (self.done, self.refused))

    def first_call(self, version, words, left):
        """Runs a verb on a process in which nothing has called mallctl, with 64 arenas."""
        group = cgroups.Group("memory")
        self.addCleanup(group.remove)
        argv, env = releases.command(version, ["/bin/sleep", "1000"])
        env["MALLOC_CONF"] = "prof:true,prof_active:false,narenas:64"
        process = self.process(argv, env=lib.tool_environment(env), stdin=subprocess.DEVNULL,
                               preexec_fn=lambda: group.add(0))
        self.assertTrue(lib.wait_until(
            lambda: lib.read_text("/proc/%d/syscall" % process.pid).startswith("230 ")))
        group.squeeze(left)
        result = lib.run_tool(words[0], process.pid, *words[1:])
        self.assertEqual(group.number("memory.oom_control", "oom_kill"), 0, result)
        self.assertIsNone(process.poll())
        group.write("memory.limit_in_bytes", -1)
        return result

    def test_first_call(self):
        """jemalloc itself allocates in the first call of mallctl. The refusal says how much is
        needed, and that is enough."""
        for version in "5.2.1", "5.3.0":
            for words in ("mallctl", "version"), ("stats", "--full", "--json"), FIRST_DUMP, ("purge",):
                refused = self.first_call(version, words, 16 * PAGE)
                self.assert_failed(refused, lib.NO_SAFE_MOMENT, "its memory limit is reached")
                self.assert_ran(self.first_call(version, words, needed(refused.err) + PAGE))
                self.doCleanups()

    def prepared(self, kind):
        """Returns a process in which each call has been made once, in a group of its own, and which
        has then forked, or locks all that it maps."""
        group = cgroups.Group("memory")
        self.addCleanup(group.remove)
        argv, env = releases.command("5.3.0", [sys.executable, "-c", PREPARED, kind])
        env.update(MALLOC_CONF="prof:true,prof_active:true,lg_prof_sample:12",
                   PYTHONMALLOC="malloc")
        process = self.process(argv, env=lib.tool_environment(env), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, preexec_fn=lambda: group.add(0))
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        process.stdout.readline()
        for words in ("stats", "--full"), ("dump", "--call", "-o", "/dev/null"), ("on", "--call"):
            self.assert_ran(lib.run_tool(*words, process.pid))
        process.stdin.write(b"go\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"ready\n")
        usage = lambda: group.number("memory.usage_in_bytes")
        self.assertTrue(lib.wait_until(lambda: usage() == (time.sleep(0.05), usage())[1]))
        return process, group

    def test_locked_or_forked(self):
        """With mlockall(MCL_FUTURE) each page that a call maps is charged at once, and after a fork
        each page that it writes is a copy: a call needs far more pages than it touches."""
        calls = dict({name: CALLS[name] for name in ("on", "stream", "purge", "mallctl")},
                     dump=("dump", "--path", os.path.join(self.directory(), "x.heap")))
        for kind, pages in ("locks", (16, 32)), ("forks", (16, 32, 64)):
            for name, words in calls.items():
                for left in pages:
                    process, group = self.prepared(kind)
                    group.write("memory.swappiness", 0)
                    group.write("memory.limit_in_bytes",
                                group.number("memory.usage_in_bytes") + left * PAGE)
                    words = [word for word in words if word != "PID"]
                    result = lib.run_tool(words[0], process.pid, *words[1:])
                    where = "%s, %s with %d pages left: %s" % (kind, name, left, result)
                    self.assertEqual(group.number("memory.oom_control", "oom_kill"), 0, where)
                    self.assertIsNone(process.poll(), where)
                    self.assert_failed(result, lib.NO_SAFE_MOMENT, "its memory limit is reached",
                                       ", and a call may need 2.")
                    self.assertRegex(result.err, "without a call|needs? no call|is not needed here")
                    group.write("memory.limit_in_bytes", -1)
                    self.doCleanups()

    def started(self, *words):
        victim = self.victim("nanosleep", ms=20)
        return self.process([lib.TOOL, *words, str(victim.pid)], stderr=subprocess.PIPE,
                            stdout=subprocess.DEVNULL, text=True)

    def test_less_at_the_end(self):
        """What a run has switched on by a call, it switches off where a new call is refused."""
        group, victim = self.at_limit(WORKS // PAGE, lambda group, victim, left: group.squeeze(left))
        active = lambda: json.loads(lib.run_tool("status", "--json", victim.pid).text)[
            "prof.active"]
        record = self.process([lib.TOOL, "record", "--call", "-d", "2s", "--timeout", "1s", "-o",
                               os.path.join(self.directory(), "x"), str(victim.pid)],
                              stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.assertTrue(lib.wait_until(lambda: active() or record.poll() is not None))
        group.squeeze((5 << 18) + 63 * PAGE * os.cpu_count())
        err = record.communicate(timeout=lib.TOOL_TIMEOUT)[1]
        self.assertEqual(record.returncode, lib.NO_SAFE_MOMENT, err)
        self.assertIn("its memory limit is reached", err)
        self.assertFalse(active(), err)
        self.assertEqual(group.number("memory.oom_control", "oom_kill"), 0, err)
        group.write("memory.limit_in_bytes", -1)
        self.assert_unharmed(victim, slow=True)

    def test_whom_the_kernel_kills(self):
        """At a limit that the tool and its target share, the tool; but not watch, which waits for
        memory to run out."""
        def score(process):
            return lib.read_text("/proc/%d/oom_score_adj" % process.pid).strip()

        record = self.started("record", "-d", "60s", "-o", "/dev/null")
        self.assertTrue(lib.wait_until(lambda: score(record) == "1000"))
        watch = self.started("watch", "--when", "rss>1T", "-o", self.directory())
        self.assertNotEqual(watch.stderr.readline(), "")  # it is at work
        self.assertEqual(score(watch), lib.read_text("/proc/self/oom_score_adj").strip())
        for process in record, watch:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=lib.TOOL_TIMEOUT)

    def put_in_swap(self, group, victim, left):
        """Makes the kernel swap out what it can of the victim. What it uses comes back before the
        limit holds: at its limit it dies of its own page faults."""
        group.write("memory.oom_control", 1)
        for _ in range(50):
            with contextlib.suppress(OSError):  # EBUSY
                group.write("memory.limit_in_bytes", group.number("memory.usage_in_bytes") // 2)
        group.write("memory.limit_in_bytes", -1)
        self.assertTrue(victim.wait_rounds(5), victim.process.poll())
        group.write("memory.limit_in_bytes", group.number("memory.usage_in_bytes") + left)
        with contextlib.suppress(OSError):
            group.write("memory.memsw.limit_in_bytes",
                        group.number("memory.memsw.usage_in_bytes") + left)
        group.write("memory.oom_control", 0)
        swapped = lib.status_fields(victim.pid)["VmSwap"]
        self.assertNotEqual(swapped, "0 kB")

    def test_in_swap(self):
        """A victim of which most is in swap, and whose limits leave nothing. What a verb would
        bring back is left out, or the verb is refused."""
        if re.search(r"(?m)^SwapFree: +0 kB", lib.read_text("/proc/meminfo")):
            self.skipTest("no swap here")
        left_out = 0
        for name in VERBS:
            for left in 0, 4:
                result = self.run_verb(name, left, self.put_in_swap)
                left_out += bool(result) and "in swap" in result.err
        print("%d done, %d refused, %d left something in swap" %
              (self.done, self.refused, left_out))
        self.assertGreater(left_out, 0)

    def test_none(self):
        self.sweep(NONE)

    def test_calls(self):
        self.sweep(CALLS)
        self.assertGreater(self.refused, len(CALLS))

    def test_reads(self):
        """They need no page, and are never refused where nothing is in swap."""
        self.sweep(READS)
        self.assertEqual(self.refused, 0)

    def test_enough(self):
        """With some MiB left each of them works: the check asks for no more than is needed."""
        for name in dict(CALLS, **READS):
            self.run_verb(name, WORKS // PAGE)
        self.assertEqual((self.refused, self.done), (0, len(CALLS) + len(READS)))


if __name__ == "__main__":
    lib.main()
