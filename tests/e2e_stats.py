"""jeattach stats: the gauges, and jemalloc's own report byte for byte."""

import json
import os
import re
import subprocess

import allocators
import lib
import releases


def tokens(report):
    return re.findall(rb"[0-9]+|[^0-9]+", report)


def bytes_of(text):
    """Of a size as the screens print it: "1.92 MiB"."""
    number, unit = text.split()
    return float(number) * 1024 ** ("B", "KiB", "MiB", "GiB").index(unit)


class Stats(allocators.TestCase):
    def stats(self, allocator, *words, **options):
        return self.assert_ran(lib.run_tool("stats", allocator.pid, *words, **options))

    def report(self, allocator, *words):
        """jemalloc's own report in JSON."""
        return self.stats(allocator, "--full", "--json", *words)

    def assert_report(self, allocator, options):
        """Equal to the process's own report before and after, where those two agree."""
        allocator.own_stats(options)  # the first may allocate buffers
        before = allocator.own_stats(options)
        result = self.stats(allocator, "--full", *(["--json"] if options else []))
        after = allocator.own_stats(options)
        rows = [tokens(report) for report in (before, result.out, after)]
        self.assertEqual(len({len(row) for row in rows}), 1, [len(row) for row in rows])
        settled = [(b, t) for b, t, a in zip(*rows) if a == b]
        self.assertEqual([pair for pair in settled if pair[0] != pair[1]], [], allocator.name)
        self.assertGreater(len(settled), 0.9 * len(rows[0]))
        return result

    def test_json_is_that_of_jemalloc(self):
        for version, link in allocators.CELLS:
            allocator = self.allocator(version, link)
            result = self.assert_report(allocator, "J")
            self.assertTrue(json.loads(result.text)["jemalloc"]["version"].startswith(version))
            self.assert_well(allocator)

    def test_full_is_that_of_jemalloc(self):
        for version, link in allocators.CELLS:
            allocator = self.allocator(version, link)
            result = self.assert_report(allocator, "")
            self.assertTrue(result.text.startswith("___ Begin jemalloc statistics ___\n"))
            self.assertIn("--- End jemalloc statistics ---", result.text[-40:])
            self.assert_well(allocator)

    def test_many_arenas(self):
        """A report of megabytes, which does not fit into the scratch area at once."""
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                conf = allocators.CONF + ",narenas:64"
                allocator = self.allocator(version, conf=conf, words=("--threads", 64))
                result = self.assert_report(allocator, "J")
                self.assertGreater(len(result.out), 500000)
                self.assert_well(allocator)

    def test_few_calls(self):
        """5.2.1 prints its report in about 30,000 pieces: no piece needs a call of the tool's."""
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version)
                result = self.stats(allocator, "--full", "--json", tool=lib.TRACED_TOOL)
                calls = re.findall(r"(?m)^jeattach: call \d+: ", result.err)
                self.assertGreater(len(calls), 10)
                self.assertLess(len(calls), 200)

    def test_closed_descriptor(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version, words=("--close-stderr",))
                self.assertNotIn(2, lib.descriptors(allocator.pid))
                self.assert_report(allocator, "J")
                self.assert_report(allocator, "")

    def test_message_of_the_program_is_not_run(self):
        for version, link in allocators.CELLS:
            allocator = self.allocator(version, link)
            allocator.ask("message")
            self.assert_report(allocator, "J")
            self.assertGreater(len(self.stats(allocator, "--full").out), 1000)
            self.assert_well(allocator)

    def test_target_is_as_it_was(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version)
                for words in ((), ("--json",), ("--full",)):
                    self.stats(allocator, *words)
                before = lib.snapshot(allocator.pid)
                for words in ((), ("--json",), ("--full",), ("--prometheus",)):
                    self.stats(allocator, *words)
                self.assertEqual(lib.snapshot_differences(allocator.pid, before), [])
                self.assert_well(allocator)

    def test_gauges(self):
        for version, link in allocators.CELLS:
            allocator = self.allocator(version, link)
            allocator.ask("work 5000")
            metrics = self.metrics(allocator)
            own = json.loads(allocator.own_stats("J"))["jemalloc"]["stats"]
            for name in ("stats_allocated", "active", "metadata", "resident", "mapped", "retained"):
                counted = own[name.replace("stats_", "")]
                self.assertLess(abs(metrics[name] - counted), 1 << 20, name)
            parts = ("in_use", "sampling", "slabs", "padding", "free_pages", "retained_resident",
                     "own_data", "outside")
            self.assertEqual(sum(metrics[name] for name in parts), metrics["process_resident"])
            self.assertLessEqual(sum(metrics[name] for name in parts[:4]), metrics["active"])
            self.assertEqual(metrics["allocated"], metrics["in_use"])
            self.assertLess(abs(metrics["process_resident"] - resident(allocator.pid)), 1 << 20)
            self.assert_well(allocator)

    def metrics(self, allocator):
        text = self.stats(allocator, "--prometheus").text
        found = re.findall(r"^jemalloc_(\w+)_bytes\{[^}]*\} (-?\d+)$", text, re.M)
        self.assertEqual(len(found) * 3, len(text.splitlines()))
        return {name: int(value) for name, value in found}

    def test_table(self):
        allocator = self.allocator("5.3.0")
        text = self.stats(allocator).text
        self.assertRegex(text, r"\A\S+\[%d\] uses \S+ MiB: \S+ [KM]iB \(\d+ %%\) in use, \S+ [KM]iB "
                         r"\(\d+ %%\) [a-z ]+ \(exact\); jemalloc 5\.3\.0\n" % allocator.pid)
        for row in ("in use", "slabs", "own data", "outside", "RSS", "absent", "stats.active",
                    "stats.resident", "stats.mapped", "stats.retained"):
            self.assertRegex(text, r"(?m)^  %s +-?[\d.]+ [KMGT]?i?B " % row)
        self.assertRegex(text, r"(?m)^  RSS +(\d.*?B) 100\.0 %  .*smaps_rollup")
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()[1:]), text)
        shares = re.findall(r"(?m)^  (?!RSS)\S.*? ([\d.]+) %  ", text)
        self.assertAlmostEqual(sum(map(float, shares)), 100, delta=1)

    def test_with_background_threads(self):
        conf = allocators.CONF + ",background_thread:true"
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version, conf=conf)
                self.assertIn("in use", self.stats(allocator).text)
                self.assertIn(b'"background_thread": true'[:19], self.report(allocator).out)
                self.assert_well(allocator)

    def test_without_profiling(self):
        for version, conf in (("5.2.1", ""), ("5.3.0", "prof:false"), ("5.3.1", "")):
            with self.subTest(version=version):
                allocator = self.allocator(version, conf=conf)
                self.assertIn("in use", self.stats(allocator).text)
                self.assert_report(allocator, "J")
                self.assert_well(allocator)

    def test_under_a_filter(self):
        """No executable memory: the report is intercepted on its way to file descriptor 2."""
        victim = self.victim(arguments=("--filter", "errno"))
        report = self.assert_ran(lib.run_tool("stats", "--full", "--json", victim.pid))
        self.assertIn("jemalloc", json.loads(report.text))
        self.assertIn("RSS", self.assert_ran(lib.run_tool("stats", victim.pid)).text)
        self.assert_unharmed(victim)

    def test_writes_of_others_go_where_they_went(self):
        """Another thread writes to file descriptor 2 all the time: no line is taken or lost, also
        if the report itself is intercepted on its way there (--filter)."""
        for words in (("--chatty",), ("--chatty", "--filter")):
            with self.subTest(words=words):
                allocator = self.allocator("5.3.0", words=words)
                for form in (("--full", "--json"), ("--full",)) * 10:
                    self.assertGreater(len(self.stats(allocator, *form, "-q").out), 10000)
                allocator.stop()
                lines = allocator.said().split("\n")[:-1]
                self.assertEqual(lines, [str(i) for i in range(len(lines))])
                self.assertGreater(len(lines), 100)

    def test_many_pieces_under_a_filter(self):
        """Thousands of stops only with the option that allows them; 5.3 needs few."""
        for version, slow in (("5.2.1", True), ("5.3.0", False), ("5.3.1", False)):
            with self.subTest(version=version):
                words = ("--threads", 1, "--filter")
                allocator = self.allocator(version, words=words)
                if slow:
                    result = lib.run_tool("stats", "--full", "--json", allocator.pid)
                    self.assert_failed(result, lib.REFUSED, "pieces", version)
                    self.assertIn("RSS", self.stats(allocator).text)
                # Each stop waits for a CPU if there are too few.
                report = self.assert_ran(lib.run_tool(
                    "stats", allocator.pid, "--full", "--json", "--allow=slow", "--timeout", "160s",
                    timeout=170))
                self.assertIn("jemalloc", json.loads(report.text))
                self.assert_well(allocator)

    def test_message_under_a_filter(self):
        """There the program's own function would be called: refused, and the gauges still work."""
        for link in allocators.LINKS:
            with self.subTest(link=link):
                allocator = self.allocator("5.3.0", link, words=("--filter",))
                self.report(allocator)
                allocator.ask("message")
                for form in (("--full", "--json"), ("--full",)):
                    result = lib.run_tool("stats", allocator.pid, *form)
                    self.assert_failed(result, lib.REFUSED, "malloc_message")
                self.assertIn("RSS", self.stats(allocator).text)
                self.assert_well(allocator)

    def several(self, *words):
        """The metrics of processes with different versions, which have different metrics."""
        pids = [self.allocator(version).pid for version in allocators.VERSIONS]
        self.assert_ran(lib.run_tool("stats", *pids))
        result = self.assert_ran(lib.run_tool("stats", "--prometheus", *words, *pids, pids[0]))
        return pids, result

    def test_several_processes(self):
        """One group of lines for each metric, and one sample of each process in it."""
        for words in ((), ("--no-call",), ("--parallel", "1")):
            with self.subTest(words=words):
                pids, result = self.several(*words)
                groups = exposition(result.text)
                self.assertGreater(len(groups), 10)
                for name, found in groups.items():
                    self.assertEqual(found, [pid for pid in pids if pid in found], name)
                self.assertEqual(groups["jemalloc_process_resident_bytes"], pids)
                self.assertIn("%d done" % len(pids), result.err)

    def test_several_of_which_some_fail(self):
        allocator, plain = self.allocator("5.3.0"), self.process(["sleep", "1000"])
        self.assertTrue(lib.wait_until(
            lambda: "sleep" in lib.read_text("/proc/%d/maps" % plain.pid)))
        result = lib.run_tool("stats", "--prometheus", plain.pid, allocator.pid)
        self.assertEqual(result.code, lib.NO_JEMALLOC, result)
        for found in exposition(result.text).values():
            self.assertEqual(found, [allocator.pid])

    def test_promtool(self):
        tool = promtool()
        allocator = self.allocator("5.3.0")
        for text in (self.stats(allocator, "--prometheus").out, self.several()[1].out):
            done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

    def test_forms_exclude_each_other(self):
        for words in (("--json", "--prometheus"), ("--full", "--prometheus"), ("--full", "--no-call")):
            self.assert_failed(lib.run_tool("stats", os.getpid(), *words), lib.USAGE)


def exposition(text):
    """Metric -> pids of its samples. Each metric has one HELP, one TYPE and then all its samples
    (https://prometheus.io/docs/instrumenting/exposition_formats)."""
    groups, name = {}, None
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        if line.startswith("# HELP "):
            name = re.fullmatch(r"# HELP ([a-z_]+) \S.*", line)[1]
            assert name not in groups, "two groups of %s" % name
            groups[name] = []
            assert re.fullmatch(r"# TYPE %s (gauge|counter)" % name, lines.pop(0)), name
        else:
            sample = re.fullmatch(r'%s\{pid="(\d+)",process="[^"]*"\} -?[\d.e+]+' % name, line)
            assert sample, line
            pid = int(sample[1])
            assert pid not in groups[name], "%s of %d twice" % (name, pid)
            groups[name].append(pid)
    assert all(groups.values()), groups
    return groups


def resident(pid):
    return int(re.search(r"Rss:\s+(\d+)", lib.read_text("/proc/%d/smaps_rollup" % pid))[1]) * 1024


def promtool():
    root = releases.fetch("promtool", "bookworm", ("prometheus",))
    return os.path.join(root, "usr/bin/promtool")


if __name__ == "__main__":
    lib.main()
