"""jeattach leak --faults: who makes the RSS grow, in processes whose allocator was never prepared."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import allocators
import lib
import perf_events

SOURCE = os.path.join(lib.ROOT, "tests", "seeded", "growing.c")
CROWD = os.path.join(lib.ROOT, "tests", "seeded", "crowd.c")
KINDS = os.path.join(lib.ROOT, "tests", "seeded", "kinds.c")
CPUS = os.cpu_count()
PERIOD = 32  # 1 GB/s of churn causes 8000 samples/s, a leak of 1 MB/s 8: so that few seconds do
PAGE = os.sysconf("SC_PAGESIZE")
KIB = 1024
MIB = 1024 * KIB


def anonymous(pid):
    """Bytes."""
    return int(lib.status_fields(pid)["RssAnon"].split()[0]) * KIB


def always_huge():
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    return os.path.exists(path) and "[always]" in lib.read_text(path)


def debian_jemalloc():
    for directory in ("x86_64-linux-gnu", "aarch64-linux-gnu"):
        path = "/usr/lib/%s/libjemalloc.so.2" % directory
        if os.path.exists(path):
            return path
    raise unittest.SkipTest("libjemalloc2 is not installed")


def functions(row):
    """Innermost first."""
    return [call["function"] for call in row["stack"]]


class TestCase(lib.TestCase):
    def build(self, compiler, *words, source=SOURCE):
        if not shutil.which(compiler):
            raise unittest.SkipTest("%s is not installed" % compiler)
        path = os.path.join(self.directory(), "growing")
        subprocess.run(
            [compiler, "-O2", "-g", "-D_GNU_SOURCE", *words, source, "-o", path, "-lpthread"],
            check=True,
        )
        return path

    def growing(self, program, **env):
        process = allocators.Allocator(self.directory(), [program], env, None)
        self.addCleanup(process.stop)
        process.ask("run 64 100")  # what it needs once is no growth
        return process

    def start_grow(self, pid, *words):
        """Returns when page faults are sampled."""
        perf_events.require()
        tool = subprocess.Popen(
            [lib.TOOL, "leak", "--faults", "-d", "1h", *words, str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(),
        )
        self.addCleanup(lib.end_process, tool)
        self.assertTrue(lib.wait_until(lambda: tool.poll() is not None or self.samples(tool.pid)))
        if tool.poll() is not None:
            out, err = tool.communicate()
            self.fail((tool.returncode, out, err))
        self.wait_until_looked(tool)
        return tool

    @staticmethod
    def samples(pid):
        """Returns the number of its events."""
        try:
            names = [os.readlink("/proc/%d/fd/%s" % (pid, fd))
                     for fd in os.listdir("/proc/%d/fd" % pid)]
        except OSError:
            return 0
        return sum("perf_event" in name for name in names)

    def wait_until_looked(self, tool):
        """After the first look the tool only sleeps."""
        slept = lambda: int(lib.status_fields(tool.pid)["voluntary_ctxt_switches"])
        before = slept()
        self.assertTrue(lib.wait_until(lambda: slept() >= before + 4))

    def interrupt(self, tool):
        tool.send_signal(signal.SIGINT)
        out, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.INTERRUPTED, err)
        return out.decode()

    def faults(self, tool):
        """What it has seen of pages and page faults until now, and of jemalloc's objects."""
        told = json.loads(self.interrupt(tool))
        return {**told["faults"], "objects": told["objects"]}


class Seeded(TestCase):
    """1 MB/s by leak_here among 1 GB/s by churn_here: leak_here is first, and nearly all of it."""

    def check_leak(self, process):
        before = anonymous(process.pid)
        tool = self.start_grow(process.pid, "--period", str(PERIOD), "--json")
        process.ask("run 2500 2500")
        grown = anonymous(process.pid) - before
        told = self.faults(tool)
        first = told["rows"][0]
        self.assertIn("leak_here", functions(first), told)
        self.assertGreater(first["bytes"], 0.6 * told["by_stack"], told)
        self.assertNotIn("churn_here", functions(first))
        self.assertGreater(grown, 2400 * KIB)
        self.assertAlmostEqual(told["net"], grown, delta=grown / 10)
        self.assertEqual(sum(row["bytes"] > first["bytes"] for row in told["rows"]), 0)
        parts = told["by_stack"] + told["without_sample"] + told["in_flight"]
        self.assertAlmostEqual(parts, told["gained"], delta=PAGE)
        anonymous_change = told["heap"] + told["stacks"] + told["data"]
        self.assertAlmostEqual(told["gained"] - told["lost"], anonymous_change, delta=PAGE)
        # The churn is seen, and is no growth. With huge pages each block is 20 faults.
        self.assertGreater(told["again"], grown if always_huge() else 10 * grown)
        self.assertTrue(process.alive())
        process.ask("give")
        return told, grown

    def test_glibc(self):
        told, _ = self.check_leak(self.growing(self.build("cc")))
        self.assertIsNone(told["objects"])

    def test_jemalloc(self):
        """Its records show the sizes that grow, too."""
        process = self.growing(self.build("cc"), LD_PRELOAD=debian_jemalloc())
        told, grown = self.check_leak(process)
        # Objects in the thread's cache, up to 200 of a size, are in use for the records.
        self.assertAlmostEqual(told["objects"]["bytes"], grown, delta=grown / 2)
        self.assertGreater(told["objects"]["sizes"][0]["objects"], 0)

    def test_objects_in_new_mappings(self):
        """jemalloc maps more memory meanwhile."""
        process = self.growing(self.build("cc"), LD_PRELOAD=debian_jemalloc())
        before = anonymous(process.pid)
        tool = self.start_grow(process.pid, "--json")
        process.ask("leak 60000 200")
        grown = anonymous(process.pid) - before
        told = self.faults(tool)
        self.assertAlmostEqual(told["objects"]["bytes"], grown, delta=grown / 10)
        self.assertEqual(told["objects"]["sizes"][0]["size"], PAGE)

    def test_musl_static(self):
        self.check_leak(self.growing(self.build("musl-gcc", "-static")))


class Kinds(TestCase):
    """Growth outside the allocator's heap is named as that, exactly, with its stack."""

    KIB = 6000

    def start(self, **env):
        """What it needs once is no growth."""
        program = self.build("cc", source=KINDS)
        process = allocators.Allocator(self.directory(), [program], env, None)
        self.addCleanup(process.stop)
        process.ask("heap 500")
        return process

    def grow_by(self, process, *commands):
        """Returns the parts by kind."""
        tool = self.start_grow(process.pid, "--period", "3", "--json")
        for command in commands:
            process.ask(command)
        return {part["kind"]: part for part in self.faults(tool)["parts"]}

    def assert_part(self, parts, kind, function, kib=KIB, more=300):
        """Pages at the ends and of the allocator's own data are a few more."""
        part = parts[kind]
        self.assertEqual(part["after"] - part["before"], part["bytes"], part)
        self.assertGreaterEqual(part["bytes"], kib * KIB - PAGE, parts)
        self.assertLessEqual(part["bytes"], (kib + more) * KIB, parts)
        sums = part["by_stack"] + part["in_flight"] + part["without_sample"]
        self.assertGreaterEqual(sums, part["bytes"] - PAGE, part)
        first = part["stacks"][0]
        self.assertIn(function, functions(first), parts)
        self.assertEqual(first["evidence"], "faults")
        self.assertLessEqual(first["low"], first["high"])
        return part

    def assert_still(self, parts, *kinds):
        for kind in kinds:
            if kind in parts:
                self.assertLess(abs(parts[kind]["bytes"]), MIB, parts)

    def test_mapped_beside_jemalloc(self):
        process = self.start(LD_PRELOAD=debian_jemalloc())
        parts = self.grow_by(process, "heap %d" % (2 * self.KIB), "map %d" % self.KIB)
        self.assert_part(parts, "mappings", "grow_map", more=64)  # pages of libraries, too
        self.assertTrue(parts["jemalloc"]["stacks"], parts)
        self.assertIn("grow_heap", functions(parts["jemalloc"]["stacks"][0]))
        self.assertGreater(parts["jemalloc"]["bytes"], 2 * self.KIB * KIB)
        self.assert_still(parts, "libc", "stacks", "shared", "files")

    def test_libc(self):
        """The first thread's heap, and that of another one, which glibc maps."""
        parts = self.grow_by(self.start(), "heap %d" % self.KIB)
        self.assert_part(parts, "libc", "grow_heap")
        parts = self.grow_by(self.start(), "arena %d" % self.KIB)
        self.assert_part(parts, "libc", "grow_arena")
        self.assert_still(parts, "mappings", "shared")

    def test_thread_stacks(self):
        parts = self.grow_by(self.start(), "stack %d" % self.KIB)
        part = self.assert_part(parts, "stacks", "use_stack")
        self.assertGreater(part["samples"], 0)
        self.assert_still(parts, "libc", "shared")

    def test_shared_memory(self):
        parts = self.grow_by(self.start(), "share %d" % self.KIB)
        self.assert_part(parts, "shared", "grow_map", more=0)
        self.assert_still(parts, "mappings", "files", "libc")

    def test_files(self):
        """The kernel maps several pages of a file at a fault: the stack has its share of all."""
        parts = self.grow_by(self.start(), "file %d" % (20 * self.KIB))
        self.assert_part(parts, "files", "grow_file", kib=20 * self.KIB - 500, more=2000)
        self.assert_still(parts, "mappings", "libc")

    def test_huge_pages(self):
        """They are not in the RSS."""
        process = self.start()
        tool = self.start_grow(process.pid, "--period", "1", "--json")
        process.process.stdin.write("huge %d\n" % (8 * 1024))
        process.process.stdin.flush()
        if process.process.stdout.readline() != "ok\n":
            raise unittest.SkipTest("no huge pages are reserved (vm.nr_hugepages)")
        told = self.faults(tool)
        parts = {part["kind"]: part for part in told["parts"]}
        self.assertEqual(parts["huge"]["bytes"], 8 * MIB)
        self.assertIn("grow_map", functions(parts["huge"]["stacks"][0]))
        self.assert_still(parts, "mappings", "libc")

    def test_deep_stacks(self):
        """The copies of stacks become larger until few end before the outermost call."""
        process = self.start()
        tool = self.start_grow(process.pid, "--period", "3", "--json")
        for _ in range(4):
            process.ask("deep %d" % (2 * self.KIB))
        told = self.faults(tool)
        self.assertGreater(told["stack_bytes"], 60 * 700)
        self.assertLess(told["stacks_cut"], told["samples"] / 2, told)
        self.assertGreater(functions(told["rows"][0]).count("grow_deep"), 59, told["rows"][0])
        self.assertIn("main", functions(told["rows"][0]))

    def test_text(self):
        """Each kind has a line."""
        process = self.start(LD_PRELOAD=debian_jemalloc())
        tool = self.start_grow(process.pid, "--period", "3", "-v")
        process.ask("map %d" % self.KIB)
        text = " ".join(self.interrupt(tool).split())
        self.assertRegex(text, r" anonymous mappings: \+5\.8\d MiB; first touched by: \d+ % touch "
                               r"\(kinds\.c:\d+\) <- grow_map ")
        self.assertNotIn("heap of the C library", text)
        self.assertIn(" (first touch) RSS: ", text)
        self.assertNotIn("the whole stacks", text)  # -v has them already

    def test_python_objects(self):
        """CPython's pools are told from what else it maps, such as a large list."""
        python = shutil.which("python3", path="/usr/bin")
        if not python:
            raise unittest.SkipTest("python3 is not installed")
        script = ("import sys\nkept = []\nprint('ready', flush=True)\n"
                  "for line in sys.stdin:\n"
                  "    kept += [(number,) for number in range(int(line))]\n"
                  "    print('ok', flush=True)\n")
        process = self.process([python, "-c", script], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
        process.stdout.readline()
        before = anonymous(process.pid)
        tool = self.start_grow(process.pid, "--period", "3", "--json")
        process.stdin.write(b"100000\n")
        process.stdin.flush()
        process.stdout.readline()
        grown = anonymous(process.pid) - before
        told = self.faults(tool)
        parts = {part["kind"]: part for part in told["parts"]}
        # 100000 tuples of 64 bytes with their collector's head, and numbers of 32
        self.assertGreater(parts["pymalloc"]["bytes"], 7 * MIB, parts)
        self.assertLess(parts["pymalloc"]["bytes"], grown, parts)
        self.assertGreater(parts["pymalloc"]["stacks"][0]["low"], 0)
        self.assertTrue(told["pymalloc_apart"])


class Languages(TestCase):
    """The run-time system is known by the name of its program: a copy of another one will do."""

    def hint(self, name, *words):
        """Returns the pid and what the tool says of the language."""
        perf_events.require()
        program = os.path.join(self.directory(), name)
        shutil.copy(self.build("cc", source=KINDS), program)
        process = allocators.Allocator(self.directory(), [program], {}, None, words)
        self.addCleanup(process.stop)
        result = lib.run_tool("leak", "--faults", "-d", "100ms", "--json", process.pid)
        self.assert_ran(result)
        return process.pid, json.loads(result.text)["faults"]["language"]

    def test_commands(self):
        for name, command in (
            ("node", "node inspect -p %d"),
            ("python3.11", "memray attach %d"),
            ("ruby", "rbtrace -p %d -e "),
        ):
            with self.subTest(name):
                pid, hint = self.hint(name)
                self.assertTrue(hint["command"].startswith(command % pid), hint)
                self.assertTrue(hint["shows"] and hint["needs"], hint)

    def test_none(self):
        self.assertIsNone(self.hint("nodes")[1])

    def test_signal_of_node(self):
        """The signal ends a process that was not started for it: only the option names it."""
        pid, hint = self.hint("node", "--heapsnapshot-signal=SIGUSR2", "x.js")
        self.assertEqual(hint["command"], "kill -USR2 %d" % pid)
        for word in ("--heapsnapshot-signal=", "--heapsnapshot-signal=SIG", "x.js",
                     "--heapsnapshot-signal=SIGUSR2;reboot"):
            pid, hint = self.hint("node", word)
            self.assertEqual(hint["command"], "node inspect -p %d" % pid)


class Crowd(TestCase):
    """Many threads: one event for each CPU, and no fault of another process."""

    def crowd(self, threads):
        perf_events.require_cpus()
        program = self.build("cc", source=CROWD)
        process = allocators.Allocator(self.directory(), [program, str(threads)], {}, None)
        self.addCleanup(process.stop)
        return process

    def assert_few_events(self, tool):
        """One event for each CPU, and one for its ring."""
        self.assertLessEqual(self.samples(tool.pid), 2 * CPUS)
        rings = sum(
            int(end, 16) - int(start, 16)
            for start, end in (
                line.split()[0].split("-")
                for line in lib.read_text("/proc/%d/maps" % tool.pid).splitlines()
                if "perf_event" in line
            )
        )
        self.assertLess(rings, 128 << 20)

    def assert_shares(self, told, truth):
        """Within twice the margin of error that is told. Samples can be few beside busy tests."""
        for name, bytes_ in truth.items():
            found = sum(row["bytes"] for row in told["rows"] if name in functions(row))
            error = 2 * max(row["error"] for row in told["rows"])
            self.assertAlmostEqual(found, bytes_, delta=error + bytes_ / 20, msg=told)

    def check_crowd(self, process, kib=40000):
        tool = self.start_grow(process.pid, "--json")
        self.assert_few_events(tool)
        before = anonymous(process.pid)
        process.ask("leak %d 1500" % kib)
        process.ask("late %d 500" % (kib // 2))
        grown = anonymous(process.pid) - before
        self.assert_few_events(tool)
        told = self.faults(tool)
        self.assertTrue(told["by_cpu"])
        self.assertEqual(told["threads_missed"], 0)
        self.assertAlmostEqual(told["net"], grown, delta=grown / 10)
        self.assert_shares(told, {"sleeper": kib * KIB, "late_one": kib // 2 * KIB})
        return told

    def test_thousand_threads(self):
        self.check_crowd(self.crowd(1000))

    def test_beside_another_process(self):
        """The child of the same program touches memory as fast as it can."""
        process = self.crowd(1000)
        process.ask("churn 1")
        told = self.check_crowd(process)
        process.ask("churn 0")
        self.assertGreater(told["samples_of_others"], 0)
        self.assertNotIn("start_other", [name for row in told["rows"] for name in functions(row)])

    def test_timeout(self):
        """It is over before the events are opened: nothing is sampled."""
        process = self.crowd(1000)
        result = lib.run_tool("leak", "--faults", "-d", "1s", "--timeout", "0.001ms", "--json", process.pid)
        self.assertEqual(json.loads(result.text)["error"]["code"], "too_late", result)

    def test_becomes_a_crowd(self):
        """Threads that start while it is sampled would inherit an event for each CPU."""
        process = self.crowd(10)
        tool = self.start_grow(process.pid, "--period", "7", "--json")
        self.assertGreater(self.samples(tool.pid), 10 * CPUS)
        process.ask("more 2000")
        self.assertTrue(lib.wait_until(lambda: self.samples(tool.pid) <= 2 * CPUS))
        self.wait_until_looked(tool)
        process.ask("leak 40200 1000")  # 20 KiB in each thread
        told = self.faults(tool)
        self.assertTrue(told["by_cpu"])
        # The stacks of the threads that start have been touched, too.
        leaked = [row for row in told["rows"] if "sleeper" in functions(row)]
        self.assertGreater(sum(row["bytes"] + row["error"] for row in leaked), 38000 * KIB, told)

    @unittest.skipUnless(os.environ.get("JEATTACH_LONG"), "in ./test --long")
    def test_twenty_thousand_threads(self):
        """An event and a ring for each took 50 s and 16 GiB of the kernel's memory."""
        process = self.crowd(20000)
        result = lib.run_tool("leak", "--faults", "-d", "1s", "--timeout", "5s", "--json", process.pid)
        self.assert_ran(result)
        self.assertEqual(json.loads(result.text)["faults"]["threads_missed"], 0)
        self.check_crowd(process, 160000)


class Later(TestCase):
    def test_library_opened_later(self):
        """Callers in code that was mapped after the start are found."""
        directory = self.directory()
        source = os.path.join(lib.ROOT, "tests", "seeded", "later.c")
        library, program = (os.path.join(directory, name) for name in ("later.so", "later"))
        compiler = ["cc", "-O2", "-g", "-D_GNU_SOURCE", source, "-ldl"]
        words = ["-shared", "-fPIC", "-DLIBRARY"]
        subprocess.run([*compiler, *words, "-o", library], check=True)
        subprocess.run([*compiler, "-o", program], check=True)
        process = self.process([program, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        tool = self.start_grow(process.pid, "--period", "1", "--json")
        process.stdin.write(b"\n")
        process.stdin.flush()
        before = anonymous(process.pid)
        self.assertTrue(lib.wait_until(lambda: anonymous(process.pid) > before + 20000 * KIB))
        told = self.faults(tool)
        wanted = ["grow_in_library", "call_back", "main"]
        found = sum(
            row["bytes"]
            for row in told["rows"]
            if [name for name in functions(row) if name in wanted] == wanted
        )
        self.assertGreater(found, 0.5 * told["by_stack"], told)


class Verb(TestCase):
    def setUp(self):
        self.process = self.growing(self.build("cc"))

    def test_text_and_profile(self):
        """The text begins with the answer; the profile has the same sum in each format."""
        path = os.path.join(self.directory(), "grow.heap")
        tool = self.start_grow(self.process.pid, "--period", "1", "-o", path)
        self.process.ask("leak 4000 200")
        text = self.interrupt(tool)
        self.assertRegex(text, r"\Agrowing\[%d\] gr\w+ by [0-9.]+ [KM]iB.* in the C library's heap \(exact\); "
                               r"first touched by: \d+ %% leak_here \(growing.c:\d+\)" % self.process.pid)
        self.assertRegex(text, r"\nRSS: \S+ MiB -> \S+ MiB, \+.* in .*; heap \+\S+ MiB")
        report = lib.run_tool("report", path, "-f", "json")
        self.assert_ran(report)
        bytes_ = json.loads(report.text)["total"]
        self.assertGreater(bytes_, 3600 * KIB)
        self.assertLess(bytes_, 4800 * KIB)
        folded = lib.run_tool("report", path, "-f", "folded").text
        leaked = sum(int(line.rpartition(" ")[2]) for line in folded.splitlines()
                     if "leak_here" in line)
        self.assertGreater(leaked, 0.9 * bytes_)

    def test_at_rest(self):
        perf_events.require()
        result = lib.run_tool("leak", "--faults", "-d", "300ms", self.process.pid)
        self.assert_ran(result)
        self.assertIn("growing[%d] does not grow: " % self.process.pid, result.text)

    def test_shrinks(self):
        self.process.ask("hold")
        tool = self.start_grow(self.process.pid)
        self.process.ask("rest 300")
        self.process.ask("give")
        self.assertRegex(self.interrupt(tool), r"\Agrowing\[\d+\] shrinks by ")

    def test_some_returned(self):
        """More was touched than the process has grown by: the table says why."""
        script = ("import mmap\n"
                  "def touched(size):\n"
                  "    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
                  "    memory.write(bytes(size))\n"
                  "    return memory\n"
                  "old = touched(8 << 20); print('ready', flush=True); input()\n"
                  "new = touched(12 << 20); old.close(); print('ok', flush=True); input()")
        process = subprocess.Popen(["python3", "-c", script], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.addCleanup(lib.end_process, process)
        process.stdout.readline()
        tool = subprocess.Popen([lib.TOOL, "leak", "--faults", "-d", "3s", str(process.pid)],
                                stdout=subprocess.PIPE)
        self.addCleanup(lib.end_process, tool)
        self.assertTrue(lib.wait_until(lambda: self.samples(tool.pid)))
        self.wait_until_looked(tool)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        text = tool.communicate(timeout=lib.TOOL_TIMEOUT)[0].decode()
        self.assertRegex(text, r"(?m)^first touch +share  stack, in anonymous mappings, "
                               r"some returned since$")

    def test_stopped(self):
        """The time that a growth took is said, not how long ago it ended."""
        process = self.growing(self.build("cc"), LD_PRELOAD=debian_jemalloc())
        tool = subprocess.Popen([lib.TOOL, "leak", "--faults", "--json", "-d", "4s",
                                 str(process.pid)], stdout=subprocess.PIPE)
        self.addCleanup(lib.end_process, tool)
        self.assertTrue(lib.wait_until(lambda: self.samples(tool.pid)))
        process.ask("leak 20000 1000")
        answer = json.loads(tool.communicate(timeout=lib.TOOL_TIMEOUT)[0])["answer"]
        self.assertRegex(answer, r"^grew (once by \S+ MiB in objects|by \S+ MiB in the first "
                                 r"\S+ m?s of \S+ s, and not since, most of it in objects) of ")

    def test_killed(self):
        """A death of the tool leaves nothing behind."""
        tool = self.start_grow(self.process.pid, "--period", "1")
        self.process.process.stdin.write("leak 2000 300\n")
        self.process.process.stdin.flush()
        self.assertTrue(lib.wait_until(lambda: anonymous(self.process.pid) > 1000 * KIB))
        tool.kill()
        tool.wait()
        self.assertEqual(self.process.process.stdout.readline(), "ok\n")
        self.assertEqual(lib.tracer_of(self.process.pid), 0)
        self.assertEqual(self.process.said(), "")
        self.process.ask("give")

    def test_target_ends(self):
        """What was seen until then is shown, and the end is reported."""
        tool = self.start_grow(self.process.pid, "--period", "1")
        self.process.ask("leak 1000 500")
        self.process.ask("rest 1000")  # the last look is not at the end
        self.process.process.stdin.close()
        out, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.GONE, err)
        self.assertIn(b"leak_here", out)
        self.assertIn(b"has ended", err)

    def test_target_executes_another(self):
        """Its RSS is that of the program that was looked at."""
        script = ("import os; print('ready', flush=True); kept = bytearray(30 << 20); input(); "
                  "os.execvp('sleep', ['sleep', '600'])")
        process = subprocess.Popen(["python3", "-c", script], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.addCleanup(lib.end_process, process)
        process.stdout.readline()
        tool = self.start_grow(process.pid, "--json")
        process.stdin.write(b"\n")
        process.stdin.close()
        out, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.GONE, err)
        self.assertIn(b"another program", err)
        told = json.loads(out.decode().splitlines()[0])
        # What was not seen to its end is not judged.
        self.assertEqual((told["verdict"], told["ended"]), (None, "replaced"), told)
        self.assertRegex(told["answer"], r"\Awas replaced by another program after \S+ m?s; until then")
        self.assertGreaterEqual(told["faults"]["after"]["rss"], told["faults"]["before"]["rss"])


class Filled(TestCase):
    def test_without_profiling(self):
        """Where profiling was not enabled, that is said, and there is an answer all the same."""
        process = self.growing(self.build("cc"), LD_PRELOAD=debian_jemalloc())
        result = self.assert_ran(lib.run_tool("leak", "-d", "500ms", "--json", process.pid))
        told = json.loads(result.text)
        self.assertEqual(told["evidence"], "exact")
        self.assertIn("no samples: profiling was not enabled when it was started", result.err)
        result = lib.run_tool("leak", "--samples", process.pid)
        self.assertEqual(result.code, lib.PROFILING_OFF, result)
        result = lib.run_tool("dump", process.pid)
        self.assertIn("; to see what grows in it without profiling: jeattach leak %d\n" % process.pid,
                      result.err)

    def test_redis(self):
        redis = lib.Redis(self.directory())
        self.addCleanup(redis.stop)
        before = anonymous(redis.pid)
        tool = self.start_grow(redis.pid, "--json")
        redis.cli("eval", "for i=1,100000 do redis.call('SET','k'..i,string.rep('x',100)) end",
                  "0")
        grown = anonymous(redis.pid) - before
        told = self.faults(tool)
        self.assertGreater(grown, 10 << 20)
        self.assertAlmostEqual(sum(row["bytes"] for row in told["rows"]), grown,
                               delta=grown / 10)
        self.assertTrue({"createStringObject", "_sdsnewlen", "dbAdd"} &
                        set(functions(told["rows"][0])), told["rows"][0])


@unittest.skipUnless(os.uname().machine == "x86_64", "its code is of x86-64")
class Dear(lib.TestCase):
    def test_walks_are_bounded(self):
        """Call frame information may be made to take long: it was minutes, without an end."""
        program = os.path.join(self.directory(), "dear_walks")
        source = os.path.join(lib.ROOT, "tests", "seeded", "dear_walks.c")
        subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", source, "-o", program], check=True)
        path = os.path.join(self.directory(), "file")
        with open(path, "wb") as file:
            file.truncate(1 << 30)
        process = subprocess.Popen([program, path], stdout=subprocess.PIPE)
        self.addCleanup(lib.end_process, process)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        result = lib.run_tool("leak", "--faults", "-d", "1s", "--json", process.pid)
        if result.code == lib.NOT_PERMITTED and "perf" in result.err:
            raise unittest.SkipTest("page faults may not be sampled here: %s" % result.err)
        self.assert_ran(result)
        told = json.loads(result.text)["faults"]
        self.assertLess(told["sampled_ns"], 20e9)
        self.assertGreater(told["samples"], told["stacks_left_out"])


if __name__ == "__main__":
    lib.main()
