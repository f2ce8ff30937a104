"""The gauges of stats.* counted from jemalloc's records (jemalloc/extents/counted.h): to the byte
those that the process itself reads by mallctl, in each state that its memory can be in."""

import json
import os
import subprocess

import allocators
import lib

COUNTED = os.environ["JEATTACH_COUNTED"]
NAMES = ("allocated", "active", "metadata", "resident", "mapped", "retained", "pinned")
PLAIN = "narenas:4,dirty_decay_ms:-1,muzzy_decay_ms:-1"
SAMPLED = PLAIN + ",prof:true,lg_prof_sample:12"
SMALLEST_LARGE = 16384
PAGE = 4096

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

    def do_all(self, allocator):
        for step in STEPS:
            for line in step:
                allocator.ask(line)
            self.assert_equal(allocator, step)

    def check(self, conf, **more):
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link, conf=conf, words=("--threads", 3))
                self.do_all(allocator)
                self.assert_well(allocator)

    def test_plain(self):
        self.check(PLAIN)

    def test_sampled(self):
        self.check(SAMPLED)


if __name__ == "__main__":
    lib.main()
