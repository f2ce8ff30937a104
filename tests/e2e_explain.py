"""jeattach explain: one answer and one next step, for every process, without touching it."""

import concurrent.futures
import json
import os
import re
import resource
import signal
import sys

import allocators
import groups
import lib

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
MIB = 1 << 20
SPACE = 4 << 30
LINES, COLUMNS = 24, 80
# Holds some memory, says so, and then takes 4 MiB more every 50 ms until it holds `most`: private
# memory, or shared memory, which is new because its cgroup grows as well.
GROWING = """
import mmap, sys, time
step, most = 4 << 20, int(sys.argv[1])
kind = mmap.MAP_SHARED if sys.argv[2] == 'shared' else mmap.MAP_PRIVATE
kept = []
def take():
    area = mmap.mmap(-1, step, flags=kind | mmap.MAP_ANONYMOUS)
    area.write(b"x" * step)
    kept.append(area)
take()
print("ready", flush=True)
while len(kept) * step < most:
    time.sleep(0.05)
    take()
time.sleep(1000)
"""
IDLE = "print('ready', flush=True); import time; time.sleep(1000)"


class Explain(allocators.TestCase):
    def started(self, *argv, **options):
        process = self.process(argv, stdout=lib.subprocess.PIPE, **options)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def idle(self, **options):
        return self.started(PYTHON, "-c", IDLE, **options)

    def explain(self, pid, *words):
        """The screen and the JSON, after what holds for all of them."""
        text, result = self.both(pid, *words)
        answer = json.loads(result.text)
        self.assertLess(len(result.out), 2500)
        self.assertLessEqual(len(text.splitlines()), LINES, text)
        for line in text.splitlines()[:-2]:
            self.assertLessEqual(len(line), COLUMNS, line)
        self.assertEqual(answer["pid"], pid)
        self.assert_steps(text, answer)
        return text, answer

    def both(self, pid, *words, **options):
        """The text, and the result with --json, of two runs at the same time."""
        def run(*more):
            return self.assert_ran(lib.run_tool("explain", pid, *words, *more, **options))

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            text, result = pool.submit(run), pool.submit(run, "--json")
            return text.result().text, result.result()

    def assert_steps(self, text, answer):
        """There is one next command, and it is one that the tool understands."""
        commands = re.findall(r"(?m)^next: (.*)$", text)
        self.assertEqual(len(commands), 1, text)
        for command in (commands[0], answer["next"]["command"]):
            words = command.split()
            if answer["next"]["step"] == "permit":
                continue
            self.assertEqual(words[0], "jeattach", command)
            result = lib.run_tool(*words[1:], "--dry-run")
            self.assertFalse(result.code == lib.USAGE and result.err, result)

    def assert_sum(self, answer):
        parts = answer["parts"]
        names = ("anonymous", "brk", "stacks", "variables", "files", "shared")
        self.assertLess(abs(sum(parts[name] for name in names) - answer["rss"]), 2 * MIB, parts)

    def test_without_jemalloc(self):
        process = self.idle(
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE)))
        text, answer = self.explain(process.pid)
        self.assertEqual(answer["rlimit_as"], SPACE)
        self.assertRegex(text, r"(?m)^RLIMIT_AS    4 GiB of address space: .* are mapped$")
        self.assertIn("glibc malloc", answer["allocators"])
        self.assertIn("Python", answer["allocators"])
        self.assertNotIn("jemalloc", answer)
        self.assertTrue(answer["no_jemalloc"])
        self.assertEqual(answer["growth"]["state"], "none")
        self.assertIsNone(answer["growth"]["limit_in_ns"])
        self.assertEqual(answer["next"]["step"], "look")
        self.assertRegex(text, r"(?m)^allocator    Python, glibc malloc; no jemalloc$")
        self.assert_sum(answer)

    def test_profile(self):
        allocator = self.allocator("5.3.0", conf="prof:true,lg_prof_sample:12")
        allocator.ask("work 20000")
        text, answer = self.explain(allocator.pid)
        self.assertEqual(answer["jemalloc"]["profiling"], "active")
        self.assertTrue(answer["jemalloc"]["version"].startswith("5.3.0"))
        self.assertGreater(len(answer["jemalloc"]["sites"]), 0)
        self.assertIsNone(answer["jemalloc"]["no_profile"])
        self.assertIn(answer["next"]["step"], ("dump", "purge", "frag"))
        self.assertRegex(text, r"(?m)^profile      profiling is active: its samples stand for .* in use$")
        self.assert_sum(answer)
        self.assert_well(allocator)

    def test_states_of_profiling(self):
        for conf, state, steps in (("", "disabled", ("stats", "peek", "purge", "frag")),
                                   ("prof:true,prof_active:false", "inactive", ("record",))):
            with self.subTest(conf=conf):
                allocator = self.allocator("5.3.0", conf=conf)
                _, answer = self.explain(allocator.pid)
                self.assertEqual(answer["jemalloc"]["profiling"], state)
                self.assertEqual(answer["jemalloc"]["sites"], [])
                self.assertIn(answer["next"]["step"], steps)
                self.assert_well(allocator)

    def test_counts_of_stats(self):
        """What stats has counted is shown with its age, and no step asks for it again."""
        allocator = self.allocator("5.3.0", conf="")
        self.assert_ran(lib.run_tool("stats", "--call", allocator.pid))
        text, answer = self.explain(allocator.pid)
        counts = answer["jemalloc"]["counts"]
        self.assertLess(counts["age_ns"], 20e9)
        self.assertLessEqual(counts["allocated"], counts["active"])
        objects = answer["jemalloc"]["objects"]
        pages = objects["in_use"] + objects["free_between"]
        self.assertLess(abs(pages - counts["active"]), MIB, (objects, counts))
        self.assertGreater(objects["in_use"], counts["allocated"] / 2)
        self.assertRegex(
            text, r"(?m)^jemalloc     5\.3\.0: .* in use, .* free between objects\n"
                  r" {13}\S+ \S+ free pages, .* its own data \(counted .* ago\)$")
        self.assertNotEqual(answer["next"]["step"], "stats")

    def test_nothing_is_touched(self):
        allocator = self.allocator("5.3.0")
        before = lib.snapshot(allocator.pid)
        result = self.assert_ran(lib.run_tool("explain", "-vv", allocator.pid))
        self.assertNotIn("ptrace", result.err)
        self.assertEqual(lib.snapshot_differences(allocator.pid, before), [])
        self.assert_well(allocator)

    def test_growing_below_a_limit(self):
        group = groups.MemoryGroup("jeattach-explain-%d" % os.getpid(), 4096 * MIB)
        self.addCleanup(group.remove)
        process = self.started(PYTHON, "-c", GROWING, str(3000 * MIB), "shared",
                               preexec_fn=group.enter)
        text, answer = self.explain(process.pid)
        self.assertEqual(answer["growth"]["state"], "growing", answer)
        self.assertEqual((answer["limit"]["of"], answer["limit"]["bytes"]), ("cgroup", 4096 * MIB))
        limit = answer["limit"]
        self.assertEqual(limit["used"] + limit["left"], limit["bytes"])
        left = limit["left"] / (answer["growth"]["bytes"] / answer["growth"]["ns"])
        self.assertLess(answer["growth"]["limit_in_ns"], 1.1 * left)
        self.assertGreater(answer["growth"]["limit_in_ns"], 0.3 * left)
        self.assertEqual(answer["next"]["step"], "leak")
        self.assertRegex(text.replace("\n", " "),
                         r" of 4 GiB \(\d+ %\) and grows by \S+ MiB/s: at this rate the limit is "
                         r"reached in about \d+ (s|min) ")
        self.assertIn("its cgroup", text)
        lib.end_process(process)

    def test_growing_with_a_profile(self):
        """The same with jemalloc: the step is leak."""
        allocator = self.allocator("5.3.0")
        process = self.started(
            PYTHON, "-c", GROWING, str(2000 * MIB), "private",
            env=lib.tool_environment({"LD_PRELOAD": self.preloaded(allocator),
                                      "MALLOC_CONF": "prof:true,lg_prof_sample:16"}))
        _, answer = self.explain(process.pid)
        self.assertEqual(answer["growth"]["state"], "growing", answer)
        self.assertEqual(answer["next"]["step"], "leak")

    def preloaded(self, allocator):
        return next(path for path in re.findall(r"(/\S*libjemalloc\S*)",
                                                lib.read_text("/proc/%d/maps" % allocator.pid)))

    def test_stopped(self):
        allocator = self.allocator("5.3.0", conf="prof:true,lg_prof_sample:12")
        os.kill(allocator.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, allocator.pid, signal.SIGCONT)
        self.assertTrue(lib.wait_until(lambda: lib.state_of(allocator.pid) == "T"))
        text, answer = self.explain(allocator.pid)
        self.assertTrue(answer["halted"])
        self.assertIn(" and is stopped", text)
        self.assertEqual(answer["next"]["step"], "dump")
        self.assertEqual(lib.state_of(allocator.pid), "T")

    def test_ended(self):
        process = self.idle()
        lib.end_process(process)
        self.assert_failed(lib.run_tool("explain", process.pid), lib.GONE, "no such process")
        self.assert_failed(lib.run_tool("explain", "--json", process.pid), lib.GONE)

    def test_dry_run(self):
        for pid in (self.idle().pid, self.allocator("5.3.0").pid):
            result = self.assert_ran(lib.run_tool("explain", "--dry-run", pid))
            self.assertRegex(result.text, r"\Acalls      none: .*\n\Z")

    def test_ends_meanwhile(self):
        process = self.started("/bin/sh", "-c", "echo ready; sleep 0.5")
        result = lib.run_tool("explain", process.pid)
        self.assert_failed(result, lib.GONE)

    def test_without_rights(self):
        lib.require_root()
        process = self.idle()
        place = self.directory()
        os.chmod(place, 0o755)
        tool = lib.shutil.copy(lib.TOOL, place)
        options = {"tool": tool, "user": 65534, "group": 65534, "extra_groups": [], "cwd": "/",
                   "env": {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}}
        text, result = self.both(process.pid, **options)
        answer = json.loads(result.text)
        self.assertEqual(answer["next"]["step"], "permit")
        self.assertTrue(answer["no_jemalloc"])
        self.assertEqual(answer["growth"]["state"], "none")
        self.assertGreater(answer["rss"], MIB)
        self.assertEqual(set(answer["parts"]), {"anonymous", "files", "shared"})
        self.assertRegex(text, r"(?m)^not read     ")
        self.assertRegex(text, r"(?m)^next: \S.*root")

    def test_several(self):
        first, second = self.idle(), self.idle()
        result = self.assert_ran(lib.run_tool("explain", "--json", first.pid, second.pid))
        pids = {json.loads(line)["pid"] for line in result.text.splitlines()}
        self.assertEqual(pids, {first.pid, second.pid})


if __name__ == "__main__":
    lib.main()
