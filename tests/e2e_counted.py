"""The gauges of stats.* counted from jemalloc's records (jemalloc/extents/counted.h): to the byte
those that the process itself reads by mallctl, in each state that its memory can be in."""

import json
import os
import signal
import subprocess

import allocators
import lib

COUNTED = os.environ["JEATTACH_COUNTED"]
NAMES = ("allocated", "active", "metadata", "resident", "mapped", "retained", "pinned")
PLAIN = "narenas:4,dirty_decay_ms:-1,muzzy_decay_ms:-1"
SAMPLED = PLAIN + ",prof:true,lg_prof_sample:12"
CELLS = [(version, "shared") for version in allocators.VERSIONS]

# What the process does, one after the other; it is compared after each.
STEPS = (
    ("work 2000",),
    ("comb 100000 48", "comb 3000 5000"),
    ("comb 400 30000", "more 5000000"),
    ("clear",),
    ("arena 1", "comb 20000 200", "comb 60 70000"),
    ("arena 0",),
    ("control arena.0.decay", "control thread.tcache.flush"),
    ("control arena.4096.purge",),
)


class Counted(allocators.TestCase):
    def own(self, allocator):
        """Returns stats.* by name, after a write of epoch by the process itself."""
        path = os.path.join(allocator.directory, "own-gauges")
        allocator.ask("gauges " + path)
        lines = lib.read_text(path).splitlines()
        return {name: int(value) for name, value in map(str.split, lines)}

    def count(self, allocator, *words):
        done = subprocess.run([COUNTED, str(allocator.pid)] + [str(word) for word in words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), allocator.name)
        return json.loads(done.stdout)

    def agreed(self, allocator, *words):
        """Returns what is counted, and the process's own, once that is the same before and after."""
        for _ in range(5):
            before = self.own(allocator)
            told = self.count(allocator, *words)
            if self.own(allocator) == before:
                return told, before
        self.fail("the process does not come to rest")

    def assert_equal(self, allocator, step=""):
        told, own = self.agreed(allocator)
        self.assertEqual({name: told[name] for name in NAMES if told[name] is not None}, own,
                         (allocator.name, step))
        self.assertEqual((told["unsettled"], told["per_million"]), (0, 1000000))
        return told, own

    def do_all(self, allocator, steps=STEPS):
        for step in steps:
            for line in step:
                allocator.ask(line)
            self.assert_equal(allocator, step)
        self.assert_well(allocator)

    def check(self, conf, cells=allocators.CELLS):
        for version, link in cells:
            with self.subTest(version=version, link=link, conf=conf):
                self.do_all(self.allocator(version, link, conf=conf, words=("--threads", 3)))

    def test_plain(self):
        self.check(PLAIN)

    def test_sampled(self):
        self.check(SAMPLED)

    def test_stripped(self):
        self.check(SAMPLED, [(version, "stripped") for version in allocators.VERSIONS])

    def muzzy_pages(self, allocator):
        allocator.ask("control arena.4096.decay")
        report = json.loads(allocator.own_stats("J"))["jemalloc"]
        return report["stats.arenas"]["merged"]["pmuzzy"]

    def test_muzzy_pages(self):
        """Up to 5.2.1 they are part of stats.resident."""
        for version, link in CELLS:
            conf = "narenas:4,dirty_decay_ms:50,muzzy_decay_ms:-1"
            allocator = self.allocator(version, link, conf=conf, words=("--threads", 3))
            allocator.ask("comb 400 30000")
            self.assertTrue(lib.wait_until(lambda: self.muzzy_pages(allocator) > 100, pause=0.05))
            told, _ = self.assert_equal(allocator)
            self.assertGreater(told["free_pages"], 100 * 4096)

    def test_each_state_of_pages(self):
        """Free pages that are retained, or returned; metadata in huge pages."""
        for conf in ("narenas:4,dirty_decay_ms:0,muzzy_decay_ms:0",
                     "narenas:4,dirty_decay_ms:0,muzzy_decay_ms:0,retain:false",
                     "narenas:4,dirty_decay_ms:-1,metadata_thp:always",
                     "narenas:4,dirty_decay_ms:-1,dss:primary",
                     "narenas:4,dirty_decay_ms:-1,oversize_threshold:65536"):
            self.check(conf, CELLS)

    def test_free_pages(self):
        """What purge returns is what is counted as free pages; all of it is dirty here."""
        for version, link in CELLS:
            allocator = self.allocator(version, link, conf=PLAIN, words=("--threads", 3))
            allocator.ask("comb 3000 5000")
            allocator.ask("arena 1")
            allocator.ask("comb 500 30000")
            told, own = self.assert_equal(allocator)
            self.assertGreater(told["free_pages"], 1 << 20)
            allocator.ask("control arena.4096.purge")
            after, purged = self.assert_equal(allocator)
            self.assertEqual(after["free_pages"], 0)
            self.assertEqual(told["free_pages"], own["resident"] - purged["resident"])

    def test_huge_pages(self):
        """Their allocator keeps free pages without records: these gauges are named, not guessed."""
        allocator = self.allocator("5.3.1", conf=PLAIN + ",hpa:true", words=("--threads", 3))
        allocator.ask("comb 3000 5000")
        allocator.ask("comb 400 30000")
        told, own = self.agreed(allocator)
        self.assertIsNone(told["resident"])
        self.assertNotIn("free_pages", told)
        for name in ("allocated", "active", "metadata", "mapped", "retained"):
            self.assertEqual(told[name], own[name], name)

    def objects(self, version, conf):
        """Returns what the same program has in use, without what jemalloc has."""
        allocator = self.allocator(version, conf=conf, words=("--threads", 1))
        for line in ("comb 20000 100", "comb 400 13000", "comb 3000 3000", "work 500", "clear"):
            allocator.ask(line)
        told, _ = self.agreed(allocator)
        return told["in_use"] - told["internal"], told

    def test_in_use(self):
        """A program has the same objects in use whether jemalloc samples them or not."""
        for version in allocators.VERSIONS:
            plain, first = self.objects(version, PLAIN + ",tcache:false")
            sampled, told = self.objects(version, SAMPLED + ",tcache:false")
            self.assertEqual(sampled, plain, version)
            self.assertEqual((first["sampling"], first["allocated"]), (0, first["in_use"]))
            self.assertGreater(told["sampling"], 1 << 20)
            if version != "5.3.1":  # which counts no sampled small object as allocated
                self.assertEqual(told["allocated"], told["in_use"] + told["sampling"])

    def test_share(self):
        """Of a share of the memory, what is counted of extents is an estimate; the rest is exact."""
        allocator = self.allocator("5.3.0", conf=PLAIN)
        allocator.ask("comb 40000 1024")
        whole, own = self.agreed(allocator)
        parts = [self.count(allocator, 16 << 20) for _ in range(64)]
        self.assertTrue(all(part["per_million"] < 1000000 for part in parts))
        for part in parts:
            self.assertEqual([part[name] for name in ("metadata", "mapped")],
                             [own[name] for name in ("metadata", "mapped")])
        mean = sum(part["active"] for part in parts) / len(parts)
        self.assertTrue(whole["active"] / 2 < mean < whole["active"] * 2, (mean, whole))

    def test_stopped(self):
        allocator = self.allocator("5.3.0", conf=PLAIN)
        own = self.own(allocator)
        os.kill(allocator.pid, signal.SIGSTOP)
        lib.wait_until(lambda: lib.state_of(allocator.pid) == "T")
        told = self.count(allocator)
        os.kill(allocator.pid, signal.SIGCONT)
        self.assertEqual({name: told[name] for name in own}, own)

    def test_no_page_is_touched(self):
        """A read of a page without contents would give it a page table entry."""
        for version, link in allocators.CELLS:
            allocator = self.allocator(version, link, conf=SAMPLED)
            allocator.ask("comb 3000 5000")
            allocator.ask("control arena.4096.purge")
            before = lib.status_fields(allocator.pid)
            pages = lib.pages_with_contents(allocator.pid)
            self.count(allocator)
            self.assertEqual(lib.pages_with_contents(allocator.pid), pages, version)
            after = lib.status_fields(allocator.pid)
            for name in ("VmRSS", "VmPTE", "VmSize"):
                self.assertEqual(after[name], before[name], (version, name))
            self.assert_well(allocator)

    def test_no_page_is_touched_by_the_search(self):
        """Words that look like the tree's root lead to any memory; which depends on addresses."""
        for version in ("5.2.1", "5.3.0") * 12:
            allocator = self.allocator(version, "static", conf=SAMPLED)
            allocator.ask("comb 3000 5000")
            allocator.ask("control arena.4096.purge")
            pages = lib.pages_with_contents(allocator.pid)
            self.count(allocator)
            self.assertEqual(lib.pages_with_contents(allocator.pid), pages, version)
            allocator.stop()


if __name__ == "__main__":
    lib.main()
