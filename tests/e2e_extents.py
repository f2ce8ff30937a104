"""Live objects by jemalloc's own records in the memory of a process (jemalloc/extents/): they are
those that the process has, and those that jemalloc counts; reading them changes nothing."""

import json
import os
import re
import signal
import subprocess
import time

import allocators
import lib
import releases

SUMS = os.environ["JEATTACH_SUMS"]
# tests/victims/kept.c, of which each third object is free.
KEPT = {224: 6000, 640: 3000, 3584: 900, 10240: 300, 98304: 30, 3 << 20: 9}
CONF = "tcache:false"
PRINTS = 65536  # malloc_stats_print's own buffer, which exists while it counts


class Extents(allocators.TestCase):
    def kept(self, version, link="shared", conf=CONF, library=None):
        return self.allocator(version, link, conf=conf, library=library, program="kept")

    def run_sums(self, process, limit=0, addresses=()):
        words = [SUMS, str(process.pid), str(limit)] + ["%#x" % addr for addr in addresses]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def sums(self, process, limit=0):
        done = self.run_sums(process, limit)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def assert_kept(self, process, told, sampled=False):
        """Sampled objects have an extent each, and the profile has objects of its own."""
        found = {row["size"]: row["objects"] for row in told["large"]}
        for row in told["bins"]:
            found[row["size"]] = row["objects"] + row["sampled"]
            self.assertTrue(sampled or not row["sampled"], row)
        for size, count in KEPT.items():
            more = found[size] - (count - (count + 2) // 3)
            self.assertIn(more, range(64) if sampled else (0,), (process.name, size))

    def own_stats(self, process):
        """What jemalloc counts: (objects, slabs) by small size, objects by large size."""
        report = json.loads(process.own_stats("Ja"))["jemalloc"]
        merged = report["stats.arenas"]["merged"]
        small = {
            bin["size"]: (counts["curregs"], counts["curslabs"])
            for bin, counts in zip(report["arenas"]["bin"], merged["bins"])
        }
        large = {
            extent["size"]: counts["curlextents"]
            for extent, counts in zip(report["arenas"]["lextent"], merged["lextents"])
        }
        return small, large

    def assert_counted(self, process):
        """Equal to jemalloc's statistics before and after, for each class where those agree."""
        self.own_stats(process)  # the first may allocate buffers
        before = self.own_stats(process)
        told = self.sums(process)
        after = self.own_stats(process)
        small = {row["size"]: (row["objects"], row["slabs"]) for row in told["bins"]}
        large = {row["size"]: row["objects"] for row in told["large"]}
        large[16384] += sum(row["sampled"] for row in told["bins"])
        self.assertEqual((small.keys(), large.keys()), (before[0].keys(), before[1].keys()))
        for mine, first, last in ((small, before[0], after[0]), (large, before[1], after[1])):
            settled = {size for size in first if first[size] == last[size]} - {PRINTS}
            self.assertGreater(len(settled), 0.8 * len(first))
            self.assertEqual({size: mine[size] for size in settled},
                             {size: first[size] for size in settled}, process.name)
        self.assertEqual((told["unsettled"], told["per_million"]), (0, 1000000))
        return told

    def test_every_release(self):
        cells = [(version, "shared", None) for version in allocators.VERSIONS]
        cells += [(version, "stripped", None) for version in allocators.VERSIONS]
        for version, link, library in cells:
            with self.subTest(version=version, link=link):
                process = self.kept(version, link, library=library)
                self.assert_kept(process, self.assert_counted(process))
                self.assert_well(process)

    def test_with_caches_and_samples(self):
        """A cached object counts as one in use, in jemalloc's statistics as well."""
        for version in ("5.2.1", "5.3.0"):
            process = self.kept(version, conf="prof:true,lg_prof_sample:14,narenas:3")
            told = self.assert_counted(process)
            self.assertGreater(sum(row["sampled"] for row in told["bins"]), 100)
        for version in allocators.VERSIONS:
            process = self.kept(version, conf=CONF + ",prof:true,lg_prof_sample:14")
            self.assert_kept(process, self.sums(process), sampled=True)

    def test_redis(self):
        """Debian's redis-server, with a profile: the sum is its own allocator_allocated."""
        redis = lib.Redis(self.directory())
        self.addCleanup(redis.stop)
        for i in range(100):
            redis.cli("mset", *("%s:%d:%d" % (word, i, j) for j in range(100) for word in "kv"))
        # It counts ten times a second, and an ended connection has memory for a moment.
        self.assertTrue(lib.wait_until(lambda: self.live_in(redis) == self.allocated_by_redis(redis),
                                       pause=0.25))
        self.assertGreater(self.live_in(redis), 1 << 20)
        self.assertEqual(redis.cli("dbsize"), "10000")

    def live_in(self, process):
        """As stats.allocated: jemalloc counts a sampled small object as large (up to 5.3.0)."""
        told = self.sums(process)
        self.assertEqual(told["unsettled"], 0)
        live = sum(row["size"] * row["objects"] for row in told["bins"])
        live += sum(row["bytes"] for row in told["large"])
        return live + 16384 * sum(row["sampled"] for row in told["bins"])

    def allocated_by_redis(self, redis):
        return int(re.search(r"allocator_allocated:(\d+)", redis.cli("info", "memory"))[1])

    def test_addresses(self):
        """Each object is found by each of its bytes, and a free one is known to be free."""
        process = self.kept("5.3.0")
        path = os.path.join(self.directory(), "where")
        process.ask("where %s" % path)
        rows = [line.split() for line in lib.read_text(path).splitlines()][::37]
        inside = [int(at, 16) + int(size) - 1 for at, size, _ in rows]
        done = self.run_sums(process, 0, inside)
        answers = done.stdout[done.stdout.rindex("}") + 1:].split("\n")[1:-1]
        self.assertEqual(len(answers), len(rows))
        kept = 0
        for (at, size, is_kept), addr, answer in zip(rows, inside, answers):
            if is_kept == "1":
                kept += 1
                offset = int(size) - 1
                self.assertEqual(answer, "%#x size %s offset %d used 1" % (addr, size, offset))
            else:
                free = "%#x size %s offset %d used 0" % (addr, size, addr - int(at, 16))
                self.assertIn(answer, ("%#x none" % addr, free))
        self.assertGreater(kept, 100)

    def test_while_it_allocates(self):
        """What changes meanwhile is left out and counted; the rest is exact, each time."""
        for version in allocators.VERSIONS:
            process = self.kept(version)
            process.ask("churn 2")
            time.sleep(0.05)
            for _ in range(10):
                told = self.sums(process)
                self.assert_kept(process, told)
                self.assertLess(told["unsettled"], 50)
            self.assert_well(process)

    def test_stopped(self):
        process = self.kept("5.3.0")
        os.kill(process.pid, signal.SIGSTOP)
        self.assert_kept(process, self.sums(process))
        os.kill(process.pid, signal.SIGCONT)
        self.assert_well(process)

    def test_share(self):
        """The limit is 8 MiB of about 30: the sums of many random parts are near the whole."""
        process = self.kept("5.3.0")
        whole = self.sums(process)["extents"]
        parts = [self.sums(process, 8 << 20) for _ in range(96)]
        self.assertTrue(all(part["per_million"] < 1000000 for part in parts))
        share = sum(part["per_million"] for part in parts) / 1e6
        self.assertGreater(share, 1)
        found = sum(part["extents"] for part in parts)
        self.assertTrue(0.5 * whole < found / share < 2 * whole, (whole, found, share))

    def test_no_page_is_touched(self):
        """A read of a page without contents would give it a page table entry."""
        for version in allocators.VERSIONS:
            process = self.kept(version)
            fields = ("VmRSS", "VmPTE", "VmSize")
            before = [lib.status_fields(process.pid)[name] for name in fields]
            pages = lib.pages_with_contents(process.pid)
            for _ in range(3):
                self.sums(process)
            self.assertEqual(lib.pages_with_contents(process.pid), pages, version)
            self.assertEqual([lib.status_fields(process.pid)[name] for name in fields], before)
            self.assert_well(process)


if __name__ == "__main__":
    lib.main()
