"""Processes whose garbage collector stops the world by signals (tests/victims/collected.c).

A thread may wait in a call for a jemalloc lock whose owner the collector has stopped, while the
collector waits for that thread. So there is no call: what needs one is refused before any thread
is stopped. What reads memory, and the one byte that switches profiling, serve such a process.
"""

import json
import os
import re

import lib

# With one arena and no caches a thread is most often stopped while it has a lock.
CONTENDED = "prof:true,prof_active:false,lg_prof_sample:12,narenas:1,tcache:false"


# What the traced tool shows of each ptrace call and each write.
TRACED = re.compile(r"(?m)^jeattach: call \d+: ")


class Collectors(lib.TestCase):
    def collected(self, program, conf=""):
        directory = self.directory()
        conf = CONTENDED + conf + ",prof_prefix:%s/jeprof" % directory
        victim = lib.Victim("collect", directory, conf=conf, program=program)
        self.addCleanup(victim.stop)
        self.assertTrue(victim.wait_rounds(2), "it does not begin")
        return victim

    def calls_are_refused(self, victim, collector):
        sink = os.path.join(victim.directory, "stream")
        for words, reads in ((["dump"], "use -o FILE"),
                             (["stats", "--full"], "jeattach stats or jeattach dump -o"),
                             (["on", "--call"], "omit --call"),
                             (["off", "--call"], "omit --call"),
                             (["purge"], "jeattach stats or jeattach dump -o"),
                             (["mallctl", "epoch=1"], "jeattach stats or jeattach dump -o"),
                             (["dump", "--call", "--force", "-o", sink], "omit --call")):
            result = lib.run_tool(words[0], victim.pid, *words[1:], tool=lib.TRACED_TOOL)
            self.assert_failed(result, lib.NO_SAFE_MOMENT, collector, "garbage collector",
                               "not touched", reads)
            self.assertIsNone(TRACED.search(result.err), result)
            self.assertFalse(os.path.exists(sink))
        self.assert_unharmed(victim)

    def memory_serves(self, victim):
        sink = os.path.join(victim.directory, "profile")
        for words in (["status"], ["stats"], ["explain"], ["dump", "-o", sink]):
            self.assert_ran(lib.run_tool(words[0], victim.pid, *words[1:]))
        self.assertTrue(lib.read_text(sink).startswith("heap_v2/"))
        for verb, active in (("on", True), ("off", False)):
            told = json.loads(self.assert_ran(lib.run_tool(verb, victim.pid, "--json")).text)
            self.assertEqual((told["way"], told["stops"]), ("memory", 0))
            self.assertEqual((told["old"], told["new"]), (not active, active))
        self.assert_unharmed(victim)

    def serves(self, program, collector):
        victim = self.collected(program)
        self.calls_are_refused(victim, collector)
        self.memory_serves(victim)

    def test_threads_are_not_visited(self):
        """The byte is written, which is not called untouched; threads that are off stay so."""
        victim = self.collected("collected", ",prof_thread_active_init:false")

        def some_are_off():
            return "off (thread.prof.active)" in lib.run_tool("status", victim.pid).text

        self.assert_ran(lib.run_tool("on", victim.pid))
        self.assertTrue(lib.wait_until(some_are_off))
        self.assert_ran(lib.run_tool("off", victim.pid))
        result = lib.run_tool("on", "--repair", victim.pid, tool=lib.TRACED_TOOL)
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertIn("prof.active: false -> true", result.text)
        self.assertIn("prof.active is true, but threads", result.err)
        self.assertIn("not visited: it uses libgc", result.err)
        self.assertNotIn("not touched", result.err)
        self.assertNotIn("ptrace", result.err)
        self.assert_unharmed(victim)

    def test_libgc(self):
        self.serves("collected", "libgc")

    def test_libgc_linked_in(self):
        self.serves("collected_static", "libgc")

    def test_libgc_stripped(self):
        self.serves("collected_stripped", "libgc")

    def test_d(self):
        self.serves("collected_d_dynamic", "D's runtime")

    def test_d_linked_in(self):
        self.serves("collected_d_static", "D's runtime")


if __name__ == "__main__":
    lib.main()
