"""The same figure is the same number wherever it is shown, and what only reads calls nobody."""

import json
import os
import re
import shutil
import signal
import subprocess

import allocators
import lib

PROFILED = "prof:true,prof_active:true,lg_prof_sample:%d,narenas:2"
CONFS = ("narenas:2", PROFILED % 12, PROFILED % 14)
CELLS = [(version, conf) for version in allocators.VERSIONS for conf in CONFS]

# Figure -> its name in each verb. Others can be added with their own reader below.
PARTS = ("in_use", "sampling", "slabs", "padding", "free_pages", "pinned", "retained_resident",
         "own_data", "other", "outside")
STATS = PARTS + ("absent", "rss")
METRICS = dict({name: name for name in STATS}, rss="process_resident")
# What a look itself changes, of the process: the pages of files that are read, for instance.
MOMENT = 64 << 10
GAUGES = ("stats_allocated", "stats_active", "stats_metadata", "stats_resident", "stats_mapped",
          "stats_retained")


def metrics(text):
    found = re.findall(r"(?m)^jemalloc_(\w+)_bytes\{[^}]*\} (\d+)$", text)
    return {name: int(value) for name, value in found}


class Agree(allocators.TestCase):
    maxDiff = None

    def seeded(self, version, conf):
        """A process at rest, with holes between its objects, and large ones."""
        allocator = self.allocator(version, conf=conf, words=("--threads", 2))
        allocator.ask("comb 100000 48")
        allocator.ask("more 5000000")
        return allocator

    def stats(self, allocator, *words):
        return json.loads(
            self.assert_ran(lib.run_tool("stats", "--json", allocator.pid, *words)).text)

    def in_each_cell(self, check):
        for version, conf in CELLS:
            with self.subTest(version=version, conf=conf):
                check(self.seeded(version, conf))

    def assert_uncalled(self, told):
        self.assertEqual(
            (told["source"], told["held_ns"], told["calls"], told["stops"]),
            ("records", 0, 0, 0))

    def assert_adds_up(self, told):
        """Each part is a share from 0 to 100 % of the RSS."""
        parts = [told[name] or 0 for name in PARTS]
        self.assertEqual(sum(parts), told["rss"])
        self.assertTrue(all(part >= 0 for part in parts), told)

    def test_stats(self):
        """JSON, metrics and the table."""
        self.in_each_cell(self.check_stats)

    def check_stats(self, allocator):
        told = self.stats(allocator)
        self.assert_uncalled(told)
        self.assert_adds_up(told)
        result = self.assert_ran(lib.run_tool("stats", "--prometheus", allocator.pid))
        shown = metrics(result.text)
        self.assertEqual({name: shown.get(METRICS[name]) for name in STATS},
                         {name: told[name] for name in STATS})
        self.assertEqual(shown["allocated"], told["in_use"])
        for name in GAUGES[1:]:
            self.assertEqual(shown[name.replace("stats_", "")], told[name])
        self.assertEqual(result.err, "")
        text = self.assert_ran(lib.run_tool("stats", allocator.pid)).text
        shares = [float(share) for share in re.findall(r" (-?[\d.]+) %", text)]
        self.assertGreater(len(shares), 3)
        self.assertTrue(all(0 <= share <= 100 for share in shares), text)
        self.assertNotIn(" 0 B ", text)

    def test_size_classes(self):
        """The live bytes of all classes are what is in use, in memory or not.

        Sampled objects that were freed and are kept by a thread are objects there.
        """
        self.in_each_cell(self.check_size_classes)

    def check_size_classes(self, allocator):
        told = self.stats(allocator)
        bins = self.stats(allocator, "--bins", "--rows", 0)
        self.assertEqual(bins["way"], "memory")
        kept = sum(row["live"] for row in bins["classes"]) - told["in_use"]
        self.assertGreaterEqual(kept, 0)
        self.assertLessEqual(kept, told["sampling"] + told["absent"])

    def tell(self, verb, pid, *words):
        return json.loads(self.assert_ran(lib.run_tool(verb, "--json", pid, *words)).text)

    def parts_of_all(self, pid):
        """Verb: the parts that it shows, with absent and rss."""
        stats, explain, frag = (self.tell(verb, pid) for verb in ("stats", "explain", "frag"))
        top = self.tell("top", pid, "--once", "--no-call")["gauges"]
        told = {"stats": stats, "explain": dict(explain["jemalloc"]["parts"], rss=explain["rss"]),
                "frag": dict(frag["parts"], rss=frag["rss"]), "top": top}
        self.assertEqual(frag["returned_by_purge"], frag["parts"]["free_pages"])
        return {verb: {name: parts[name] for name in STATS} for verb, parts in told.items()}

    def assert_alike(self, pid, moment=MOMENT):
        told = self.parts_of_all(pid)
        for verb, parts in told.items():
            self.assertEqual(sum(parts[name] or 0 for name in PARTS), parts["rss"], verb)
            for name in STATS:
                self.assertEqual(parts[name] is None, told["stats"][name] is None, (verb, name))
                self.assertAlmostEqual(parts[name] or 0, told["stats"][name] or 0, delta=moment,
                                       msg="%s of %s; %s" % (name, verb, told))
        return told["stats"]

    def test_parts(self):
        """Each part, what is absent, and the RSS: the same in each verb."""
        self.in_each_cell(lambda allocator: self.assert_alike(allocator.pid))

    def test_growing(self):
        """The counts and the RSS are of one moment: the pages of files are outside, at least."""
        process = self.process([os.path.join(lib.VICTIMS, "grower")], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env=lib.tool_environment(
                                   {"LD_PRELOAD": "libjemalloc.so.2"}))
        process.stdin.write(b"leak %d %d\n" % (512 << 20, 100 << 20))
        process.stdin.flush()
        self.assertTrue(lib.wait_until(lambda: self.tell("stats", process.pid)["in_use"] > 8 << 20))
        for verb in ("frag", "explain", "stats"):
            with self.subTest(verb=verb):
                told = self.tell(verb, process.pid)
                parts = told["jemalloc"]["parts"] if verb == "explain" else told.get("parts", told)
                self.assertEqual(sum(parts[name] or 0 for name in PARTS), told["rss"])
                self.assertGreater(parts["own_data"], 0)
                files = re.search(r"RssFile:\s+(\d+)", lib.read_text(
                    "/proc/%d/status" % process.pid))[1]
                self.assertGreater(parts["outside"], int(files) * 1024 // 2)

    def assert_shown(self, pid, told):
        """A table has the figures of JSON, and shares of the RSS."""
        for verb in ("stats", "explain", "frag"):
            text = self.assert_ran(lib.run_tool(verb, pid)).text
            for name in PARTS:
                share = 100 * (told[name] or 0) / told["rss"]
                row = re.search(r"(?m)^  %s +[\d.]+ [KMG]?i?B +([\d.]+) %%  " % name.replace(
                    "_", " "), text)
                self.assertAlmostEqual(float(row[1]) if row else 0, share, delta=1, msg=text)

    def test_redis(self):
        """While sampling, after most keys are deleted, and after a purge."""
        program = shutil.which("redis-server")
        if not program:
            self.skipTest("redis-server is not installed")
        for conf in ("dirty_decay_ms:-1", "background_thread:true,dirty_decay_ms:0"):
            conf = PROFILED % 12 + "," + conf
            with self.subTest(conf=conf):
                self.check_redis(program, conf)

    def check_redis(self, program, conf):
        path = os.path.join(self.directory(), "socket")
        env = lib.tool_environment({"MALLOC_CONF": conf, "LD_PRELOAD": "libjemalloc.so.2"})
        process = self.process(
            [program, "--port", "0", "--unixsocket", path, "--save", "", "--hz", "1",
             "--activerehashing", "no"], env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, cwd=os.path.dirname(path))
        self.assertTrue(lib.wait_until(lambda: os.path.exists(path)))

        def say(*words):
            done = subprocess.run(["redis-cli", "-s", path, *words], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.strip()), (0, ""), done.stderr)

        def each_key(last, call):
            say("eval", "for i = 1, %d do %s end" % (last, call), "0")

        each_key(100000, "redis.call('set', 'key:'..i, string.rep('x', 100))")
        each_key(500, "redis.call('set', 'large:'..i, string.rep('x', 40000))")
        each_key(100000, "if i % 10 > 0 then redis.call('del', 'key:'..i) end")
        each_key(500, "if i % 10 > 0 then redis.call('del', 'large:'..i) end")
        told = self.assert_alike(process.pid, 1 << 20)
        self.assertGreater(told["slabs"], 5 << 20)
        if "dirty_decay_ms:-1" in conf:
            self.assertGreater(told["free_pages"], 10 << 20)
        self.assert_shown(process.pid, told)
        purged = self.tell("purge", process.pid)
        self.assertLessEqual(purged["rss_before"] - purged["rss_after"],
                             told["free_pages"] + (2 << 20))
        if "dirty_decay_ms:-1" in conf:
            self.assertGreater(purged["rss_before"] - purged["rss_after"],
                               0.8 * told["free_pages"] - (1 << 20))
        told = self.assert_alike(process.pid, 1 << 20)
        self.assertLess(told["free_pages"], 2 << 20)

    def counts(self, allocator):
        """jemalloc's own, of the same moment."""
        names = [name.replace("_", ".") for name in GAUGES]
        told = json.loads(
            self.assert_ran(lib.run_tool("mallctl", "--json", allocator.pid, *names)).text)
        self.assertGreater(told["calls"], len(names))
        return {name: told["values"][name.replace("_", ".")] for name in GAUGES}

    def test_call(self):
        """What jemalloc itself counts, asked by a call, is what its records give."""
        self.in_each_cell(self.check_call)

    def check_call(self, allocator):
        self.counts(allocator)  # the first may allocate
        told, called = self.stats(allocator), self.counts(allocator)
        self.assert_uncalled(told)
        self.assert_adds_up(told)
        self.assertEqual({name: told[name] for name in GAUGES}, called)
        self.assert_well(allocator)

    def test_status(self):
        self.in_each_cell(self.check_status)

    def check_status(self, allocator):
        told = json.loads(
            self.assert_ran(lib.run_tool("status", "--json", allocator.pid)).text)
        self.assertEqual((told["source"], told["held_ns"], told["calls"]), ("memory", 0, 0))

    def test_nothing_is_touched(self):
        """Pages that were never touched stay so: the RSS is as before, to the byte."""
        self.in_each_cell(self.check_nothing_is_touched)

    def check_nothing_is_touched(self, allocator):
        lib.run_tool("stats", allocator.pid)
        before = lib.snapshot(allocator.pid)
        rss = self.stats(allocator)["rss"]
        for words in (("stats",), ("stats", "--bins"), ("status",)):
            self.assert_ran(lib.run_tool(*words, allocator.pid))
        self.assertEqual(self.stats(allocator)["rss"], rss)
        self.assertEqual(lib.snapshot_differences(allocator.pid, before), [])

    def test_stopped(self):
        allocator = self.seeded("5.3.0", CONFS[1])
        told = self.stats(allocator)
        os.kill(allocator.pid, signal.SIGSTOP)
        lib.wait_until(lambda: lib.state_of(allocator.pid) == "T")
        stopped = self.stats(allocator)
        os.kill(allocator.pid, signal.SIGCONT)
        self.assertEqual([stopped[name] for name in GAUGES], [told[name] for name in GAUGES])
        self.assert_well(allocator)

    def test_core(self):
        """A core file has the counts of its moment."""
        if not shutil.which("gcore"):
            self.skipTest("gcore is not installed (package gdb)")
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.seeded(version, CONFS[1])
                told = self.stats(allocator)
                path = os.path.join(allocator.directory, "core")
                done = subprocess.run(
                    ["gcore", "-o", path, str(allocator.pid)], capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
                allocator.stop()
                core = json.loads(self.assert_ran(
                    lib.run_tool("stats", "--json", "--core", "%s.%d" % (path, allocator.pid))
                ).text)
                self.assertEqual(core["source"], "records")
                for name in GAUGES:
                    self.assertEqual(core[name], told[name], name)
                jemalloc = PARTS[:PARTS.index("other")]
                counted = sum((told[name] or 0) for name in jemalloc) - told["retained_resident"]
                self.assertAlmostEqual(sum(core[name] or 0 for name in jemalloc),
                                       counted + told["absent"], delta=MOMENT)
                self.assertIsNone(core["rss"])
                self.assertIsNone(core["outside"])


if __name__ == "__main__":
    lib.main()
