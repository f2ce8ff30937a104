"""Profiles read from memory, compared with what prof.dump writes: of Debian's jemalloc 5.2.1, 5.3.0
and 5.3.1, shared and static, stripped and not; of quiet processes, and of busy ones."""

import json
import os
import select
import statistics

import allocators
import lib
import profiles

EXACT = "prof:true,lg_prof_sample:0"
SAMPLED = "prof:true,lg_prof_sample:9"
# 5.3 and later; others would print a warning.
BIASED = SAMPLED + ",prof_unbias:false"
SYSTEM_NAMES = EXACT + ",prof_sys_thread_name:true"
OLD_CONFS = (EXACT, SAMPLED, EXACT + ",prof_accum:true", SAMPLED + ",prof_accum:true")
NEW_CONFS = OLD_CONFS + (BIASED, SYSTEM_NAMES)
# The smallest block of all; the largest of tests/victims/paths.c, as allocated.
LEAST, MOST = 16, 1792
LINKS = ("shared", "static", "stripped")


class Quiet(allocators.TestCase):
    """A process that allocates nothing while it is read: not one byte may differ."""

    WORKERS, BRIEF, LEVELS = 4, 5, 9

    def start(self, version, link, conf, library):
        words = ["--threads", self.WORKERS, "--levels", self.LEVELS]
        if conf != SYSTEM_NAMES:
            words.append("--named")
        allocator = self.allocator(version, link, conf, words, library, "paths")
        allocator.ask("churn 200")
        allocator.ask("brief %d" % self.BRIEF)
        allocator.ask("rest")
        return allocator

    def assert_same(self, read, called, what):
        if profiles.head(read) != profiles.head(called):
            self.fail("%s: read, called:\n%s" % (what, profiles.differences(read, called)))

    def assert_whole(self, data, conf):
        """Each thread is in it, by its name; and each path of main and workers, if all is sampled."""
        profile = profiles.parse(data)
        names = ["0"] + [str(i) for i in range(1, 1 + self.WORKERS)]
        names += [str(1000 + i) for i in range(self.BRIEF)]
        if conf == SYSTEM_NAMES:
            names = ["path-" + name for name in names]
        self.assertEqual(sorted(name for _, name in profile.threads.values()), sorted(names))
        self.assertGreaterEqual(len(profile.stacks), 2 << self.LEVELS if EXACT in conf else 100)

    def check_one(self, version, link, conf, library=None):
        allocator = self.start(version, link, conf, library)
        profile_of(self, allocator, "--call")
        read = profile_of(self, allocator, "--no-call")
        called = profile_of(self, allocator, "--call")
        what = "%s %s %s" % (version, link, conf)
        self.assert_same(read, called, what)
        self.assert_same(read, own_dump(allocator), what + ", its own")
        self.assert_whole(read, conf)
        self.assert_same(read, profile_of(self, allocator, "--no-call"), what + ", read again")
        allocator.ask("check")
        self.assertEqual(allocator.said(), "")
        allocator.stop()

    def check(self, version, confs, library=None):
        for link in LINKS if library is None else ("shared",):
            for conf in confs:
                with self.subTest(version=version, link=link, conf=conf):
                    self.check_one(version, link, conf, library)


class Debian(Quiet):
    def test_debian_5_2_1(self):
        self.check("5.2.1", OLD_CONFS)

    def test_debian_5_3_0(self):
        self.check("5.3.0", NEW_CONFS)

    def test_debian_5_3_1(self):
        self.check("5.3.1", NEW_CONFS)


class Churn(allocators.TestCase):
    """Threads that exchange their blocks without end, from a closed set of backtraces."""

    READS = 1000 if lib.LONG else 20
    # How far the mean of all reads may be from the calls, as a part of the sum. A block that moves
    # while a read lasts is in it twice, once, or not at all, if its new stack was not yet there when
    # the stacks were listed. So a slow machine is off by more: by 1 % rather than 0.5 %.
    ALLOWED = 0.05
    LEFT_OUT = 0.01  # of the stacks

    def start(self, workers, levels):
        words = ("--threads", workers, "--levels", levels, "--named")
        allocator = self.allocator("5.3.0", "shared", EXACT, words, program="paths")
        allocator.ask("passing 1")
        allocator.ask("brief 1")
        known = profiles.parse(own_dump(allocator))
        allocator.ask("churn 20")
        return allocator, known

    def assert_possible(self, data, known, what):
        """Returns the profile, which has no stack, thread or size that the process cannot have, and
        sums that are sums."""
        profile = profiles.parse(data)
        self.assertEqual(set(profile.stacks) - set(known.stacks), set(), what)
        self.assert_threads(profile, known, what)
        sums = {}
        for stack, counts in profile.stacks.items():
            self.assert_sizes(counts, (what, stack, counts))
            for uid, value in counts.items():
                self.assertIn(uid, {"*", *profile.threads}, (what, stack, counts))
                sums[uid] = [a + b for a, b in zip(sums.get(uid, (0, 0)), value)]
        self.assertEqual(tuple(sums["*"]), profile.total[:2], what)
        for uid, (counts, _) in profile.threads.items():
            self.assertEqual(tuple(sums.get(uid, (0, 0))), counts[:2], (what, uid))
        return profile

    def assert_threads(self, profile, known, what):
        self.assertEqual(names_of(profile), names_of(known), what)

    def assert_sizes(self, counts, what):
        parts = [value[:2] for uid, value in counts.items() if uid != "*"]
        self.assertEqual(tuple(map(sum, zip(*parts))), counts["*"][:2], what)
        for objects, size, *_ in counts.values():
            self.assertGreaterEqual(size, LEAST * objects, what)
            if "0" not in counts:  # the runtime of the main thread allocates larger ones
                self.assertLessEqual(size, MOST * objects, what)

    def churn(self, workers, levels):
        allocator, known = self.start(workers, levels)
        before = self.call(allocator, known)
        errors, distances, unsettled = [], [], 0
        for i in range(self.READS):
            self.keep_going(allocator)
            data, left_out = self.read(allocator)
            read = self.assert_possible(data, known, i)
            after = self.call(allocator, known)
            errors.append(distance_to(read, before, after))
            distances.append(abs(after.total[1] / before.total[1] - 1))
            unsettled += left_out
            before = after
        print("%d workers, %d reads: sums outside of two calls by %s, in the mean by %+.3f %%;"
              " calls differ by %s; %d stacks left out"
              % (workers, len(errors), spread(map(abs, errors)), 100 * statistics.mean(errors),
                 spread(distances), unsettled))
        self.assertLessEqual(abs(statistics.mean(errors)), self.ALLOWED)
        self.assertLessEqual(unsettled, self.LEFT_OUT * len(known.stacks) * len(errors))
        self.assertEqual(lib.tracer_of(allocator.pid), 0)
        self.settle(allocator)
        allocator.ask("rest")
        allocator.ask("check")
        self.assertEqual(allocator.said(), "")

    def call(self, allocator, known):
        """jemalloc itself may count a thread that it does not list, because it has just begun."""
        profile = profiles.parse(profile_of(self, allocator, "--call"))
        self.assertEqual(set(profile.stacks) - set(known.stacks), set())
        return profile

    def read(self, allocator):
        """Returns the profile and the number of stacks that changed too often to be in it."""
        path = os.path.join(allocator.directory, "read")
        words = ("dump", "--force", "--json", "-o", path, "--no-call", allocator.pid)
        told = json.loads(self.assert_ran(lib.run_tool(*words)).text)
        return lib.read_bytes(path), told["unsettled"]

    def keep_going(self, allocator):
        pass

    def settle(self, allocator):
        pass


class Steady(Churn):
    def test_two_threads(self):
        self.churn(2, 9)

    def test_eight_threads(self):
        self.churn(8, 8)

    def test_sixty_four_threads(self):
        self.churn(64, 6)


class Passing(Churn):
    """While one thread after the other begins, frees its blocks and ends."""

    ALLOWED = LEFT_OUT = 0.15  # one thread of ten more or less
    begun = False

    def assert_threads(self, profile, known, what):
        names = names_of(profile)
        self.assertEqual({uid: names.get(uid) for uid in names_of(known)}, names_of(known), what)
        for uid in set(names) - set(names_of(known)):
            self.assertRegex(names[uid], r"\A(1\d{5})?\Z", (what, uid))  # not named at its start

    def keep_going(self, allocator):
        out = allocator.process.stdout
        if self.begun and select.select([out], [], [], 0)[0]:
            self.settle(allocator)
        if not self.begun:
            allocator.process.stdin.write("passing 100\n")
            allocator.process.stdin.flush()
            self.begun = True

    def settle(self, allocator):
        if self.begun:
            self.assertEqual(allocator.process.stdout.readline(), "ok\n")
            self.begun = False

    def test_threads_that_end(self):
        self.churn(8, 6)


def names_of(profile):
    return {uid: name for uid, (_, name) in profile.threads.items()}


def distance_to(read, before, after):
    """Returns how far the sum is below (negative) or above those of two calls, as a part of them."""
    low, high = sorted((before.total[1], after.total[1]))
    return (min(read.total[1] - low, 0) + max(read.total[1] - high, 0)) / low


def profile_of(test, allocator, way):
    return test.assert_ran(lib.run_tool("dump", "-q", "-o", "-", way, allocator.pid)).out


def own_dump(allocator):
    path = os.path.join(allocator.directory, "own")
    allocator.ask("dump " + path)
    return lib.read_bytes(path)


def spread(parts):
    """In per cent, for reports: one in two, nine in ten, and the largest."""
    ordered = sorted(100 * part for part in parts)
    return "%.3f, %.3f, %.3f %%" % tuple(ordered[int(p * (len(ordered) - 1))] for p in (0.5, 0.9, 1))


if __name__ == "__main__":
    lib.main()
