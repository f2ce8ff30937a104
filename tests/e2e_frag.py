"""Programs whose slabs are nearly empty: frag names the stack that pins them."""

import json
import os
import re
import subprocess

import e2e_seeded
import lib

CONF = "lg_prof_sample:%d,dirty_decay_ms:0,muzzy_decay_ms:0,prof:%s,prof_prefix:%s/own"
# Of the program's own count, which is exact: printf and the tool's call may use some objects.
TOLERANCE = 0.001
SIZE = 48


class Frag(lib.TestCase):
    def start_waster(self, mode, sample=11, prof="true", size=SIZE):
        """Returns the process, and its own count of the free space in slabs of that size."""
        place = self.directory()
        program = os.path.join(place, "frag")
        source = os.path.join(e2e_seeded.SOURCES, "frag.c")
        e2e_seeded.build(["gcc", "-g", "-O2", source, "-o", program])
        process = self.process(
            [program, mode],
            env=lib.tool_environment(
                {"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": CONF % (sample, prof, place)}
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        word, served, waste = process.stdout.readline().split()
        self.assertEqual((word, int(served)), (b"ready", size))
        return process, int(waste)

    def frag(self, *words):
        result = self.assert_ran(lib.run_tool("frag", "--json", "--rows", 0, *words))
        self.assertNotIn(" stopped ", result.err)
        told = json.loads(result.out)
        self.assert_adds_up(told)
        kinds = [told[kind] for kind in ("by_samples", "by_inference", "own", "not_sampled")]
        self.assertEqual(sum(row["bytes"] for row in told["rows"]), sum(kinds))
        self.assertAlmostEqual(told["parts"]["slabs"], sum(kinds), delta=1 << 20)
        return told

    def assert_adds_up(self, told):
        """The parts are the RSS, and a purge returns no more than there is in memory."""
        parts = dict(told["parts"])
        absent = parts.pop("absent")
        self.assertGreaterEqual(absent, 0)
        self.assertEqual(sum(part or 0 for part in parts.values()), told["rss"])
        self.assertTrue(all(part is None or part >= 0 for part in parts.values()), parts)
        self.assertEqual(told["returned_by_purge"], parts["free_pages"])

    def assert_blames(self, told, function, waste):
        """The first row is of the function; its class has what the program counts.

        Some 55 of its objects are sampled: in 2 of 100 runs they are so few that the rest counts
        as not sampled. Half of them would be some 4 standard deviations.
        """
        first = told["rows"][0]
        calls = [call["function"] for call in first["stack"] or ()]
        self.assertIn(function, calls[:2])
        self.assertEqual(first["size"], SIZE)
        self.assertAlmostEqual(first["class_bytes"], waste, delta=TOLERANCE * waste)
        self.assertLessEqual(first["bytes"], first["class_bytes"])
        self.assertGreater(first["bytes"], 0.4 * waste)
        self.assertGreaterEqual(told["parts"]["slabs"], 0.99 * first["class_bytes"])
        self.assertEqual(told["verdict"], "slabs")
        self.assertGreater(first["least"] + 2 * first["error"], 0.9 * first["bytes"])
        self.assertRegex(
            told["answer"],
            r"\Awastes [\d.]+ MiB: (?:about )?[\d.]+ MiB of it is free space in slabs of objects of 48 B, which "
            r"objects of .*\b%s \(frag\.c:\d+\) keep\b.* \(samples\)\Z" % function,
        )

    def row_of(self, told, function):
        """The row of the size class that a function has."""
        rows = [
            row
            for row in told["rows"]
            if row["size"] == SIZE and function in [call["function"] for call in row["stack"] or ()]
        ]
        self.assertEqual(len(rows), 1, told["rows"])
        return rows[0]

    def assert_found(self, mode, function):
        """In numbers and in words."""
        process, waste = self.start_waster(mode)
        told = self.frag(process.pid)
        self.assert_blames(told, function, waste)
        self.assertEqual(told["profile"], "sampled")
        self.assertLess((told["parts"]["free_pages"] or 0) + told["returned_by_purge"], 1 << 20)
        self.assertEqual({row["by"] for row in told["rows"]} - {None}, {"samples"})
        text = self.assert_ran(lib.run_tool("frag", process.pid)).text
        answer, rest = text.split("\n", 1)
        self.assertEqual(answer, "frag[%d] %s" % (process.pid, told["answer"]))
        self.assertRegex(rest, r"\ARSS .*:\n  in use  (?s:.*)\n  slabs ")
        self.assertRegex(rest, r"stacks: [\d.]+ MiB by samples")
        self.assertRegex(rest, r"\nhelps: a restart; jeattach purge does not")
        self.assertIn("%s (frag.c:" % function, rest)
        self.assertIsNone(process.poll())
        return process, told, text

    def test_survivors(self):
        """One survivor a slab: who keeps it is blamed, not who filled the slab."""
        _, told, _ = self.assert_found("survivors", "keep_b")
        names = {call["function"] for row in told["rows"] for call in row["stack"] or []}
        self.assertNotIn("churn_a", names)

    def test_resized(self):
        """Some objects of the former size class stay."""
        self.assert_found("resized", "session_new")

    def test_left_behind(self):
        """In the arena of a thread that has ended."""
        self.assert_found("left", "keep_b")

    def test_full_slabs_beside(self):
        """Most objects of that size are in full slabs, which pin nothing: nobody is blamed."""
        process, waste = self.start_waster("beside", sample=10)
        told = self.frag(process.pid)
        cache, kept = self.row_of(told, "cache_add"), self.row_of(told, "keep_b")
        self.assertIs(cache, told["rows"][0])
        self.assertLess(cache["least"], 0.5 * cache["bytes"])
        self.assertGreater(kept["most"], 0.5 * waste)
        self.assertIn("it is not known which stack keeps them", told["answer"])
        self.assertNotIn("which objects of", told["answer"])
        text = self.assert_ran(lib.run_tool("frag", process.pid)).text
        self.assertRegex(text, r"\n\? +[\d.]+ MiB")
        for line in text.split("\nhelps: ")[0].splitlines()[1:]:
            self.assertLessEqual(len(line), 80, line)

    def assert_as_counted(self, told, process):
        """By jemalloc itself; the report may use an object, and so may a cache."""
        report = json.loads(
            self.assert_ran(lib.run_tool("stats", "--full", "--json", process.pid)).out)["jemalloc"]
        arenas = report["stats.arenas"]
        bins = (arenas.get("merged") or arenas["0"])["bins"]
        counted = sum(counts["curslabs"] * size["slab_size"] - counts["curregs"] * size["size"]
                      for size, counts in zip(report["arenas"]["bin"], bins, strict=True))
        rows = sum(told[name] for name in ("by_samples", "by_inference", "not_sampled", "own"))
        # The rows are what of it is in memory.
        self.assertLessEqual(rows, 1.01 * counted)
        self.assertGreaterEqual(rows + told["parts"]["absent"], 0.99 * counted)

    def test_four_sizes(self):
        """One function has them: each sample counts for the size class of its own size."""
        for sample in (10, 14, 19):
            with self.subTest(sample=sample):
                process, waste = self.start_waster("four", sample=sample, size=64)
                told = self.frag(process.pid)
                sizes = {row["size"]: row for row in told["rows"] if row["stack"]}
                self.assertAlmostEqual(
                    sum(row["bytes"] for row in told["rows"] if row["size"] == 64),
                    waste,
                    delta=TOLERANCE * waste,
                )
                self.assertEqual(told["by_inference"], 0)
                self.assertFalse([row for row in told["rows"] if row["mixed"]])
                text = self.assert_ran(lib.run_tool("frag", "--rows", "0", process.pid)).text
                for row in told["rows"]:
                    if row["expected_samples"] is not None and 1 <= row["expected_samples"] < 7:
                        self.assertRegex(text, r"\[not sampled: (only \d samples are|less than)")
                if sample == 19:  # some 6 samples of each size
                    continue
                for size in (64, 320, 1024, 3072):
                    self.assertEqual(sizes[size]["by"], "samples")
                    self.assertIn("session_new", [call["function"] for call in sizes[size]["stack"]][:2])
                    self.assertGreater(sizes[size]["bytes"], 0.5 * sizes[size]["class_bytes"])
                self.assertGreater(told["by_samples"], 0.7 * told["parts"]["slabs"])
                self.assertNotIn("before sampling began", text)
                self.assertRegex(
                    told["answer"],
                    r" is free space in slabs of [34] sizes, which objects of .*session_new"
                )
                if sample == 14:
                    self.assert_as_counted(told, process)

    def test_many_stacks(self):
        """All of them have a row, or are in the row of those that are not shown."""
        process, waste = self.start_waster("stacks", sample=10)
        told = self.frag(process.pid)
        deep = [row for row in told["rows"] if row["stack"] and row["size"] == SIZE]
        self.assertGreaterEqual(len(deep), 30)
        self.assertGreater(sum(row["bytes"] for row in deep), 0.8 * waste)
        text = self.assert_ran(lib.run_tool("frag", process.pid)).text
        self.assertRegex(text, r"\n +[\d.]+ [KM]iB in \d+ more rows \(--rows 0 shows all\)\n")

    def test_ended_threads(self):
        """What helps against what they left behind; the same as jemalloc says itself."""
        process, waste = self.start_waster("ended")
        told = self.frag(process.pid)
        self.assertTrue([line for line in told["helps"] if "fewer arenas (narenas:N" in line])
        self.assert_as_counted(told, process)

    def test_purge(self):
        """Little came back: what the rest is, and what shows more of it. Else nothing is said."""
        process, waste = self.start_waster("survivors")
        told = json.loads(self.assert_ran(lib.run_tool("purge", "--json", process.pid)).out)
        self.assertGreaterEqual(told["rest"]["slabs"], 0.99 * waste)
        self.assertLessEqual(told["rest"]["slabs"], told["rss_after"])
        self.assertTrue(told["next"] == "jeattach frag %d" % process.pid)
        text = self.assert_ran(lib.run_tool("purge", process.pid)).text
        self.assertRegex(text, r"\nof the [\d.]+ MiB that remain:\n  in use ")
        self.assertRegex(text, r"\n  slabs +[\d.]+ MiB +[\d.]+ %  free space between objects")
        self.assertIn("\nnext: %s\n" % told["next"], text)
        process, _ = self.start_waster("pages", sample=19)
        told = json.loads(self.assert_ran(lib.run_tool("purge", "--json", process.pid)).out)
        self.assertLess(told["rss_after"], 0.5 * told["rss_before"])
        self.assertEqual((told["rest"], told["next"]), (None, None))

    def test_retained(self):
        """Free memory that jemalloc counts as returned: each verb says so, and none proposes purge."""
        process, _ = self.start_waster("retained", sample=19)
        told = self.frag(process.pid)
        retained = told["parts"]["retained_resident"]
        self.assertAlmostEqual(retained / (1 << 20), 62.5, delta=1)
        self.assertLess(told["parts"]["outside"], 16 << 20)
        self.assertEqual((told["verdict"], told["returned_by_purge"]), ("retained_resident", 0))
        self.assertIn("jemalloc counts as returned", told["answer"])
        self.assertRegex(told["helps"][0], "retain:false|thp:never")
        text = self.assert_ran(lib.run_tool(process.pid)).text
        self.assertRegex(text, r"\A\S+ uses \S+ MiB: [\d.]+ MiB \(\d+ %\) of it is free memory that")
        self.assertNotIn("purge %d" % process.pid, text)
        self.assertRegex(text, r"\n  retained RSS +[\d.]+ MiB ")
        told = json.loads(self.assert_ran(lib.run_tool("stats", "--json", process.pid)).out)
        self.assertAlmostEqual(told["retained_resident"], retained, delta=1 << 18)

    def test_untouched(self):
        """The rows are what of the free space is in memory: they are the row slabs, and no more."""
        process, waste = self.start_waster("untouched", sample=19, size=7 << 10)
        told = self.frag("-v", process.pid)
        self.assertLess(told["rows"][0]["class_bytes"], 0.6 * waste)
        self.assertGreater(told["parts"]["absent"], 0.4 * waste)
        whole, part = re.match(r"wastes (\S+) MiB: (?:about )?(\S+) MiB of it is free space in ",
                               told["answer"]).groups()
        self.assertLessEqual(float(part), float(whole))

    def test_large(self):
        """A page behind each large object: no slab, and no stack, has it."""
        process, _ = self.start_waster("large", sample=19)
        told = self.frag(process.pid)
        self.assertLess(told["parts"]["slabs"], 1 << 20)
        self.assertFalse([line for line in told["helps"] if "activedefrag" in line])

    def test_without_profiling(self):
        """The size class, and that nobody knows the stack."""
        process, waste = self.start_waster("survivors", prof="false")
        told = self.frag(process.pid)
        first = told["rows"][0]
        self.assertEqual((first["size"], first["stack"]), (SIZE, None))
        self.assertAlmostEqual(first["bytes"], waste, delta=TOLERANCE * waste)
        self.assertEqual((told["verdict"], told["profile"]), ("slabs", "disabled"))
        self.assertRegex(
            told["answer"],
            r"in slabs of objects of 48 B \(exact\); which stacks keep them is not known: profiling was not enabled "
            r"\(opt\.prof\)\Z",
        )
        text = self.assert_ran(lib.run_tool("frag", process.pid)).text
        self.assertIn("jeattach peek %d" % process.pid, text)
        self.assertIn("prof:true", text)

    def test_nothing_sampled(self):
        """Profiling is possible, but was never active."""
        process, _ = self.start_waster("survivors", prof="true,prof_active:false")
        told = self.frag(process.pid)
        self.assertEqual((told["profile"], told["rows"][0]["stack"]), ("empty", None))
        self.assertIn("not known: the profile has no sample", told["answer"])
        self.assertEqual(told["not_sampled"] + told["own"], told["parts"]["slabs"])
        text = self.assert_ran(lib.run_tool("frag", process.pid)).text
        self.assertIn("next: jeattach on %d" % process.pid, text)
        self.assert_ran(lib.run_tool("on", process.pid)) # these objects are older than that
        text = self.assert_ran(lib.run_tool("frag", process.pid)).text
        self.assertNotIn("jeattach on ", text)
        self.assertIn("next: jeattach peek %d" % process.pid, text)

    def test_no_waste(self):
        process, waste = self.start_waster("full", sample=19)
        told = self.frag(process.pid)
        self.assertEqual(told["verdict"], "none")
        self.assertLess(waste, 1 << 16)
        self.assertLess(told["parts"]["slabs"], 1 << 18)
        text = self.assert_ran(lib.run_tool("frag", process.pid)).text
        self.assertRegex(text, r"\Afrag\[\d+\] wastes little: .* \(exact\)\n")
        self.assertNotIn("free space   share", text)


if __name__ == "__main__":
    lib.main()
