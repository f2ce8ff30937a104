"""mallctl and purge on a healthy process, and on redis-server."""

import json
import os
import re
import subprocess

import allocators
import lib

# Names that are never used, whatever the options; each with a word of the reason.
REFUSED = (
    ("arena.0.reset", "in use"),
    ("arena.0.destroy", "in use"),
    ("background_thread=true", "threads"),
    ("background_thread=false", "threads"),
    ("max_background_threads=2", "threads"),
    ("arena.0.extent_hooks=1", "a function of the program"),
    ("experimental.hooks.prof_dump=1", "a function of the program"),
    ("experimental.hooks.install=1", "a function of the program"),
    ("experimental.utilization.query", "structure"),
    ("thread.arena=1", "is stopped for the call"),
    ("thread.tcache.enabled=false", "is stopped for the call"),
    ("thread.tcache.flush", "is stopped for the call"),
    ("thread.idle", "is stopped for the call"),
    ("thread.prof.active=true", "is stopped for the call"),
    ("tcache.flush=0", "cache"),
    ("tcache.destroy=0", "cache"),
    ("tcache.create", "stays"),
    ("arenas.create", "stays"),
    ("prof.dump=/tmp/x", "jeattach dump"),
    ("prof.gdump=true", "record --on-new-peak"),
    ("prof.log_start=/tmp/x", "record"),
    ("arena.4096.dirty_decay_ms", "index"),
    ("arena.4097.purge", "index"),
)

# Wrong arguments: exit code 2, and the target is not even stopped.
MISTAKEN = (
    ("prof.actve", "did you mean prof.active?"),
    ("lg_sample", "did you mean prof.lg_sample?"),
    ("stats.arenas.3.pactiv", "did you mean stats.arenas.3.pactive?"),
    ("stats.arenas", "--list 'stats.arenas.*'"),
    ("qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", "has no"),
    ("opt.prof=true", "only be read"),
    ("prof.prefix", "only be written"),
    ("arena.0.purge=1", "takes no value"),
    ("prof.active=2", "true or false"),
    ("prof.active=", "true or false"),
    ("arena.0.dirty_decay_ms=1s", "number"),
    ("arena.0.retain_grow_limit=1.5M", "64K"),
    ("prof.reset=64", "0 to 63"),
    ("opt.prof:bool", "has no 'opt.prof:bool'"),
    ("arena.0.retain_grow_limit=18446744073709551615", "18446744073709551615"),
    ("prof.prefix=" + "x" * 2000, "too long"),
)


class Names(lib.TestCase):
    def mallctl(self, pid, *words):
        return lib.run_tool("mallctl", pid, *words)

    def values(self, pid, *words):
        return json.loads(self.assert_ran(self.mallctl(pid, *words, "--json")).text)

    def lines(self, pid, *words):
        return self.assert_ran(self.mallctl(pid, *words)).text.splitlines()

    def test_reads_of_each_type(self):
        victim = self.victim()
        names = ("opt.prof", "opt.narenas", "opt.lg_prof_sample", "opt.lg_prof_interval")
        names += ("prof.interval", "opt.prof_prefix", "opt.hpa_dirty_mult", "arena.0.extent_hooks")
        lines = self.lines(victim.pid, *names)
        self.assertEqual([line.split(" = ")[0] for line in lines], list(names))
        patterns = ("true", r"\d+", "12", "-1", "0", '"%s/jeprof"' % re.escape(victim.directory))
        patterns += (r"0\.\d+", "0x[0-9a-f]+")
        for line, pattern in zip(lines, patterns):
            self.assertRegex(line.split(" = ")[1], r"\A%s\Z" % pattern)
        self.assert_unharmed(victim)

    def test_reads_as_json(self):
        victim = self.victim()
        told = self.values(victim.pid, "opt.prof", "opt.lg_prof_interval", "opt.prof_prefix")
        self.assertEqual(
            told["values"],
            {
                "opt.prof": True,
                "opt.lg_prof_interval": -1,
                "opt.prof_prefix": victim.directory + "/jeprof",
            },
        )
        self.assertEqual((told["old"], told["done"], told["pid"]), ({}, {}, victim.pid))
        self.assertTrue(0 < told["held_ns"] < 10**9, told)

    def test_writes_are_read_back(self):
        victim = self.victim()
        for words in (("false", "true"), ("true", "true"), ("true", "false")):
            old, new = words
            arrow = "%s -> %s" % words if old != new else "%s (unchanged)" % new
            line = self.lines(victim.pid, "prof.active=" + new)
            self.assertEqual(line, ["prof.active = " + arrow])
            told = self.values(victim.pid, "prof.active")["values"]["prof.active"]
            self.assertIs(told, new == "true")
        self.assert_unharmed(victim)

    def test_several_in_one_stop(self):
        victim = self.victim()
        words = ("arena.0.dirty_decay_ms=-1", "prof.gdump=off", "arena.0.purge", "version")
        told = self.values(victim.pid, *words)
        self.assertEqual(told["old"]["arena.0.dirty_decay_ms"], 10000)
        self.assertEqual(told["values"]["arena.0.dirty_decay_ms"], -1)
        self.assertEqual(
            told["done"], {"arena.0.dirty_decay_ms": True, "prof.gdump": True, "arena.0.purge": True}
        )
        self.assert_unharmed(victim)

    def test_a_text_is_written(self):
        victim = self.victim()
        prefix = victim.directory + "/other"
        lines = self.lines(victim.pid, "prof.prefix=" + prefix, "arena.0.dss=secondary")
        self.assertEqual(lines[0], "prof.prefix: written; it cannot be read back")
        self.assertEqual(lines[1], 'arena.0.dss = "secondary" (unchanged)')
        self.assert_ran(lib.run_tool("dump", victim.pid))
        self.assertTrue(victim.new_files()[0].startswith("other."), victim.new_files())
        self.assert_unharmed(victim)

    def test_statistics_are_of_now(self):
        """Statistics change at epochs only: reading one makes a new epoch."""
        victim = self.victim("malloc")
        name = "stats.arenas.4096.small.nmalloc"
        seen = []
        for _ in range(3):
            seen.append(self.values(victim.pid, name, "stats.mutexes.ctl.num_ops")["values"][name])
            victim.wait_rounds(3)
        self.assertEqual(sorted(set(seen)), seen)
        self.assert_unharmed(victim)

    def test_size_classes_that_are_not_there(self):
        """Up to 5.3.0 jemalloc accepts the number of size classes as an index, and reads beyond the
        table."""
        victim = self.victim()
        counts = self.values(victim.pid, "arenas.nbins", "arenas.nlextents")["values"]
        for name, count in (
            ("arenas.bin.%d.size", counts["arenas.nbins"]),
            ("stats.arenas.0.bins.%d.curregs", counts["arenas.nbins"]),
            ("arenas.lextent.%d.size", counts["arenas.nlextents"]),
            ("stats.arenas.0.lextents.%d.nmalloc", counts["arenas.nlextents"]),
        ):
            self.assert_failed(
                self.mallctl(victim.pid, name % count), lib.REFUSED, "no such index"
            )
            self.assert_ran(self.mallctl(victim.pid, name % (count - 1)))
        self.assert_unharmed(victim)

    def test_an_epoch_is_made(self):
        victim = self.victim()
        first, second = (self.values(victim.pid, "epoch=1")["values"]["epoch"] for _ in range(2))
        self.assertEqual(second, first + 1)
        self.assertRegex(self.lines(victim.pid, "epoch=7")[0], r"^epoch = \d+ \(written\)$")

    def test_several_processes(self):
        victims = [self.victim() for _ in range(2)]
        pids = [word for victim in victims for word in ("-p", victim.pid)]
        result = self.assert_ran(lib.run_tool("mallctl", *pids, "opt.prof"))
        wanted = ["victim[%d] opt.prof = true" % victim.pid for victim in victims]
        self.assertEqual(sorted(result.text.splitlines()), sorted(wanted))

    def test_names_of_a_thread_say_so(self):
        victim = self.victim(arguments=("--threads", "3"))
        tid = lib.threads(victim.pid)[-1]
        (line,) = self.lines(victim.pid, "thread.arena", "--thread", tid)
        self.assertRegex(line, r"^thread\.arena = \d+   \(of thread %d, " % tid)

    def test_list(self):
        victim = self.victim()
        lines = self.lines(victim.pid, "--list")
        names = [line.split(" = ")[0] for line in lines]
        self.assertGreater(len(names), 60)
        self.assertEqual(len(set(names)), len(names))
        for tree in ("stats.", "thread.", "arena.", "experimental."):
            self.assertFalse([name for name in names if name.startswith(tree)], names)
        self.assertIn("opt.prof = true", lines)
        self.assert_unharmed(victim)

    def test_list_of_a_pattern(self):
        victim = self.victim()
        told = self.values(victim.pid, "--list", "stats.arenas.0.bins.2.*", "prof.*")
        self.assertIn("stats.arenas.0.bins.2.nmalloc", told["values"])
        self.assertIn("prof.active", told["values"])
        self.assertFalse([name for name in told["values"] if name.startswith("opt.")])
        result = self.assert_ran(self.mallctl(victim.pid, "--list", "nosuch*"))
        self.assertEqual(result.text, "")
        self.assertIn("jeattach: no name matches: ", result.err)
        waited = lib.Process.waited_for_cpu + lib.waited_for_cpu(victim.pid)
        everything = self.values(victim.pid, "--list", "*")
        waited = lib.Process.waited_for_cpu + lib.waited_for_cpu(victim.pid) - waited
        self.assertGreater(len(everything["values"]), 150)
        self.assertLess(everything["held_ns"], 50 * 10**6 + waited)
        self.assert_unharmed(victim)

    def test_refused(self):
        victim = self.victim()
        before = lib.snapshot(victim.pid)
        for word, reason in REFUSED:
            result = self.mallctl(victim.pid, word)
            self.assert_failed(result, lib.REFUSED, "cause: " + word.partition("=")[0], reason)
            last = result.err.splitlines()[-1].replace("is stopped for the call", "")
            self.assertNotIn("stopped for", last)
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        self.assert_unharmed(victim)

    def test_one_refused_name_keeps_all_from_being_used(self):
        victim = self.victim()
        result = self.mallctl(victim.pid, "prof.active=true", "arena.0.reset")
        self.assert_failed(result, lib.REFUSED, "arena.0.reset")
        self.assertIs(self.values(victim.pid, "prof.active")["values"]["prof.active"], False)

    def test_mistaken(self):
        victim = self.victim()
        for word, said in MISTAKEN:
            result = self.mallctl(victim.pid, word)
            self.assert_failed(result, lib.USAGE, said)
            self.assertNotRegex(result.err, r"thread \d+ stopped for")

    def test_mistaken_options(self):
        victim = self.victim()
        for words in (("mallctl", victim.pid), ("on", victim.pid, "--list")):
            self.assert_failed(lib.run_tool(*words), lib.USAGE)
        for value in ("64", "-1", "x", "1e1"):
            result = self.mallctl(victim.pid, "prof.reset=" + value)
            self.assert_failed(result, lib.USAGE, "0 to 63")

    def test_unknown_names(self):
        """They are not even tried."""
        victim = self.victim()
        for name in ("opt.not_yet_known", "stats.arenas.0.not_yet_known", "not_yet_known"):
            result = self.mallctl(victim.pid, name)
            self.assert_failed(result, lib.USAGE, "jemalloc has no '%s'" % name)
            self.assertNotRegex(result.err, r"thread \d+ stopped for")

    def test_what_jemalloc_refuses(self):
        """Messages as text, with the successful results on stdout."""
        victim = self.victim()
        for word, said in (
            ("arena.999.purge", "no such index"),
            ("arena.0.dirty_decay_ms=-2", "out of range"),
            ("arena.0.dss=nonsense", "does not accept that value"),
        ):
            result = self.mallctl(victim.pid, "version", word)
            self.assertEqual(result.code, lib.REFUSED, result)
            self.assertRegex(result.text, r'\Aversion = "\d')
            self.assertIn(said, result.err)
            self.assertNotRegex(result.err, r"Invalid argument|No such file|EINVAL|ENOENT|EFAULT")
        self.assert_unharmed(victim)

    def test_without_profiling(self):
        victim = self.victim(prof=False)
        for word in ("prof.active=true", "prof.active=false", "prof.reset", "prof.gdump=false"):
            self.assert_failed(
                self.mallctl(victim.pid, word), lib.PROFILING_OFF, "opt.prof", "MALLOC_CONF"
            )
        self.assertEqual(self.lines(victim.pid, "prof.active"), ["prof.active = false"])
        self.assert_ran(lib.run_tool("purge", victim.pid))
        self.assert_unharmed(victim)

    def test_nothing_is_left_behind(self):
        victim = self.victim("epoll_wait")
        before = lib.snapshot(victim.pid)
        self.lines(victim.pid, "--list", "*")
        self.lines(victim.pid, "prof.gdump=false", "epoch=1", "arena.0.decay")
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        self.assert_unharmed(victim)

    # ---- reset ----

    def stacks(self, victim):
        profile = self.assert_ran(lib.run_tool("dump", victim.pid, "-o", "-")).out
        return int(re.match(rb"heap_v2/(\d+)", profile)[1]), len(re.findall(rb"(?m)^@ 0x", profile))

    def test_reset(self):
        victim = self.victim()
        period, stacks = self.stacks(victim)
        self.assertEqual(period, 1 << 12)
        self.assertGreater(stacks, 0)
        self.assertEqual(self.lines(victim.pid, "prof.reset=16", "prof.lg_sample"),
                         ["prof.reset: written; it cannot be read back", "prof.lg_sample = 16"])
        self.assertEqual(self.stacks(victim), (1 << 16, 0))
        told = self.values(victim.pid, "prof.reset", "prof.lg_sample")
        self.assertEqual((told["done"], told["values"]), ({"prof.reset": True}, {"prof.lg_sample": 16}))
        self.assert_unharmed(victim)

    # ---- purge ----

    def test_purge(self):
        victim = self.victim("malloc")
        result = self.assert_ran(lib.run_tool("purge", victim.pid))
        size = r"[\d.]+ [KMG]iB"
        self.assertRegex(
            result.text,
            r"\Avictim\[%d\] returned (no memory|%s): RSS %s -> %s \(exact\)\n"
            r"stats.resident: %s -> %s, jemalloc's upper bound\n\Z" % (victim.pid, *[size] * 5),
        )
        told = json.loads(self.assert_ran(lib.run_tool("purge", victim.pid, "--json")).text)
        for name in ("resident_before", "resident_after", "rss_before", "rss_after"):
            self.assertGreater(told[name], 1 << 16)
        self.assert_unharmed(victim)


class Hooked(lib.TestCase):
    """An application's own hook for finished dumps (tests/victims/hooked.c)."""

    def start(self, *words, sample=10):
        directory = self.directory()
        self.log = os.path.join(directory, "log")
        program = os.path.join(lib.VICTIMS, "hooked")
        conf = lib.malloc_conf(directory, sample).replace("prof_active:false", "prof_active:true")
        process = self.process(
            [program, self.log, *words], env=lib.tool_environment({"MALLOC_CONF": conf}), cwd=directory,
            stdin=subprocess.DEVNULL,
        )
        lib.wait_until(lambda: process.poll() is not None or os.path.exists(self.log), 5)
        lib.wait_until(lambda: process.poll() is not None or lib.state_of(process.pid) == "S", 5)
        if process.poll() == lib.SKIPPED:
            self.skipTest("this jemalloc has no hook for dumps")
        self.assertIsNone(process.poll())
        return process.pid

    def test_a_plain_dump_is_refused(self):
        """The hook runs during the call, and may take a lock that the stopped thread has."""
        pid = self.start()
        result = lib.run_tool("dump", pid)
        self.assert_failed(result, lib.REFUSED, "experimental.hooks.prof_dump", "--allow hooks")
        self.assertEqual(lib.read_text(self.log), "")

    def test_a_plain_dump_that_is_forced_says_so(self):
        pid = self.start()
        result = self.assert_ran(lib.run_tool("dump", pid, "--allow=hooks"))
        self.assertRegex(result.err, "warning: .*experimental.hooks.prof_dump")
        path = result.text.rstrip("\n")
        self.assertEqual(lib.read_text(self.log), path + " found\n")

    def test_a_process_that_is_killed_in_the_call(self):
        """The closing line says so: a dead process is not back in its system call."""
        pid = self.start("killed")
        result = lib.run_tool("dump", pid, "--allow=hooks")
        self.assert_failed(result, lib.GONE, "has ended")
        self.assertIn(" found\n", lib.read_text(self.log))
        self.assertRegex(result.err, r"\] thread %d stopped for .*, and the process has ended\n" % pid)
        self.assertNotIn("back in", result.err)

    def test_a_streamed_dump_is_refused(self):
        pid = self.start()
        result = lib.run_tool("dump", "--call", pid, "-o", "-")
        self.assert_failed(result, lib.REFUSED, "experimental.hooks.prof_dump", "without -o")
        self.assertEqual(lib.read_text(self.log), "")
        line = self.assert_ran(lib.run_tool("mallctl", pid, "experimental.hooks.prof_dump")).text
        self.assertRegex(line, r" = 0x[0-9a-f]{6,}\n\Z")

    def test_other_hooks_run_in_no_call(self):
        """Every allocation is sampled; jemalloc's own in a call have no samples and no hooks."""
        pid = self.start("others", sample=0)
        self.assertTrue(lib.wait_until(lambda: "ready" in lib.read_text(self.log)))
        told = lib.read_text(self.log)
        self.assertIn("backtrace\n", told)
        self.assertIn("allocation\n", told)
        for words in (("dump",), ("dump", "--call", "-o", "-"), ("stats", "--full"), ("mallctl", "prof.reset"),
                      ("purge",), ("on", "--call"), ("record", "--call", "-d", "100ms", "-o", "-"),
                      ("mallctl", "thread.prof.name"), ("mallctl", "prof.gdump=false")):
            self.assert_ran(lib.run_tool(words[0], pid, *words[1:]))
        self.assertEqual(lib.read_text(self.log), told)

    def test_a_read_runs_no_hook(self):
        pid = self.start()
        profile = self.assert_ran(lib.run_tool("dump", "--no-call", pid, "-o", "-")).out
        self.assert_profile(profile, 0)
        self.assertEqual(lib.read_text(self.log), "")


class OfReleases(allocators.TestCase):
    def test_no_read_ends_the_process(self):
        """Every name of each release, in processes that lack what a read may require."""
        lacking = ("prof:false", "tcache:false", "prof:true,prof_active:false,tcache:false",
                   "retain:false,percpu_arena:percpu", "background_thread:true,narenas:1")
        patterns = ("*", "stats.arenas.0.*", "stats.arenas.4096.*", "stats.arenas.0.bins.0.*",
                    "stats.arenas.0.lextents.0.*", "arena.0.*", "arena.4094.*", "thread.*",
                    "arenas.bin.0.*", "experimental.*", "stats.mutexes.*", "prof.*",
                    "arena.4095.*", "arena.4096.*", "arena.65535.*", "stats.arenas.65535.*",
                    "stats.arenas.0.*.255.*", "arenas.*.255.*", "experimental.arenas.4095.*")
        for version in allocators.VERSIONS:
            for conf in lacking:
                allocator = self.allocator(version, conf=conf)
                for pattern in patterns:
                    with self.subTest(version=version, conf=conf, pattern=pattern):
                        result = lib.run_tool("mallctl", allocator.pid, "--list", pattern)
                        self.assert_ran(result)
                self.assertTrue(allocator.alive(), allocator.process.returncode)
                allocator.ask("work 10")
                self.assert_ran(lib.run_tool("mallctl", allocator.pid, "version"))
                allocator.process.stdin.close()
                self.assertEqual(allocator.process.wait(20), 0, (version, conf))


class OfRedis(lib.TestCase):
    def redis(self, load=False):
        redis = lib.Redis(self.directory())
        self.addCleanup(redis.stop)
        if load:
            redis.start_load()
            lib.wait_until(lambda: redis.commands_done() > 1000)
        return redis

    def test_purge_of_freed_memory(self):
        """Redis has freed 20 MB that jemalloc has kept: they are returned to the kernel."""
        redis = self.redis()
        self.assert_ran(lib.run_tool("mallctl", redis.pid, "arena.0.dirty_decay_ms=-1"))
        fill = "for i = 1, 100000 do redis.call('set', i, string.rep('x', 200)) end"
        redis.cli("eval", fill, "0")
        redis.cli("eval", "for i = 1, 100000 do redis.call('del', i) end", "0")
        told = json.loads(self.assert_ran(lib.run_tool("purge", redis.pid, "--json")).text)
        self.assertLess(told["resident_after"] + (8 << 20), told["resident_before"], told)
        self.assertLess(told["rss_after"] + (8 << 20), told["rss_before"], told)
        self.assertTrue(redis.ping())

    def test_all_under_load(self):
        redis = self.redis(True)
        text = lib.text_hashes(redis.pid)
        for _ in range(5):
            done = redis.commands_done()
            self.assert_ran(lib.run_tool("mallctl", redis.pid, "--list", "*"))
            self.assert_ran(lib.run_tool("mallctl", redis.pid, "prof.active=true", "stats.active"))
            self.assert_ran(lib.run_tool("mallctl", redis.pid, "prof.reset=15"))
            self.assert_ran(lib.run_tool("purge", redis.pid))
            self.assertGreater(redis.commands_done(), done)
        self.assertEqual(lib.text_hashes(redis.pid), text)
        self.assertIsNone(redis.load.poll(), "redis-benchmark gave up")
        self.assertTrue(redis.ping())


if __name__ == "__main__":
    lib.main()
