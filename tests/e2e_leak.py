"""jeattach leak: it finds what grows among much that comes and goes, and restores prof.active."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys

import e2e_record
import groups
import lib
import perf_events

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeded", "classes.cpp")

class Leaky:
    """A leak of a thousandth of the churn (tests/victims/leaky.c)."""

    def __init__(self, case, sample=14, conf=""):
        place = case.directory()
        self.counters_path = os.path.join(place, "counters")
        self.process = case.process(
            [os.path.join(lib.VICTIMS, "leaky"), self.counters_path],
            env=lib.tool_environment({"MALLOC_CONF": lib.malloc_conf(place, sample) + conf}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self.process.pid
        if self.process.stdout.readline() != b"ready\n":
            raise AssertionError("it does not start")

    def leaked(self):
        with open(self.counters_path, "rb") as file:
            return struct.unpack("<QQ", file.read(16))[1]

    def wait_leaked(self, count):
        goal = self.leaked() + count
        if not lib.wait_until(lambda: self.leaked() >= goal, 60):
            raise AssertionError("it does not leak")

    def alive(self):
        return self.process.poll() is None


class Leak(e2e_record.TestCase):
    def leak(self, *words, **options):
        return self.assert_ran(self.tool("leak", *words, **options))

    def start_leak(self, process, *words, duration="1h", **options):
        """Returns when it has begun: it waits, or is about to."""
        return self.start_again("leak", process.pid, "-d", duration, "-v", *words, **options)

    def interrupted_leak(self, leaky, *words):
        """Interrupted after half a thousand leaked objects or more. Returns its JSON."""
        tool = self.start_leak(leaky, "--json", *words)
        leaky.wait_leaked(3 << 19)
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        return json.loads(out)

    def in_use(self, leaky):
        """By jemalloc's own records; without what sampling adds."""
        return json.loads(self.assert_ran(self.tool("stats", "--json", leaky.pid)).text)["in_use"]

    def test_found(self):
        for words in ((), ("--no-call",)):
            with self.subTest(words=words):
                self.assert_found(*words)

    def assert_found(self, *words):
        """1 MB/s among 1 GB/s: the first row, with the leaked size within the sampling error. No
        thread is stopped."""
        leaky = Leaky(self, sample=12)
        before, allocated = leaky.leaked(), self.in_use(leaky)
        told = self.interrupted_leak(leaky, *words)
        most, allocated = leaky.leaked() - before, self.in_use(leaky) - allocated
        self.assertEqual((told["way"], told["holds"], told["calls"]), ("memory", 0, 0))
        self.assertGreater(told["read_ns"], 0)
        self.assertGreater(told["rss_after"], told["rss_before"])
        first = told["rows"][0]
        self.assertEqual([call["function"] for call in first["stack"]][:2], ["leak_here", "work"])
        self.assertTrue(first["stack"][0]["file"].endswith("leaky.c"), first)
        self.assertGreater(first["stack"][0]["line"], 0)
        self.assertIs(first["within_error"], False)
        self.assertIn(first["verdict"], ("grows", "stopped"))  # it ends with a pause, if signals wait
        self.assertTrue(0 < first["low"] <= first["bytes"] <= first["high"], first)
        self.assertEqual(first["stopped_s"] is None, first["verdict"] == "grows", first)
        self.assertGreater(first["bytes"] + 2 * first["error"], 3 << 19)
        self.assertLess(first["bytes"] - 2 * first["error"], most)
        self.assertLess(abs(first["objects"] * 1024 - first["bytes"]), first["bytes"] / 5)
        self.assertLess(first["error"], first["bytes"] / 2)
        for other in told["rows"][1:]:
            self.assertLess(other["bytes"], first["bytes"])
        seconds = told["sampled_ns"] / 1e9
        self.assertLess(abs(first["bytes_per_s"] - first["bytes"] / seconds), 2)
        # Jemalloc's records have the leaked objects exactly, and those that threads keep for later.
        self.assertEqual((told["verdict"], told["evidence"]), ("grows", "exact"), told)
        part = told["parts"][0]
        self.assertEqual((part["kind"], part["size"], part["evidence"]), ("objects", 1024, "exact"))
        self.assertGreater(part["bytes"], (3 << 19) - (1 << 18))
        self.assertLess(part["bytes"], most + (1 << 18))
        self.assertEqual(part["stacks"][0]["stack"][0]["function"], "leak_here", part)
        self.assertEqual(part["stacks"][0]["evidence"], "samples")
        self.assertRegex(
            told["answer"],
            r"^grows by [\d.]+ [KM]iB/s in objects of 1 KiB \(exact\): "
            r"leak_here \(leaky\.c:\d+\) <- work \(leaky\.c:\d+\)",
        )
        self.assertTrue(0 < told["covered_percent"] <= 100, told)
        # The samples agree with jemalloc's own count, but for the caches.
        self.assertGreater(allocated, 3 << 19)
        self.assertLess(abs(allocated - told["grown"]), told["grown"] + (1 << 20), told)
        self.assert_active(leaky.pid, False)
        self.assertTrue(leaky.alive())

    def test_table(self):
        leaky = Leaky(self)
        leaky.wait_leaked(1 << 20)  # not covered
        tool = self.start_leak(leaky, "-v")
        leaky.wait_leaked(1 << 20)
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        text = out.decode()
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assertRegex(text, r"\Aleaky\[%d\] grows by .*: leak_here \(leaky\.c:\d+\)" % leaky.pid)
        self.assertRegex(text, r"(?m)^RSS: .* -> .*, \+.* in .* s; ")
        self.assertRegex(text, r"(?m)^objects: \+.* in use \(exact, \d+ looks\): .* of 1 KiB")
        self.assertRegex(text, r"(?m)^covered: the samples represent .*, [\d.]+ % of .*; "
                               r"memory allocated before sampling started is not covered$")
        covered = float(re.search(r"([\d.]+) % of", text)[1])
        self.assertLess(covered, 90, text)  # half of it was allocated before
        self.assertRegex(text, r"(?m)^sampled for [\d.]+ s: gains of [\d.]+ .iB, losses of ")
        lines = text.splitlines()
        heading = [i for i, line in enumerate(lines) if line.lstrip().startswith("growth ")][0]
        first, call = lines[heading + 1 : heading + 3]
        self.assertRegex(
            first,
            r"^ +\+[\d.]+ .iB +\+[\d.]+ .?i?B to \+[\d.]+ .?i?B +"
            r"(\+[\d.]+ .?i?B/s grows|stopped \S+ m?s ago)$",
        )
        self.assertRegex(call, r"^ +leak_here \(leaky\.c:\d+\)$")
        self.assertIn("interrupted; sampled for ", err)

    def test_settle(self):
        """After sampling has ended, the churn is freed: only the leak is left."""
        leaky = Leaky(self)
        path = os.path.join(self.directory(), "x.folded")
        words = (leaky.pid, "-d", "300ms", "--settle", "100ms", "--json", "-o", path)
        told = json.loads(self.leak(*words).text)
        self.assertEqual([row["stack"][0]["function"] for row in told["rows"]], ["leak_here"])
        self.assertEqual((told["holds"], told["path"]), (0, path))
        self.assertGreaterEqual(told["allocated_ns"], 10**8)
        left = [line for line in self.read(path).decode().splitlines() if not line.endswith(" 0")]
        self.assertEqual(len(left), 1, left)
        # A slow machine may sample between the switch and the first profile.
        before, after = map(int, re.search(r";work;leak_here (\d+) (\d+)$", left[0]).groups())
        self.assertLess(before, after)
        self.assert_active(leaky.pid, False)

    def test_settle_active_before(self):
        """It is off while it settles, and on again at the end."""
        leaky = Leaky(self)
        self.use("on", leaky.pid)
        tool = self.start_leak(leaky, "--settle", "1h", "--json", duration="50ms")
        self.assertTrue(lib.wait_until(lambda: not self.active(leaky.pid), 30, 0.05))
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assertEqual((json.loads(out)["old"], json.loads(out)["new"]), (True, True))
        self.assert_active(leaky.pid, True)

    def test_formats(self):
        leaky = Leaky(self)
        place = self.directory()
        signs = {"html": b"<script>", "pb.gz": b"\x1f\x8b", "dot": b"digraph", "txt": b"growth"}
        for extension, sign in signs.items():
            with self.subTest(extension=extension):
                path = os.path.join(place, "x." + extension)
                result = self.leak(leaky.pid, "-d", "100ms", "-o", path)
                self.assertIn(sign, self.read(path))
                self.assertRegex(result.text, r"(?m)^RSS: .* -> .* in [\d.]+ m?s")
        self.assert_titled(leaky, os.path.join(place, "x.html"))
        result = self.leak(leaky.pid, "-d", "100ms", "-f", "folded")
        self.assertNotIn("RSS: ", result.text)
        self.assert_active(leaky.pid, False)

    def assert_titled(self, leaky, path):
        """The process with its command line, the time and the RSS."""
        data = json.loads(self.read(path).decode().split('id="data">')[1].split("</script>")[0])
        self.assertEqual(data["title"], "leaky[%d]" % leaky.pid)
        self.assertIn("/leaky ", data["command"])
        self.assertLess(abs(data["time"] / 1000 - os.stat(path).st_mtime), 60)
        self.assertGreater(data["rss"], 1 << 20)
        self.assertRegex(data["sum"], r"^growth \S+ \S+ (\(samples\)|in use), .* before, .* now$")

    def test_page_of_faults(self):
        """It does not call pages that were touched first memory in use."""
        perf_events.require()
        leaky = Leaky(self)
        place = self.directory()
        path, text = (os.path.join(place, name) for name in ("x.html", "x.txt"))
        self.leak(leaky.pid, "--faults", "-d", "300ms", "-o", path)
        data = json.loads(self.read(path).decode().split('id="data">')[1].split("</script>")[0])
        self.assertRegex(data["sum"], r"^[\d.]+ [KM]?i?B first touched by these calls$")
        self.leak(leaky.pid, "--faults", "-d", "300ms", "-o", text)
        self.assertRegex(self.read(text).decode(), r"\nfirst touched: .*\n")

    def test_refused(self):
        leaky = Leaky(self)
        place = self.directory()
        with open(os.path.join(place, "x.html"), "w") as file:
            file.write("theirs")
        cases = (
            (lib.USAGE, "-o", "x.heap"),
            (lib.USAGE, "-f", "symbolized"),
            (lib.USAGE, "--every", "1s"),
            (lib.OUTPUT_FAILED, "-o", "x.html"),
        )
        for code, *words in cases:
            with self.subTest(words=words):
                result = self.tool("leak", leaky.pid, "-d", "1h", *words, cwd=place)
                self.assert_failed(result, code)
                self.assertNotIn("held", result.err)
        self.assertEqual(self.read(os.path.join(place, "x.html")), b"theirs")
        self.assert_active(leaky.pid, False)

    def test_nothing_grows(self):
        victim = self.victim("nanosleep")
        result = self.leak(victim.pid, "-d", "50ms", "-v")
        self.assertIn("no sampled stack has changed", result.text)
        self.assertRegex(result.text, r"(?m)^objects: unchanged \(exact, \d+ looks\)$")
        self.assert_active(victim.pid, False)
        self.assert_unharmed(victim, slow=True)

    def test_target_is_killed(self):
        """At once: tests/e2e_gone.py lets it live until a profile is kept."""
        leaky = Leaky(self)
        tool = self.start_leak(leaky, "-v")
        leaky.process.kill()
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.GONE, err)
        self.assertEqual(bool(out), "is kept" in err, err)
        self.assertIn("cut short" if out else "are lost", err)

    def test_switched_off_by_somebody_else(self):
        leaky = Leaky(self)
        tool = self.start_leak(leaky)
        self.use("off", leaky.pid)
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assertIn("was switched off by another program", err)
        self.assert_active(leaky.pid, False)

    def test_switched_on_while_it_settles(self):
        """That state is left as it is."""
        leaky = Leaky(self)
        tool = self.start_leak(leaky, "--settle", "1h", duration="20ms")
        self.assertTrue(lib.wait_until(lambda: not self.active(leaky.pid), 30, 0.05))
        self.use("on", leaky.pid)
        tool.send_signal(signal.SIGINT)
        code, _, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assertIn("was switched on by another program", err)
        self.assert_active(leaky.pid, True)


class Classes(lib.TestCase):
    """Of which class the objects are that grow (tests/seeded/classes.cpp), without profiling."""

    def start(self, program, *words):
        process = self.process(
            [program, *words],
            env=lib.tool_environment({"LD_PRELOAD": "libjemalloc.so.2"}),
            stdout=subprocess.PIPE,
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def build(self, name):
        if not shutil.which("g++"):
            self.skipTest("g++ is not installed")
        program = os.path.join(self.directory(), name)
        subprocess.run(["g++", "-O1", SOURCE, "-o", program], check=True)
        return program

    def test_limit_of_the_cgroup(self):
        """How long it lasts, from the growth that the answer is about; not where nothing grows."""
        group = groups.MemoryGroup("jeattach-leak-%d" % os.getpid(), 4096 << 20)
        self.addCleanup(group.remove)
        program = "import time\nkept = []\nwhile True: kept.append(b'x' * (1 << 20)); time.sleep(0.05)"
        growing = self.process([sys.executable, "-c", program], preexec_fn=group.enter)
        idle = self.process(["sleep", "600"], preexec_fn=group.enter)
        size = lambda: int(lib.status_fields(growing.pid)["VmRSS"].split()[0])
        self.assertTrue(lib.wait_until(lambda: size() > 20000))
        text = self.assert_ran(lib.run_tool("leak", growing.pid, "-d", "2s")).text
        self.assertRegex(text, r"\nlimit: 4 GiB \(its cgroup\), \S+ GiB left, for about "
                               r"\d+ (s|min|h|days?) at this rate\n")
        self.assertNotIn("\nlimit: ", self.assert_ran(lib.run_tool("leak", idle.pid, "-d", "1s")).text)
        told = json.loads(self.assert_ran(
            lib.run_tool("leak", growing.pid, "-d", "1s", "--json")).text)
        self.assertEqual(told["limit"], 4096 << 20)
        self.assertLess(0, told["limit_left"])
        self.assertLess(told["limit_left"], 4096 << 20)
        for process in (growing, idle):
            lib.end_process(process)

    def test_limit_of_its_own(self):
        """It grows up to that, by its own will."""
        process = self.start(self.build("memcached"), "session", "nothing", "-m", "100")
        text = self.assert_ran(lib.run_tool("leak", "-d", "2s", process.pid)).text
        self.assertIn("\nown limit: -m 100 MiB: its items grow up to that\n", text)

    def test_classes(self):
        program = self.build("classes")
        for what, before, name in (
            ("session", "nothing", "Session"),
            ("chars", "nothing", None),
            ("session", "chars", "Session"),  # the idle ones are not what grows
            ("chars", "session", None),
            ("session", "holes", None),  # between others, in no page of their own: not known
        ):
            with self.subTest(what=what, before=before):
                process = self.start(program, what, before)
                self.assertTrue(self.names(process, name), "unclear in each run")
                process.kill()

    def names(self, process, name):
        """False: on a busy machine too few objects are new. No run names another class."""
        for seconds in ("2s", "4s", "8s"):
            result = lib.run_tool("leak", "-d", seconds, "--json", process.pid)
            told = json.loads(self.assert_ran(result).text)
            for part in told["parts"]:
                self.assertIn(part.get("class", "no member"), (None, name), told["answer"])
            self.assertIn("class Session (C++ vtable)" in told["answer"], (False, name is not None))
            grows = told["parts"] and told["parts"][0]["size"] == 512
            if grows and told["parts"][0]["class"] == name:
                return True
        return False


if __name__ == "__main__":
    lib.main()
