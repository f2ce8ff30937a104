"""explain, frag and stats of processes whose memory is known: a sample of answers_truth.py.

No check may be wrong; those that a test names must be right. All conditions are those of a process
at rest, but for one, whose RSS goes up and down all the time: its answer is the same.
"""

import os
import random
import unittest

import answers_truth
import lib

LITTLE = ("mb=48", "cache=8")


class Answers(lib.TestCase):
    def check(self, scene, way, *right, cores=False):
        """Runs a scene; returns what the verbs printed. right: checks that may not be unclear."""
        row = answers_truth.run_scene(scene, way, cores, LITTLE)
        found = {check: (word, why) for word, check, why in row["checks"]}
        wrong = [check for check in row["checks"] if check[0] == answers_truth.WRONG]
        self.assertEqual(wrong, [], row["answers"])
        for check in right:
            self.assertEqual(found.get(check, (None, None))[0], answers_truth.RIGHT,
                             (check, found.get(check), row["answers"]))
        return row["answers"]

    def test_one_size(self):
        self.check("one", "lg12", "explain headline", "explain amount", "frag amount", "frag rows",
                   "explain parts", "frag parts", "stats parts", "explain = frag", "explain = stats")

    def test_four_sizes(self):
        """Of one function: each sample counts for its own size class."""
        self.check("four", "lg14", "explain headline", "frag rows", "stats in_use", "stats slabs")

    def test_many_stacks(self):
        self.check("stacks", "lg10", "explain headline", "frag rows")

    def test_threads_that_ended(self):
        self.check("ended", "lg14", "explain headline", "frag rows")

    def test_without_samples(self):
        self.check("one", "noprof", "explain headline", "explain amount", "frag rows")

    def test_noise(self):
        """One MiB more or less does not come before what is free between objects."""
        self.check("noisy", "lg14", "explain headline", "explain amount")

    def test_free_pages(self):
        self.check("dirty", "lg14", "explain headline", "explain amount", "frag headline",
                   "frag amount")

    def test_free_pages_of_samples(self):
        """jemalloc counts them, but they are mostly not in memory: no more is promised of a purge
        than it returns."""
        self.check("dirty slabs", "lg12", "explain headline", "frag promise", "stats parts")

    def test_untouched(self):
        """In use, but not in memory: no share is above the whole."""
        self.check("untouched", "noprof", "explain parts", "stats parts", "stats in_use")

    def test_in_use(self):
        self.check("busy", "lg14", "explain headline", "stats in_use", "stats sampling")

    def test_outside(self):
        for scene in ("map", "shared", "file", "stacks_used"):
            with self.subTest(scene):
                self.check(scene, "noprof", "explain headline", "explain amount")

    def test_without_jemalloc(self):
        self.check("one", "glibc", "frag refuses", "stats refuses")
        self.check("map", "glibc", "explain headline")

    def test_core_files(self):
        if not answers_truth.shutil.which("gcore"):
            self.skipTest("gcore is not installed (package gdb)")
        self.check("one", "lg14", "core headline", "core parts", cores=True)
        self.check("map", "glibc", "core headline", cores=True)

    @unittest.skipUnless(os.environ.get("JEATTACH_LONG"), "in ./test --long")
    def test_all_scenes(self):
        """None is wrong."""
        tasks = [(scene, way) for scene in answers_truth.SCENES for way in answers_truth.WAYS]
        random.shuffle(tasks)
        for scene, way in tasks:
            with self.subTest(scene=scene, way=way):
                self.check(scene, way, cores=True)


if __name__ == "__main__":
    lib.main()
