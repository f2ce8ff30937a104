"""jeattach leak, of processes whose growth is known: what it accuses has grown.

A run is right, unclear or wrong by the ledger of the process (leak_truth.py). No run may be wrong.
Where the truth must be named, a run that is unclear is followed by a longer one, at most four:
less than one of ten is unclear at first, so that a test fails by chance in one of 10,000 or less.
"""

import os
import random
import unittest

import leak_truth
import lib
import perf_events
from leak_truth import KIB

# Ten times the usual samples, so that a few seconds are sufficient.
CONF = "prof:true,prof_active:false,lg_prof_sample:16"
SECONDS = 6
ATTEMPTS = 4
REQUESTS = "requests,size=16-4096,rate=1000"
LEAK = "leak,size=512,rate=4000"


class Truth(lib.TestCase):
    def growth(self, *actors, mode="cold"):
        conf = CONF if mode == "cold" else None
        growth = leak_truth.Growth(self.directory(), actors, mode, conf)
        self.addCleanup(growth.stop)
        return growth

    def judge(self, growth, seconds=SECONDS, pid=None):
        """Returns what leak said, and the judgement, which is not "wrong"."""
        told, code, err, looks = leak_truth.run_tool_beside(growth, pid or growth.pid, seconds)
        self.assertEqual(code, lib.OK, err)
        judgement = leak_truth.judge(told, leak_truth.growths(looks, seconds))
        self.assertNotEqual(judgement.word, "wrong", (judgement.why, told, err))
        return told, judgement

    def assert_right(self, growth, pid=None):
        for attempt in range(ATTEMPTS):
            told, judgement = self.judge(growth, SECONDS << attempt, pid)
            if judgement.word == "right":
                return told
        raise AssertionError((judgement, told))

    def test_cold_caches(self):
        """Their old objects, which no sample knows, are replaced by sampled ones."""
        for kind in ("fifo", "random"):
            with self.subTest(kind):
                told = self.assert_right(self.growth(kind + ",mb=50,rate=10000", REQUESTS))
                self.assertEqual(told["verdict"], "nothing")

    def test_leak_of_another_size(self):
        told = self.assert_right(self.growth("fifo,mb=50,rate=10000", LEAK, REQUESTS))
        self.assertEqual(told["parts"][0]["size"], 512)
        self.assertIn("leak_here", told["answer"])

    def test_leak_of_the_same_size(self):
        """While old objects are left, either may have grown."""
        growth = self.growth("fifo,mb=100,rate=10000", "leak,size=1024,rate=2000", REQUESTS)
        told = self.assert_right(growth)
        self.assertEqual(told["parts"][0]["size"], 1024)
        self.assertIn("leak_here", told["answer"])
        if told["verdict"] == "one_of":
            self.assertIn("cache_put", told["answer"])

    def test_mappings(self):
        """Outside jemalloc's heap."""
        perf_events.require()
        growth = self.growth("map,size=65536,rate=40", "fifo,mb=50,rate=10000", REQUESTS)
        told = self.assert_right(growth)
        self.assertNotEqual(told["parts"][0]["kind"], "objects")
        self.assertIn("map_more", told["answer"])

    def test_glibc(self):
        """Without jemalloc, by page faults."""
        perf_events.require()
        self.assert_right(self.growth(LEAK, "fifo,mb=50,rate=2000", mode="glibc"))

    def test_not_enabled(self):
        """The size is known exactly, and who has touched the new pages of that size first: not who
        has touched those of another size, which do not grow."""
        perf_events.require()
        growth = self.growth("fifo,mb=50,rate=10000", LEAK, REQUESTS, mode="noprof")
        for attempt in range(ATTEMPTS):
            told, _ = self.judge(growth, SECONDS << attempt)
            if told["parts"]:
                self.assertEqual(told["parts"][0]["size"], 512)
                self.assertNotIn("only samples", told["answer"])
                self.assertRegex(told["answer"], r"; first touched by: \d+ % (touched \S+ <- )?"
                                                 r"leak_here [^,]*$")
                return
        raise AssertionError(told)

    def test_screen(self):
        """Twelve lines, each row a line; the last one says what to do next."""
        for mode in ("noprof", "cold"):
            with self.subTest(mode):
                growth = self.growth(LEAK, REQUESTS, "fifo,mb=50,rate=10000", mode=mode)
                result = lib.run_tool("leak", "-d", "3s", growth.pid)
                lines = result.text.splitlines()
                self.assertLessEqual(len(lines), 12, result.text)
                self.assertRegex(lines[-2], r"^next: jeattach \w+ %d\b" % growth.pid)
                self.assertRegex(lines[-1], r"^      this shows ")
                self.assertNotRegex(result.text, r"(?m)^[ +]*0 B ")
                for line in lines[1:]:
                    self.assertLessEqual(len(line), 80, result.text)

    def test_child(self):
        """Its growth is its own."""
        growth = self.growth(REQUESTS, "fork", LEAK, REQUESTS)
        self.assert_right(growth)
        self.assert_right(growth, growth.child())

    def test_idle(self):
        told = self.assert_right(self.growth("requests,rate=0"))
        self.assertEqual(told["verdict"], "nothing")
        self.assertLess(leak_truth.bound_of(told), 4096 * KIB)

    def test_killed(self):
        """What was known of it is told."""
        growth = self.growth(LEAK, REQUESTS)
        told, code, err, _ = leak_truth.run_tool_beside(growth, growth.pid, 60, kill_after=10)
        self.assertEqual(code, lib.GONE, err)
        self.assertIn("leak_here", told["answer"])

    @unittest.skipUnless(os.environ.get("JEATTACH_LONG"), "in ./test --long")
    def test_all_scenes(self):
        """None is wrong; where samples are warm, all but one in 20 leaks are named."""
        tasks = [(scene, mode, seconds) for scene in leak_truth.SCENES
                 for mode in leak_truth.MODES for seconds in (10.0, 30.0)]
        random.shuffle(tasks)
        rows = leak_truth.evaluate(tasks, 3 * os.cpu_count())
        leak_truth.print_table(rows)
        self.assertEqual([row["scene"] for row in rows if row["word"] == "wrong"], [])


if __name__ == "__main__":
    lib.main()
