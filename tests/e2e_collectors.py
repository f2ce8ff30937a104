"""Processes whose garbage collector stops the world by signals (tests/victims/collected.c).

A thread may wait in a call for a jemalloc lock whose owner the collector has stopped. It must then
answer the collector itself, like a signal handler on its own stack: otherwise the process hangs, or
loses live objects, which the victims check all the time.
"""

import os

import lib

# With one arena and no caches a thread is most often stopped while it has a lock.
CONTENDED = "prof:true,prof_active:false,lg_prof_sample:12,narenas:1,tcache:false"
LOCKERS = ("stats", "dump", "stream", "purge", "reset", "epoch", "on", "off")
LONG_CALLS = 200


class Collectors(lib.TestCase):
    def collected(self, program, conf=CONTENDED):
        directory = self.directory()
        conf += ",prof_prefix:%s/jeprof" % directory
        victim = lib.Victim("collect", directory, conf=conf, program=program)
        self.addCleanup(victim.stop)
        self.assertTrue(victim.wait_rounds(2), "it does not begin")
        return victim

    def call(self, victim, verb, *options, tool=None):
        sink = os.path.join(victim.directory, "stream")
        words = {
            "dump": ["dump", victim.pid],
            "stream": ["dump", "--call", "--force", "-o", sink, victim.pid],
            "epoch": ["mallctl", victim.pid, "epoch=1"],
            "stats": ["stats", "--call", victim.pid],
            "reset": ["mallctl", victim.pid, "prof.reset"],
            "on": ["on", "--call", victim.pid],
            "off": ["off", "--call", victim.pid],
        }.get(verb, [verb, victim.pid])
        return lib.run_tool(*words, "--timeout", "10s", *options, tool=tool)

    def calls(self, victim, verb, count, tool=None):
        for number in range(count):
            result = self.call(victim, verb, tool=tool)
            self.assertEqual(result.code, lib.OK, "call %d: %s" % (number, result))
            self.assertTrue(victim.wait_rounds(1), "it hangs after call %d: %s" % (number, result))
            self.assert_unharmed(victim, rounds=0)

    def every_verb(self, program, first, others):
        victim = self.collected(program)
        self.calls(victim, "stats", first)
        self.calls(victim, "on", 1)
        for verb in LOCKERS[1:]:
            self.calls(victim, verb, others)

    def test_libgc(self):
        self.every_verb("collected", 12, 1)

    def test_libgc_linked_in(self):
        self.every_verb("collected_static", 6, 1)

    def test_d(self):
        self.every_verb("collected_d_dynamic", 12, 1)

    def test_d_linked_in(self):
        self.every_verb("collected_d_static", 6, 1)

    def test_without_executable_memory(self):
        victim = self.collected("collected")
        for verb in ("on", "stats", "stream", "off"):
            self.calls(victim, verb, 3, tool=lib.REFUSED_TOOL)

    def test_each_thread(self):
        """Also the thread that collects, and the collector's own threads, which are not used."""
        os.environ["GC_MARKERS"] = "2"
        victim = self.collected("collected")
        own = 0
        for thread in lib.threads(victim.pid):
            comm = lib.read_text("/proc/%d/task/%d/comm" % (victim.pid, thread)).strip()
            marks = comm.startswith("GC-marker")
            for _ in range(2 if marks else 6):
                limit = ("--timeout", "500ms") if marks else ()
                result = self.call(victim, "stats", "--thread", thread, *limit)
                own += marks
                if marks:
                    self.assert_failed(result, lib.NO_SAFE_MOMENT, "garbage collector")
                self.assertIn(result.code, (lib.OK, lib.NO_SAFE_MOMENT), result)
                self.assertTrue(victim.wait_rounds(1), "it hangs after %s" % str(result))
                self.assert_unharmed(victim, rounds=0)
        if not own:
            self.skipTest("this libgc has no marking thread, or does not name it")

    def test_libgc_long(self):
        self.every_verb("collected", LONG_CALLS, LONG_CALLS)

    def test_d_long(self):
        self.every_verb("collected_d_dynamic", LONG_CALLS, LONG_CALLS)

    def test_usual_arenas_long(self):
        victim = self.collected("collected", "prof:true,prof_active:true,lg_prof_sample:12")
        for verb in ("stats", "stream"):
            self.calls(victim, verb, LONG_CALLS)

    def test_unknown(self):
        """Without symbols its lock cannot be found: the process is not touched."""
        victim = self.collected("collected_stripped")
        for verb in ("stats", "on"):
            result = self.call(victim, verb)
            self.assert_failed(result, lib.NO_SAFE_MOMENT, "libgc", "not touched")
        self.assert_unharmed(victim)
        lib.run_tool("status", victim.pid)
        self.assert_unharmed(victim)


if __name__ == "__main__":
    lib.main()
