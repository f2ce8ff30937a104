"""jeattach explain: one answer and one next step, for every process, without touching it."""

import concurrent.futures
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

import allocators
import e2e_seeded
import groups
import lib

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
MIB = 1 << 20
SPACE = 4 << 30
NO_PROCESS = "4194303"  # the last pid that may be
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


class Case(allocators.TestCase):
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
            pid = str(answer["pid"])
            words = [NO_PROCESS if word == pid else word for word in words[1:]]
            result = lib.run_tool(*words)
            self.assertFalse(result.code == lib.USAGE and result.err, result)

    def assert_sum(self, answer):
        parts = answer["parts"]
        names = ("anonymous", "brk", "stacks", "variables", "files", "shared")
        self.assertLess(abs(sum(parts[name] for name in names) - answer["rss"]), 2 * MIB, parts)


class Explain(Case):
    def test_a_limit_of_its_own(self):
        """Up to which a program's cache grows, from its command line and its environment."""
        options = {"NODE_OPTIONS": "--inspect=0 --max_old_space_size=300"}
        java = os.path.join(self.directory(), "libjvm.so")
        e2e_seeded.build(["gcc", "-shared", "-x", "c", "/dev/null", "-o", java])
        java = {"LD_PRELOAD": java, "JDK_JAVA_OPTIONS": "-ea  '-Xmx2g'",
                "JAVA_TOOL_OPTIONS": "-Xmx1g"}
        cases = (
            ("memcached", ("-m", "64", "-m", "100"), {}, "-m 100 MiB: its items grow",
             ("-m", None, 100 * MIB, False)),
            ("memcached", ("--memory-limit=2048",), {}, "--memory-limit 2 GiB: its items grow",
             ("--memory-limit", None, 2048 * MIB, False)),
            ("memcached", (), {}, "-m 64 MiB, the default: its items grow",
             ("-m", None, 64 * MIB, True)),
            ("memcached", ("-m", "0"), {}, None, None),
            ("redis-server", (), {}, "redis-cli config get maxmemory shows it; its data grow",
             ("--maxmemory", None, None, False)),
            ("redis-server", ("--maxmemory-policy", "volatile-lru", "--maxmemory", "2mb"), {},
             "--maxmemory 2 MiB: its data grow", ("--maxmemory", None, 2 * MIB, False)),
            ("cache-main", ("-s", "default,1G", "-s", "Transient=malloc,5m"), {},
             "-s 1 GiB: its stored objects grow", ("-s", None, 1024 * MIB, False)),
            ("node", ("--max-old-space-size=512",), options,
             "--max-old-space-size 512 MiB: the JavaScript heap grows",
             ("--max-old-space-size", None, 512 * MIB, False)),
            ("node", (), options,
             "--max-old-space-size 300 MiB in NODE_OPTIONS: the JavaScript heap grows",
             ("--max-old-space-size", "NODE_OPTIONS", 300 * MIB, False)),
            ("node", (), {}, None, None),
            ("java", (), java, "-Xmx 2 GiB in JDK_JAVA_OPTIONS: the Java heap grows",
             ("-Xmx", "JDK_JAVA_OPTIONS", 2048 * MIB, False)),
            ("java", ("-Xmx512m",), java, "-Xmx 512 MiB: the Java heap grows",
             ("-Xmx", None, 512 * MIB, False)),
            ("java", ("-Xmx512m",), dict(java, _JAVA_OPTIONS="-Xmx3G"),
             "-Xmx 3 GiB in _JAVA_OPTIONS: the Java heap grows",
             ("-Xmx", "_JAVA_OPTIONS", 3072 * MIB, False)),
        )
        processes = [self.named_shell(*case[:3]) for case in cases]
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            told = list(pool.map(lambda process: self.both(process.pid), processes))
        for (name, words, env, limit, in_json), (text, result) in zip(cases, told):
            with self.subTest(name=name, words=words, env=env):
                flat = re.sub(r"\n {13}", " ", text)
                self.assertEqual(re.findall(r"(?m)^own limit    (.*) up to that$", flat),
                                 [limit] if limit else [])
                own = json.loads(result.text)["own_limit"]
                self.assertEqual(own and tuple(own.values()), in_json and (*in_json, None))

    def named_shell(self, name, words, env):
        """A shell that waits, with another name and more words in its command line."""
        program = os.path.join(self.directory(), name)
        shutil.copy("/bin/sh", program)
        process = self.process([program, "-c", "read line", *words], stdin=lib.subprocess.PIPE,
                               env=lib.tool_environment(env))
        lib.wait_until(lambda: lib.read_text("/proc/%d/comm" % process.pid) == name + "\n")
        return process

    def test_growing_below_its_own_limit(self):
        """Which it reaches before any other: no end of the machine's memory is foretold."""
        program = os.path.join(self.directory(), "memcached")
        shutil.copy(os.path.realpath(PYTHON), program)
        process = self.started(program, "-c", GROWING, str(2000 * MIB), "private", "-m", "3000")
        text, answer = self.explain(process.pid)
        self.assertEqual(answer["growth"]["state"], "growing", answer)
        self.assertIsNone(answer["growth"]["limit_in_ns"])
        own = answer["own_limit"]
        left = own["bytes"] - answer["rss"]
        rate = answer["growth"]["bytes"] / answer["growth"]["ns"]
        self.assertAlmostEqual(own["reached_in_ns"], left / rate, delta=0.1 * left / rate)
        self.assertRegex(text.replace("\n", " "),
                         r" grows by \S+ MiB/s: at this rate it reaches its own -m 2\.93 GiB in about "
                         r"\d+ (s|min), and then evicts items; it uses ")
        self.assertNotIn("machine has memory for", text)
        self.assertEqual(answer["headline"], "growth")
        lib.end_process(process)
        node = os.path.join(self.directory(), "node")
        shutil.copy(program, node)
        process = self.started(node, "-c", GROWING, str(2000 * MIB), "private",
                               "--max-old-space-size=3000")
        text, answer = self.explain(process.pid)
        self.assertEqual(answer["growth"]["state"], "growing", answer)
        self.assertIsNone(answer["own_limit"]["reached_in_ns"])
        self.assertRegex(text.replace("\n", " "),
                         r" grows by \S+ MiB/s.*, but the JavaScript heap grows up to its own "
                         r"--max-old-space-size 2\.93 GiB; it uses ")
        lib.end_process(process)

    def test_language_beside_jemalloc(self):
        """Of a language's objects outside jemalloc, its own tool tells more."""
        program = os.path.join(self.directory(), "ruby")  # its name shows the language
        shutil.copy(os.path.realpath("/usr/bin/python3"), program)
        code = ("import mmap\nheap = mmap.mmap(-1, 40 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
                "heap.write(b'x' * (40 << 20)); print('ready', flush=True); input()")
        process = self.process(
            [program, "-c", code], stdin=lib.subprocess.PIPE, stdout=lib.subprocess.PIPE,
            env=lib.tool_environment({"LD_PRELOAD": "libjemalloc.so.2", "PYTHONHOME": "/usr"}),
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        text = self.assert_ran(lib.run_tool("explain", process.pid)).text
        self.assertIn("\nlanguage     Ruby; for its objects: rbtrace -p %d " % process.pid, text)
        self.assertRegex(text, "outside jemalloc, most of\\s+it\\s+memory without a file")

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
                                   ("prof:true,prof_active:false,lg_prof_sample:10", "inactive", ("record",)),
                                   # A sample of so little is chance.
                                   ("prof:true,prof_active:false", "inactive", ("peek",))):
            with self.subTest(conf=conf):
                allocator = self.allocator("5.3.0", conf=conf)
                _, answer = self.explain(allocator.pid)
                self.assertEqual(answer["jemalloc"]["profiling"], state)
                self.assertEqual(answer["jemalloc"]["sites"], [])
                self.assertIn(answer["next"]["step"], steps)
                self.assert_well(allocator)

    def test_counts_of_stats(self):
        """The parts are what jemalloc itself counts, but read from the records."""
        allocator = self.allocator("5.3.0", conf="")
        told = self.assert_ran(lib.run_tool("stats", "--full", "--json", allocator.pid)).text
        counts = json.loads(told)["jemalloc"]["stats"]
        text, answer = self.explain(allocator.pid)
        objects = answer["jemalloc"]["objects"]
        pages = objects["in_use"] + objects["free_between"]
        self.assertLess(abs(pages - counts["active"]), MIB, (objects, counts))
        self.assertGreater(objects["in_use"], counts["allocated"] / 2)
        parts = answer["jemalloc"]["parts"]
        self.assertEqual(parts["source"], "records")
        self.assertLess(abs(parts["in_use"] + (parts["sampling"] or 0) - counts["allocated"]), MIB)
        self.assertLess(abs(parts["slabs"] + parts["padding"] - objects["free_between"]), MIB)
        self.assertRegex(text, r"(?m)^jemalloc     5\.3\.0, counted now\n"
                               r"  in use +\S+ \S+ +\S+ %  by the program\n"
                               r"(?:  slabs +\S+ \S+ +\S+ %  free space between objects; |  free )")
        self.assertNotEqual(answer["next"]["step"], "stats")

    def test_nothing_is_touched(self):
        allocator = self.allocator("5.3.0")
        before = lib.snapshot(allocator.pid)
        result = self.assert_ran(lib.run_tool("explain", allocator.pid, tool=lib.TRACED_TOOL))
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
                         r" grows by \S+ MiB/s: at this rate the limit is reached in about "
                         r"\d+ (s|min); it uses \S+ MiB, its cgroup \S+ MiB of 4 GiB \((< )?\d+ %\): "
                         r"\S+ MiB \(\d+ %\) of it is shared memory ")
        self.assertEqual(answer["headline"], "limit")
        self.assertIn("its cgroup", text)
        text, answer = self.explain(process.pid, "-d", "1s")
        self.assertEqual(answer["growth"]["state"], "growing", answer)
        self.assertRegex(answer["answer"], r"\A\+\S+ MiB in shared memory")
        self.assertRegex(text, r"(?m)^own\+shared .* \+\S+ MiB in ")
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

    def test_ends_meanwhile(self):
        for words in ((), ("-d", "1s")):
            with self.subTest(words=words):
                process = self.started("/bin/sh", "-c", "echo ready; sleep 0.5")
                self.assert_failed(lib.run_tool("explain", *words, process.pid), lib.GONE)

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


class Seeded(Case):
    """Programs of which it is known what their memory is (tests/seeded/explained.c)."""

    def start_seeded(self, *words, preload="libjemalloc.so.2", **options):
        place = self.directory()
        program = os.path.join(place, "explained")
        source = os.path.join(e2e_seeded.SOURCES, "explained.c")
        e2e_seeded.build(["gcc", "-g", "-O1", source, "-o", program])
        env = {"LD_PRELOAD": preload} if preload else {}
        process = self.process([program, *words], stdout=subprocess.PIPE,
                               env=lib.tool_environment(env), **options)
        ready, waste = process.stdout.readline().split()
        self.assertEqual(ready, b"ready")
        return process, int(waste)

    def assert_waste(self, answer, waste):
        parts = answer["jemalloc"]["parts"]
        self.assertEqual(parts["source"], "records")
        self.assertAlmostEqual(parts["slabs"], waste, delta=0.01 * waste)
        self.assertAlmostEqual(parts["in_use"], waste / 4, delta=MIB)

    def test_noise_hides_no_waste(self):
        """It touches some 2 MiB in most seconds, which is not what its memory is."""
        process, waste = self.start_seeded("waste", "300")
        text, answer = self.explain(process.pid)
        self.assertEqual(answer["headline"], "slabs")
        self.assertRegex(
            text.replace("\n", " "),
            r"\Aexplained\[\d+\] uses \S+ MiB: 240 MiB \(\d+ %\) of it is free space between "
            r"objects, which no purge returns; ")
        self.assertEqual(answer["next"]["step"], "frag")
        self.assertRegex(text, r"(?m)^helps        ")
        self.assertTrue(answer["helps"])
        self.assert_waste(answer, waste)
        self.assertEqual(answer["answer"], answer["verdict"])

    def test_core(self):
        """What the records say of a process is what its core file says."""
        if not shutil.which("gcore"):
            self.skipTest("gcore is not installed (package gdb)")
        process, waste = self.start_seeded("waste", "40")
        path = os.path.join(self.directory(), "core")
        subprocess.run(["gcore", "-o", path, str(process.pid)], capture_output=True,
                       stdin=subprocess.DEVNULL)
        path = "%s.%d" % (path, process.pid)
        text = self.assert_ran(lib.run_tool("explain", "--core", path)).text
        answer = json.loads(self.assert_ran(lib.run_tool("explain", "--core", path, "--json")).text)
        self.assertEqual((answer["pid"], answer["headline"]), (process.pid, "slabs"))
        self.assert_waste(answer, waste)
        self.assertEqual(answer["jemalloc"]["objects"]["largest"][0]["size"], 512)
        self.assertGreater(answer["mapped"]["anonymous"], 40 * MIB)
        self.assertNotIn("limit", answer)
        self.assertRegex(text, r"\Aexplained\[\d+\] had \S+ MiB in jemalloc: 32 MiB ")
        self.assertIn("jemalloc     5.3.0, counted at its end\n", text)
        self.assertEqual(answer["next"]["command"], "jeattach peek --core " + path)
        self.assert_ran(lib.run_tool(*answer["next"]["command"].split()[1:]))
        self.assertEqual(lib.run_tool("explain", "--core", path, "-d", "5s").code, lib.USAGE)

    def test_core_without_jemalloc(self):
        if not shutil.which("gcore"):
            self.skipTest("gcore is not installed (package gdb)")
        process = self.idle()
        path = os.path.join(self.directory(), "core")
        subprocess.run(["gcore", "-o", path, str(process.pid)], capture_output=True,
                       stdin=subprocess.DEVNULL)
        path = "%s.%d" % (path, process.pid)
        answer = json.loads(self.assert_ran(lib.run_tool("explain", "--core", path, "--json")).text)
        self.assertIsNone(answer["headline"])
        self.assertTrue(answer["no_jemalloc"])
        self.assertIn("Python", answer["allocators"])
        self.assertGreater(answer["mapped"]["anonymous"], MIB)

    def longer(self, pid, *words):
        """The result of --json, of a look of two seconds that touches nothing."""
        result = self.assert_ran(lib.run_tool("explain", "-d", "2s", pid, "--json", *words,
                                              tool=lib.TRACED_TOOL))
        for trace in ("ptrace", "perf_event"):
            self.assertNotIn(trace, result.err)
        return json.loads(result.text)

    def longer_text(self, pid):
        return self.assert_ran(lib.run_tool("explain", "-d", "2s", pid)).text.replace("\n", " ")

    def test_what_grows(self):
        process, _ = self.start_seeded("grow")
        answer = self.longer(process.pid)
        self.assertRegex(answer["answer"],
                         r"\A\+\S+ [KM]iB( \(\d+ %\))? in objects of 512 B in \S+ s \(exact\)")
        self.assertEqual(answer["growth"]["state"], "growing")
        self.assertEqual(answer["headline"], "growth")
        self.assertEqual(answer["next"]["step"], "leak")

    def test_one_growth(self):
        """The rate is that of the memory, and the only one on the screen; its parts are of it."""
        process, _ = self.start_seeded("sizes")
        text = self.longer_text(process.pid)
        rates = re.findall(r"([\d.]+) MiB/s", text)
        self.assertEqual(len(rates), 1, text)
        change, seconds = re.search(r" own memory .*? \+([\d.]+) MiB in ([\d.]+) s", text).groups()
        self.assertAlmostEqual(float(rates[0]), float(change) / float(seconds), delta=0.02 * float(rates[0]))
        self.assertRegex(text, r" in objects of .* \(exact\)")
        # More sizes grow than are named: what they leave is named, too.
        shares = re.findall(r"\((\d+) %\) +(?:in +objects +of|elsewhere)", text)
        self.assertAlmostEqual(sum(map(int, shares)), 100, delta=2, msg=text)

    def test_objects_in_free_pages(self):
        """Objects that take what is free are no growth of the memory, and no time is left by them."""
        process, _ = self.start_seeded("reuse", "40")
        answer = self.longer(process.pid)
        self.assertEqual(answer["growth"]["state"], "none")
        self.assertIsNone(answer["growth"]["limit_in_ns"])
        self.assertRegex(answer["answer"],
                         r"\A\+\S+ MiB in objects of 512 B in \S+ s \(exact\); they use what was "
                         r"free: the memory does not grow\Z")
        self.assertIn(", though its objects grow", answer["verdict"])
        self.assertTrue(answer["growth"]["objects_grow"])
        self.assertNotIn("grows by", answer["verdict"])

    def test_touched_file(self):
        """The kernel can take the pages of a mapped file back."""
        process, _ = self.start_seeded("file", os.path.join(self.directory(), "log"))
        for words in ((), ("-d", "2s")):
            with self.subTest(words=words):
                _, answer = self.explain(process.pid, *words)
                self.assertEqual(answer["growth"]["state"], "none")
                self.assertIsNone(answer["growth"]["limit_in_ns"])
                self.assertGreater(answer["growth"]["rss_bytes"], MIB)
                self.assertRegex(answer["verdict"],
                                 r"; it touched \S+ MiB more of shared memory and files")

    def test_too_little(self):
        """The words and the row below them have the same number."""
        process, _ = self.start_seeded("little")
        text = self.assert_ran(lib.run_tool("explain", process.pid)).text
        change = re.search(r"; (\+\d+ KiB) within a second: too little to judge",
                           text.replace("\n", " ")).group(1)
        self.assertRegex(text, r"(?m)^own memory .* %s in " % re.escape(change))
        self.assertNotIn("did not grow", text)

    def test_replaced_meanwhile(self):
        """Another program after the first half is no answer about either."""
        for words in ((), ("-d", "1s")):
            with self.subTest(words=words):
                process = self.started("/bin/sh", "-c", "echo ready; sleep 0.5; exec sleep 100")
                self.assert_failed(lib.run_tool("explain", *words, process.pid), lib.GONE,
                                   "it has replaced itself with another program")
                lib.end_process(process)

    def test_growth_outside(self):
        """With jemalloc and without, leak is the command, and the kind of memory is named."""
        for preload in ("libjemalloc.so.2", ""):
            with self.subTest(preload=preload):
                process, _ = self.start_seeded("map", preload=preload)
                answer = self.longer(process.pid)
                self.assertRegex(answer["answer"],
                                 r"\A\+\S+ MiB( \(\d+ %\))? in anonymous mappings.* in \S+ s \(exact\)\Z")
                self.assertEqual(answer["next"]["step"], "leak")
                lib.end_process(process)

    def test_longer_look_of_nothing(self):
        answer = self.longer(self.idle().pid)
        self.assertRegex(answer["answer"], r"\A(none|nothing certain) in ")
        self.assertEqual(answer["growth"]["state"], "none")
        self.assertIn(" -d 60s", answer["next"]["command"])
        self.assertRegex(answer["next"]["why"], r"\A2(\.\d+)? s is short: this watches for a minute, ")

    def test_interrupted(self):
        """Ctrl-C ends the longer look with its answer."""
        process, _ = self.start_seeded("grow")
        tool = self.process([lib.TOOL, "explain", "-v", "-d", "1h", str(process.pid)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=lib.tool_environment({}))
        self.assertTrue(lib.wait_until(
            lambda: lib.read_text("/proc/%d/comm" % tool.pid).strip() == "jeattach" and
            any("pagemap" in target for target in self.open_files(tool.pid))))
        rss = self.rss_of(process.pid)
        self.assertTrue(lib.wait_until(lambda: self.rss_of(process.pid) > rss + MIB, 60))
        tool.send_signal(signal.SIGINT)
        out, err = tool.communicate(timeout=60)
        self.assertEqual(tool.returncode, lib.INTERRUPTED, err)
        self.assertRegex(out.decode(), r"(?m)^growth       ")
        self.assertRegex(out.decode(), r"(?m)^next: jeattach ")

    def rss_of(self, pid):
        return int(lib.read_text("/proc/%d/statm" % pid).split()[1]) * resource.getpagesize()

    def open_files(self, pid):
        place = "/proc/%d/fd" % pid
        found = []
        for name in os.listdir(place):
            try:
                found.append(os.readlink(os.path.join(place, name)))
            except OSError:
                continue
        return found

    def test_nothing_is_switched(self):
        """A longer look leaves profiling as it is, and stops no thread."""
        allocator = self.allocator("5.3.0", conf="prof:true,prof_active:false")
        before = lib.snapshot(allocator.pid)
        answer = self.longer(allocator.pid)
        self.assertEqual(answer["jemalloc"]["profiling"], "inactive")
        self.assertEqual(lib.snapshot_differences(allocator.pid, before), [])
        self.assert_well(allocator)


class Limits(Case):
    """The RSS is set against a limit only where the limit counts it."""

    HOLDS = """
import mmap, sys, time
kind = mmap.MAP_SHARED if sys.argv[2] == 'shared' else mmap.MAP_PRIVATE
area = mmap.mmap(-1, int(sys.argv[1]), flags=kind | mmap.MAP_ANONYMOUS)
for at in range(int(sys.argv[1]) >> 20):
    area.write(b"x" * (1 << 20))
print("ready", flush=True)
time.sleep(1000)
"""

    def group(self, mib):
        group = groups.MemoryGroup("jeattach-limits-%d" % os.getpid(), mib * MIB)
        self.addCleanup(group.remove)
        return group

    def holding(self, mib, kind, **options):
        return self.started(PYTHON, "-c", self.HOLDS, str(mib * MIB), kind, **options)

    def test_charged_elsewhere(self):
        """What it touched in another cgroup stays charged to that one."""
        group = self.group(256)
        process = self.holding(100, "shared")
        with open(os.path.join(group.path, "cgroup.procs"), "w") as file:
            file.write(str(process.pid))
        text, answer = self.explain(process.pid)
        self.assertGreater(answer["rss"], 100 * MIB)
        self.assertLess(answer["limit"]["used"], 50 * MIB)
        self.assertFalse(answer["limit"]["counts_rss"])
        self.assertRegex(text.replace("\n", " "),
                         r"\A\S+ uses \S+ MiB, its cgroup \S+ [KM]?i?B of 256 MiB \((< )?\d+ %\): "
                         r"100 MiB \(\d+ %\) of it is shared memory; ")
        lib.end_process(process)

    def test_charged_here(self):
        """Another one of its cgroup makes up for the files that were charged elsewhere."""
        group = self.group(256)
        other = self.holding(20, "private", preexec_fn=group.enter)
        process = self.holding(100, "private", preexec_fn=group.enter)
        text, answer = self.explain(process.pid)
        self.assertTrue(answer["limit"]["counts_rss"], answer["limit"])
        self.assertRegex(text.replace("\n", " "),
                         r"\A\S+ uses \S+ MiB of its limit of 256 MiB \(\d+ %\): ")
        lib.end_process(process)
        lib.end_process(other)

    def test_others_of_the_cgroup(self):
        """What fills the limit is another process of the cgroup, and it is named."""
        group = self.group(256)
        other = self.holding(60, "private", preexec_fn=group.enter)
        process = self.idle(preexec_fn=group.enter)
        text, answer = self.explain(process.pid)
        self.assertEqual(answer["others"]["largest"][0]["pid"], other.pid)
        self.assertGreater(answer["others"]["processes"], 60 * MIB)
        flat = re.sub(r"\n *", " ", text)
        self.assertRegex(flat, r"its cgroup \S+ MiB of 256 MiB \(\d+ %\), most of that other processes: ")
        self.assertRegex(flat, r" its cgroup   \S+ MiB other processes \(python3?\S*\[%d\] \S+ MiB"
                         % other.pid)
        lib.end_process(process)
        lib.end_process(other)

    def test_no_others(self):
        group = self.group(256)
        process = self.holding(60, "private", preexec_fn=group.enter)
        text, answer = self.explain(process.pid)
        self.assertIsNone(answer["others"])
        self.assertNotIn("\nits cgroup ", text)
        lib.end_process(process)

    def test_nearly_full(self):
        group = self.group(128)
        process = self.holding(118, "private", preexec_fn=group.enter)
        text, answer = self.explain(process.pid)
        self.assertEqual(answer["headline"], "limit")
        self.assertRegex(text.replace("\n", " "),
                         r"\A\S+ is near its limit: its cgroup uses \S+ MiB of 128 MiB \(9\d %\); it ")
        lib.end_process(process)


class PidAlone(Case):
    """jeattach PID is explain PID."""

    def test_words(self):
        first, second = self.idle(), self.idle()
        for words in ((first.pid, "--json"), ("--json", first.pid), ("--json", first.pid, second.pid)):
            with self.subTest(words=words):
                result = self.assert_ran(lib.run_tool(*words))
                answers = [json.loads(line) for line in result.text.splitlines()]
                self.assertEqual({answer["pid"] for answer in answers},
                                 {word for word in words if word != "--json"})
                for answer in answers:
                    self.assertIn("verdict", answer)
        self.assertIn("\nnext: jeattach ", self.assert_ran(lib.run_tool(first.pid)).text)

    def test_absent(self):
        process = self.idle()
        lib.end_process(process)
        self.assert_failed(lib.run_tool(process.pid), lib.GONE, "no such process")

    def test_pid_as_an_option(self):
        process = self.idle()
        self.assertIn("\nnext: jeattach ", self.assert_ran(lib.run_tool("-p", process.pid)).text)

    def test_verb_behind(self):
        result = lib.run_tool(self.idle().pid, "dump")
        self.assertEqual(result.code, lib.USAGE)
        self.assertIn("the verb must come before", result.err)


if __name__ == "__main__":
    lib.main()
