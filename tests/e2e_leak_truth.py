"""jeattach leak, of processes whose growth is known: what it accuses has grown.

A run is right, unclear or wrong by the ledger of the process (leak_truth.py). No run may be wrong.
Where the truth must be named, a run that is unclear is followed by a longer one, at most four:
less than one of ten is unclear at first, so that a test fails by chance in one of 10,000 or less.
"""

import os
import random
import re
import subprocess
import time
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
    def growth(self, *actors, mode="cold", conf=None):
        conf = conf or (CONF if mode == "cold" else None)
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
                if mode == "noprof":  # whose the stacks are that touched it first
                    self.assertRegex(result.text, r"(?m)^first touch +share  stack, (in|for) \S")

    def test_unseen(self):
        """Memory that goes up and down hides a growth: no "does not grow" where 1 MiB/s may be."""
        growth = self.growth("wave,mb=64,rate=40000", "leak,size=1024,rate=500", mode="noprof")
        told, _ = self.judge(growth, 4)
        for seconds in (4, 3):
            if told["verdict"] == "nothing":
                self.assertLess(told["objects"]["unseen"], leak_truth.MIB * seconds)
            elif told["verdict"] == "cannot_tell":
                self.assertGreater(told["objects"]["unseen"], leak_truth.MIB * seconds * 0.9)
                self.assertRegex(told["answer"],
                                 r"^may grow or not: a growth below \S+ MiB/s would not show in "
                                 r"\S+ s; \S+ \S+ in objects \(exact\); try -d \d+m$")
            told, _ = self.judge(growth, 3)

    def test_other_sizes(self):
        """Objects that are freed for others of another size: their stack does not grow."""
        growth = self.growth("drift,mb=100,rate=10000", REQUESTS)
        time.sleep(2.4)  # then the next size begins, for as long again
        told, _ = self.judge(growth, 2.5)
        self.assertEqual([row for row in told["rows"] if row["verdict"] == "grows"], [])

    def said(self, growth, seconds, *words):
        """What `leak` prints, each thing in one line."""
        text = self.assert_ran(lib.run_tool("leak", "-d", "%ds" % seconds, growth.pid, *words)).text
        return re.sub(r"\n +(?=[^ ])", " ", text.partition("\nRSS: ")[0]), text

    def test_sum_of_sizes(self):
        """Several sizes grow: the first line has what all of them have grown by."""
        growth = self.growth("leak,size=512,rate=2000", "load,size=1024,rate=2000",
                             "leak,size=128,rate=2000", mode="noprof")
        head, _ = self.said(growth, 3)
        rates = re.search(r"^growth\[\d+\] grows by ([\d.]+) MiB/s in objects of 3 sizes, "
                          r"([\d.]+) MiB/s of it in objects of 1 KiB \(exact\)", head)
        self.assertTrue(rates, head)
        self.assertAlmostEqual(float(rates[1]) / float(rates[2]), 1664 / 1024, delta=0.2)
        for size in ("512 B", "128 B"):
            self.assertRegex(head, r"(?m)^of it [\d.]+ [KM]iB/s in objects of %s \(exact\)" % size)

    def test_no_growth_under_does_not_grow(self):
        """A cache that is full is replaced by sampled objects: no table calls that growth."""
        growth = self.growth("fifo,mb=30,rate=10000", REQUESTS)
        head, text = self.said(growth, 3)
        self.assertRegex(head, r"(?m)^growth\[\d+\] (does not grow|was watched for too short a time)")
        self.assertNotRegex(text, r"(?m)^ *growth +rate")
        head, text = self.said(growth, 3, "-v")
        self.assertRegex(text, r"(?m)^ *change +interval")

    def test_a_sample_is_not_denied(self):
        """Two sizes grow, and one of them has samples, but too few of them to name its stack."""
        growth = self.growth("leak,size=512,rate=800", "fifo,mb=40,size=512,rate=1000",
                             "load,size=1024,rate=600", "fifo,mb=40,size=1024,rate=1000",
                             conf="prof:true,prof_active:false,lg_prof_sample:18")
        head, text = self.said(growth, 4)
        table = text.partition("trend ")[2]
        sampled = "leak_here" in table and "load_table" in table
        self.assertFalse(sampled and "no sample yet" in head, text)

    def test_free_pages_returned(self):
        """Objects become more while the memory becomes less."""
        growth = self.growth("drain,mb=30,rate=200000", "leak,size=512,rate=2000", mode="noprof",
                             conf="dirty_decay_ms:-1,muzzy_decay_ms:-1")
        self.assertTrue(lib.wait_until(lambda: growth.live()["cache_put"] == 0, 30))
        tool = subprocess.Popen([lib.TOOL, "leak", "-d", "3s", str(growth.pid)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)
        self.assert_ran(lib.run_tool("purge", growth.pid))
        out = tool.communicate()[0].decode()
        self.assertRegex(re.sub(r"\s+", " ", out),
                         r"grows by .* in objects of 512 B \(exact\).*; the RSS shrank by "
                         r"2\d(\.\d)? MiB: free pages were returned RSS: ")

    def test_free_space_that_stays(self):
        """Nothing grows, but much is free between objects: the next command shows what keeps it."""
        process = self.process([os.path.join(lib.VICTIMS, "waste"), "one", "mb=60"],
                               env=lib.tool_environment({"LD_PRELOAD": "libjemalloc.so.2"}),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        text = self.assert_ran(lib.run_tool("leak", "-d", "1s", process.pid)).text
        self.assertRegex(text, r"(?m)^waste\[\d+\] (does not grow|was watched for)")
        self.assertRegex(text, r"(?m)^next: jeattach frag %d\n +this shows which objects keep"
                         % process.pid)

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
