"""Live objects by class and samples with their stacks (jemalloc/extents/live.h), read from the
memory of a process that knows all of its objects: the numbers are exact."""

import bisect
import collections
import contextlib
import json
import os
import subprocess
import time

import allocators
import lib
import profiles
import releases

LIVE = os.environ["JEATTACH_LIVE"]
# One sample in 4 KiB; a profile whose counts are the numbers of samples; no cached objects.
CONF = "prof:true,lg_prof_sample:12,tcache:false,narenas:1,retain:true"
UNBIASED = {"5.3.0": ",prof_unbias:false", "5.3.1": ",prof_unbias:false"}
COARSE_NS = 20000000  # the births are of a clock that is some ms behind
SMALLEST_LARGE = 16384

Look = collections.namedtuple("Look", "at_ns took_ns share stale left_out classes samples")
Sample = collections.namedtuple("Sample", "start birth size stack")


class Looks:
    """The driver: each take() is one look at the process."""

    def __init__(self, test, pid):
        self.driver = subprocess.Popen([LIVE, str(pid)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        test.addCleanup(self.end)

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            lib.end_process(self.driver)

    def take(self):
        self.driver.stdin.write("\n")
        self.driver.stdin.flush()
        line = self.driver.stdout.readline()
        if not line:
            raise AssertionError(self.driver.stderr.read())
        told = json.loads(line)
        if not told.pop("has_samples"):
            raise AssertionError("no samples")
        told["classes"] = {size: (count, size_of_all) for size, count, size_of_all in told["classes"]}
        told["samples"] = [Sample(*sample) for sample in told["samples"]]
        return Look(**told)

    def stacks(self):
        self.driver.stdin.close()
        told = json.loads(self.driver.stdout.read())
        if self.driver.wait() != 0:
            raise AssertionError(self.driver.stderr.read())
        return [tuple(stack) for stack in told]


def grown(before, after):
    """The classes whose objects are more or fewer: {size: (objects, bytes)}."""
    found = {}
    for size in before.classes.keys() | after.classes.keys():
        was, now = (look.classes.get(size, (0, 0)) for look in (before, after))
        if was != now:
            found[size] = (now[0] - was[0], now[1] - was[1])
    return found


class Live(allocators.TestCase):
    maxDiff = None

    def tracked(self, version, conf=CONF, link="shared", library=None):
        conf += UNBIASED.get(version, "")
        process = self.allocator(version, link, conf=conf, library=library, program="tracked")
        process.ask("grow 0 6000 16")  # the main thread has samples
        return process

    def lines(self, process, what):
        path = os.path.join(process.directory, what)
        process.ask("%s %s" % (what, path))
        return [[int(word) for word in line.split()] for line in lib.read_text(path).splitlines()]

    def profile(self, process):
        path = os.path.join(process.directory, "profile")
        process.ask("dump " + path)
        return profiles.parse(lib.read_bytes(path))

    def allocate(self, process):
        """Several sizes from one stack, small, sampled as 16 KiB, large; then others resized."""
        for site, count, size in ((1, 5000, 100), (2, 300, 3000), (3, 40, 50000), (1, 50, 20000),
                                  (4, 50, 16000), (5, 3, 3 << 20), (6, 400, 900)):
            process.ask("grow %d %d %d" % (site, count, size))
        process.ask("resize 6 1700")
        process.ask("shrink 2 100")

    def assert_objects(self, before, after, process, known):
        """The classes have grown by the objects that it has beyond those that it had."""
        made = collections.Counter(size for _, size, _ in self.lines(process, "where"))
        made.subtract(known)
        classes = {16: 1, 100: 112, 3000: 3072, 50000: 57344, 20000: 20480, 16000: 16384,
                   3 << 20: 3 << 20, 1700: 1792, 900: 1024}
        expected = collections.Counter()
        for size, count in made.items():
            if count:
                expected[classes[size]] += count
        found = grown(before, after)
        self.assertEqual({size: count for size, (count, _) in found.items()}, expected, process.name)
        for size, (count, size_of_all) in found.items():
            if "5.3.1" not in process.name or size < SMALLEST_LARGE:
                self.assertEqual(size_of_all, size * count)
        if "5.3.1" in process.name:  # where large objects are as large as their pages
            self.assertEqual(found[57344][1], 40 * 53248)

    def assert_samples(self, look, stacks, process):
        """Each sample is an object of its class, and of its function."""
        where = {at: (size, site) for at, size, site in self.lines(process, "where")}
        starts = [at for at, in self.lines(process, "sites")]
        ordered = sorted(starts)
        mine = 0
        for sample in look.samples:
            self.assertGreaterEqual(sample.stack, 0)
            size, site = where.get(sample.start, (None, None))
            if size is None:
                continue  # an object of the C library
            mine += 1
            self.assertTrue(0.78 * sample.size - 8 < size <= sample.size, (size, sample))
            near = [starts.index(ordered[bisect.bisect(ordered, word) - 1])
                    for word in stacks[sample.stack] if ordered[0] < word < ordered[-1] + 400]
            self.assertEqual(near[:1], [site], process.name)
        self.assertGreater(mine, 400)
        self.assertLess(len(look.samples) - mine, 8)
        self.assert_dumped(look, stacks, process)

    def assert_dumped(self, look, stacks, process):
        """prof.dump has the same stacks, with as many objects."""
        found = collections.Counter("@ " + " ".join("%#x" % word for word in stacks[sample.stack])
                                    for sample in look.samples)
        dumped = {name: counts["*"][0] for name, counts in self.profile(process).stacks.items()}
        self.assertEqual({name: (count, dumped.get(name)) for name, count in found.items()},
                         {name: (found.get(name), count) for name, count in dumped.items()})

    def check_all(self, version, conf=CONF, link="shared", library=None):
        process = self.tracked(version, conf, link, library)
        known = collections.Counter(size for _, size, _ in self.lines(process, "where"))
        looks = Looks(self, process.pid)
        before, began = looks.take(), time.monotonic_ns()
        self.allocate(process)
        after = looks.take()
        self.assert_objects(before, after, process, known)
        self.assertEqual((after.share, after.stale, after.left_out), (1, 0, 0))
        self.assertTrue(began < after.at_ns < time.monotonic_ns())
        fresh = {sample[:2] for sample in after.samples} - {sample[:2] for sample in before.samples}
        births = [birth for _, birth in fresh]
        if version not in ("5.0.1", "5.1.0"):
            self.assertTrue(began - COARSE_NS < min(births) and max(births) <= after.at_ns)
        else:
            self.assertEqual(set(births), {0})
        self.assert_samples(after, looks.stacks(), process)
        self.assert_well(process)

    def test_own_objects(self):
        """Those that jemalloc makes for stacks and threads when it begins to sample are none."""
        for version in allocators.VERSIONS:
            for link in ("shared", "stripped"):
                process = self.tracked(version, CONF + ",prof_active:false", link)
                looks = Looks(self, process.pid)
                before = looks.take()
                process.ask("active 1")
                process.ask("churn 40 50000")  # each thread has a stack, and frees all
                process.ask("grow 1 3000 100")
                after = looks.take()
                self.assertEqual(len(before.samples), 0)
                self.assertGreater(len(after.samples), 30)
                found = {size: count for size, (count, _) in grown(before, after).items()
                         if size not in (16, 320)}  # threads have data of the C library, and names
                self.assertEqual(found, {112: 3000}, process.name)

    def test_stale(self):
        """Threads keep freed samples in their caches, with their records: they are no samples."""
        for version in allocators.VERSIONS:
            stale = 0
            for size in (100, 13000, 16000, 30000):
                process = self.tracked(version, "prof:true,lg_prof_sample:14")
                looks = Looks(self, process.pid)
                looks.take()
                process.ask("grow 2 20 %d" % size)
                process.ask("churn 12 %d" % size)
                look = looks.take()
                stale += look.stale
                self.assert_dumped(look, looks.stacks(), process)
            self.assertGreater(stale, 100, version)

    def test_every_release(self):
        for version in allocators.VERSIONS:
            for link in allocators.LINKS + ("stripped",):
                with self.subTest(version=version, link=link):
                    self.check_all(version, link=link)

    def test_clock(self):
        """Births of the other clock that jemalloc may have (since 5.3) are translated."""
        for version in ("5.3.0", "5.3.1"):
            process = self.tracked(version, CONF + ",prof_time_resolution:high")
            looks = Looks(self, process.pid)
            began = looks.take().at_ns
            process.ask("grow 1 2000 100")
            look = looks.take()
            births = [sample.birth for sample in look.samples if sample.birth > began]
            self.assertGreater(len(births), 20)
            self.assertEqual(births, [birth for birth in births if birth <= look.at_ns])

    def test_threads_that_do_not_sample(self):
        """Their objects count in their class; no sample is of them."""
        for version in allocators.VERSIONS:
            process = self.tracked(version)
            looks = Looks(self, process.pid)
            before = looks.take()
            process.ask("quiet 3000 1000")
            after = looks.take()
            self.assertEqual(grown(before, after)[1024], (3000, 3072000))
            self.assertFalse([sample for sample in after.samples if sample.size == 1024])

    def test_while_it_allocates(self):
        """Other threads allocate and free: objects that stay are exact, and keep their samples."""
        for version in allocators.VERSIONS:
            process = self.tracked(version)
            looks = Looks(self, process.pid)
            looks.take()
            process.ask("grow 1 3000 900")
            process.ask("grow 2 300 50000")
            first = looks.take()
            kept = {sample for sample in first.samples if sample.size in (1024, 57344)}
            self.assertGreater(len(kept), 700)
            process.ask("spin 2 100")
            for _ in range(20):
                look = looks.take()
                self.assertEqual([look.classes[size] for size in (1024, 57344)],
                                 [first.classes[size] for size in (1024, 57344)])
                self.assertEqual(kept, {sample for sample in look.samples
                                        if sample.size in (1024, 57344)})
            self.assertTrue(all(len(stack) > 1 for stack in looks.stacks()))
            self.assert_well(process)

    def test_no_page_is_touched(self):
        """A read of a page without contents would give it a page table entry."""
        for version in allocators.VERSIONS:
            process = self.tracked(version)
            process.ask("grow 1 3000 900")
            process.ask("shrink 1 2000")
            before = lib.pages_with_contents(process.pid)
            looks = Looks(self, process.pid)
            for _ in range(3):
                looks.take()
            self.assertEqual(lib.pages_with_contents(process.pid), before, version)

    def test_end(self):
        process = self.tracked("5.3.0")
        looks = Looks(self, process.pid)
        looks.take()
        process.stop()
        with self.assertRaisesRegex(AssertionError, "read maps|read the extents"):
            looks.take()


if __name__ == "__main__":
    lib.main()
