"""Reports of profiles: recorded ones of each version, and of a process whose memory is known."""

import gzip
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time

import lib

FIXTURES = os.path.join(lib.ROOT, "tests", "fixtures")
VERSIONS = ("5.2.1", "5.3.0", "5.3.0-biased", "5.3.0-accum", "5.3.1")
TRUE_BYTES, TRUE_OBJECTS = 14005760, 80080  # the output of tests/fixtures/record.c
SITES = os.path.join(lib.VICTIMS, "sites")

# function: flat and cumulative bytes of sites.c; `make` is inlined.
KNOWN = {
    "make": (64000 + 655360 + 20480 + 4096, 64000 + 655360 + 20480 + 4096),
    "keep_small": (0, 64000),
    "keep_large": (0, 655360),
    "keep_deep": (0, 20480),
    "keep_in_thread": (0, 4096),
}


def fixture(version):
    return os.path.join(FIXTURES, version + ".heap")


def require(program, package):
    if not shutil.which(program):
        raise lib.unittest.SkipTest("%s is not installed (package %s)" % (program, package))


def rows(text):
    """Returns {function: (flat, cum)} of the table in bytes."""
    found = {}
    for line in text.splitlines():
        match = re.match(r" *(\d+) +[\d.]+% +[\d.]+% +(\d+) +[\d.]+% +\d+ +\d* +(\S.*)", line)
        if match:
            found[match[3]] = (int(match[1]), int(match[2]))
    return found


def graph_parts(text):
    """Returns {function: cum} and {(caller, callee): bytes} of a call graph in DOT, by the tooltips
    of jeattach and of pprof."""
    nodes, edges, names = {}, {}, {}
    for number, name, size in re.findall(
        r'^ *N(\d+) \[label=.* tooltip="(.*?) \((-?\d+)B?\)"', text, re.M
    ):
        names[number] = name
        nodes[name] = int(size)
    for start, end, size in re.findall(r'^ *N(\d+) -> N(\d+) \[label=" (-?\d+)', text, re.M):
        edges[names[start], names[end]] = int(size)
    return nodes, edges


def pprof_rows(text):
    """Returns {function: (flat, cum)} of `go tool pprof -top -unit=B`."""
    found = {}
    for line in text.splitlines():
        match = re.match(r" *(-?\d+)B? +-?[\d.]+% +-?[\d.]+% +(-?\d+)B? +-?[\d.]+%  (\S.*)", line)
        if match:
            name = match[3].replace(" (inline)", "").replace(" (partial-inline)", "")
            found[name] = (int(match[1]), int(match[2]))
    return found


class Case(lib.TestCase):
    def report(self, path, *words):
        return self.assert_ran(lib.run_tool("report", path, *words)).text

    def jeprof_total(self, path, *words):
        require("jeprof", "libjemalloc-dev")
        done = subprocess.run(
            ["jeprof", "--text", *words, path], capture_output=True, text=True, timeout=60
        )
        match = re.search(r"^Total: (\d+)", done.stdout, re.M)
        self.assertTrue(match, done)
        return int(match[1])

    def pprof(self, path, *words):
        require("go", "golang-go")
        home = self.directory()
        env = dict(os.environ, HOME=home, PPROF_TMPDIR=home, GOCACHE=home, GOFLAGS="-mod=mod")
        argv = ["go", "tool", "pprof", "-symbolize=none", "-unit=B", "-nodecount=0"]
        argv += ["-nodefraction=0", *words, path]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=env)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def sites(self):
        prefix = "prof:true,lg_prof_sample:0,prof_sys_thread_name:true,prof_prefix:"
        process = self.process(
            [SITES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=lib.tool_environment({"MALLOC_CONF": prefix + self.directory()}),
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def grow(self, process):
        process.stdin.write(b"x")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"grown\n")

    def dump(self, process, name="x.heap", *words):
        path = os.path.join(self.directory(), name)
        self.assert_ran(lib.run_tool("dump", process.pid, "-o", path, *words))
        return path

    def assert_known(self, found, scale=1):
        for name, sizes in KNOWN.items():
            self.assertEqual(found.get(name), sizes, (name, found))


class Recorded(Case):
    def totals(self, version, value):
        return self.sums(fixture(version), "--value", value)

    def sums(self, path, *words):
        text = self.report(path, "--unit", "B", *words)
        return [int(n) for n in re.search(r"^sampled: .*?(\d+) (?:in use|allocated), (\d+) objects", text, re.M).groups()]

    def test_totals_are_those_of_jeprof(self):
        for version in VERSIONS:
            with self.subTest(version):
                size, objects = self.totals(version, "inuse_space")
                words = ("/bin/true", fixture(version))
                self.assertLessEqual(
                    abs(size - self.jeprof_total(fixture(version), "--show_bytes", words[0])), 2
                )
                self.assertLessEqual(
                    abs(objects - self.jeprof_total(fixture(version), "--inuse_objects", words[0])),
                    2,
                )

    def test_samples_without_a_stack(self):
        """They count in every format, as in jeprof, which adds them to the stack before them; the
        first one it does not count."""
        path = os.path.join(self.directory(), "x.heap")
        with open(fixture("5.3.0")) as file:
            text = file.read()
        with open(path, "w") as file:
            first, second, rest = text.split("@ 0x", 2)
            empty = "@\n  t*: 3: 3000000 [0: 0]\n"
            file.write("@ 0x".join([first, second + empty, rest]))
        total = self.jeprof_total(path, "--show_bytes", "/bin/true")
        self.assertLessEqual(abs(self.sums(path)[0] - total), 2)
        folded = dict(line.rsplit(" ", 1) for line in self.report(path, "-f", "folded").splitlines())
        self.assertLessEqual(abs(sum(map(int, folded.values())) - total), len(folded))
        size = int(folded["[no stack]"])
        self.assertGreaterEqual(size, 3000000)
        self.assertIn('"[no stack]"', self.report(path, "-f", "flame"))
        self.assertIn("[no stack]", self.report(path, "-f", "dot"))
        self.assertEqual(rows(self.report(path, "--unit", "B"))["[no stack]"], (size, size))
        stacks = json.loads(self.report(path, "-f", "json"))["largest_stacks"]
        self.assertIn(["[no stack]"], [[c["function"] for c in s["calls"]] for s in stacks])
        packed = os.path.join(self.directory(), "x.pb.gz")
        self.report(path, "-o", packed)
        found = pprof_rows(self.pprof(packed, "-top"))
        self.assertEqual(found["[no stack]"], (size, size))

    def test_accumulated(self):
        size = self.totals("5.3.0-accum", "alloc_space")[0]
        jeprof = self.jeprof_total(
            fixture("5.3.0-accum"), "--show_bytes", "--alloc_space", "/bin/true"
        )
        self.assertLessEqual(abs(size - jeprof), 2)
        self.assertEqual(self.totals("5.3.0", "alloc_space")[0], 0)
        for version, told in (("5.3.0", True), ("5.3.0-accum", False)):
            text = self.report(fixture(version), "--value", "alloc_space")
            self.assertEqual("all allocations need prof_accum:true" in text, told, text)

    def test_totals_are_near_the_truth(self):
        for version in VERSIONS:
            with self.subTest(version):
                text = self.report(fixture(version), "--unit", "B")
                error = int(re.search(r"error of the sum about (\d+)", text)[1])
                size, objects = self.totals(version, "inuse_space")
                self.assertLess(error, TRUE_BYTES // 10)
                self.assertLess(abs(size - TRUE_BYTES), 1.5 * error)
                self.assertLess(abs(objects - TRUE_OBJECTS), TRUE_OBJECTS // 4)

    def test_threads_by_name(self):
        for version, names in (("5.2.1", ("1", "2")), ("5.3.1", ("even", "odd worker"))):
            with self.subTest(version):
                found = rows(self.report(fixture(version), "--unit", "B", "--by-thread"))
                for name in names:
                    half = found["[thread %s]" % name][1]
                    self.assertLess(abs(half - TRUE_BYTES // 2), TRUE_BYTES // 8)

    def test_pprof_opens_each(self):
        for version in VERSIONS:
            with self.subTest(version):
                path = os.path.join(self.directory(), "x.pb.gz")
                self.report(fixture(version), "-o", path)
                text = self.pprof(path, "-top")
                size = self.totals(version, "inuse_space")[0]
                self.assertIn("of %dB total" % size, text)

    def test_pprof_knows_threads(self):
        path = os.path.join(self.directory(), "x.pb.gz")
        self.report(fixture("5.3.1"), "--by-thread", "-o", path)
        tags = self.pprof(path, "-tags")
        self.assertIn("odd worker", tags)
        self.assertIn("even", tags)

    def test_nothing_differs_from_itself(self):
        for version in VERSIONS:
            path = fixture(version)
            with self.subTest(version):
                self.assertEqual(self.report(path, "--base", path, "-f", "folded"), "")
                text = self.report(path, "--base", path, "--rows", "0")
                self.assertEqual(len(text.splitlines()), 4, text)
                packed = os.path.join(self.directory(), "x.pb.gz")
                self.report(path, "--base", path, "-o", packed)
                samples = self.pprof(packed, "-raw").split("Samples:\n")[1].split("Locations")[0]
                self.assertEqual(len(samples.splitlines()), 1, "more than the names of the values")

    def test_json_has_what_the_table_has(self):
        for version in VERSIONS:
            for value in ("inuse_space", "inuse_objects"):
                with self.subTest(version=version, value=value):
                    words = (fixture(version), "--value", value, "--rows", "0")
                    found = json.loads(self.report(*words, "--json"))
                    table = rows(self.report(*words, "--unit", "B"))
                    functions = {
                        row["function"]: (row["flat"], row["cum"]) for row in found["functions"]
                    }
                    self.assertEqual(functions, table)
                    self.assertEqual(found["value"], value)
                    self.assertEqual(found["unit"], value.replace("inuse_", "").replace("space", "bytes"))
                    amounts = [stack["amount"] for stack in found["largest_stacks"]]
                    self.assertEqual(amounts, sorted(amounts, reverse=True))
                    self.assertEqual(sum(amounts), found["total"])
                    self.assertEqual(sum(flat for flat, _ in functions.values()), found["total"])

    def test_json_is_cut_like_the_table(self):
        path = fixture("5.3.1")
        found = json.loads(self.report(path, "--json", "--rows", "2"))
        whole = json.loads(self.report(path, "-f", "json", "--rows", "0"))
        self.assertEqual(found["functions"], whole["functions"][:2])
        self.assertEqual(found["largest_stacks"], whole["largest_stacks"][:2])
        self.assertEqual(found["total"], whole["total"])
        self.assertNotIn("total_before", whole)
        packed = os.path.join(self.directory(), "x.json")
        self.report(path, "--by-thread", "-o", packed)
        with open(packed) as file:
            threads = {stack["thread"] for stack in json.load(file)["largest_stacks"]}
        self.assertLessEqual({"even", "odd worker"}, threads)

    def test_json_compares(self):
        path = fixture("5.3.1")
        found = json.loads(self.report(path, "--base", path, "--json"))
        self.assertEqual(found["total"], found["total_before"])
        self.assertEqual(found["functions"] + found["largest_stacks"], [])
        failed = lib.run_tool("report", "--json", "/dev/null/x")
        self.assertEqual(failed.code, lib.USAGE)
        self.assertIn("/dev/null/x", json.loads(failed.text)["error"]["cause"])

    def test_raw_is_unchanged(self):
        self.assertEqual(
            lib.run_tool("report", fixture("5.3.1"), "-f", "raw").out,
            open(fixture("5.3.1"), "rb").read(),
        )

    def test_ctrl_c_ends_the_wait_for_stdin(self):
        process = self.process(
            [lib.TOOL, "report", "-"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(),
        )
        self.assertTrue(lib.wait_until(lambda: lib.state_of(process.pid) == "S"))
        time.sleep(0.1)  # from the loader's sleep, if any, to the read
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), lib.INTERRUPTED)

    def test_profile_from_stdin(self):
        with open(fixture("5.3.1"), "rb") as source:
            done = subprocess.run([lib.TOOL, "report", "-"], stdin=source, capture_output=True)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(b"\nsampled: ", done.stdout)


class Refused(Case):
    def test_words(self):
        path = fixture("5.3.1")
        for words in (
            (),
            (path, path, "--base", path),
            (path, "-f", "nonsense"),
            (path, "--focus", "("),
            (path, "--unit", "parsec"),
            (path, "--value", "x"),
            (path, "--rows", "-1"),
            (path, "--pid", "1"),
            (path, "--timeout", "1s"),
            (path, "--json", "-f", "flame"),
            (path, "--base", path, "-f", "raw"),
            (path, "--focus", "x", "-f", "symbolized"),
            (path, "--rows", "3", "-o", "/tmp/never-written.heap"),
            ("-", "--base", "-"),
        ):
            with self.subTest(words=words):
                self.assert_failed(lib.run_tool("report", *words), lib.USAGE)

    def test_other_words_for_a_format(self):
        path = fixture("5.3.1")
        for word, usual in (("html", "flame"), ("flamegraph", "flame"), ("pb", "pprof"),
                            ("pb.gz", "pprof"), ("txt", "text"), ("heap", "raw"),
                            ("collapsed", "folded")):
            with self.subTest(word=word):
                both = [self.assert_ran(lib.run_tool("report", "-q", path, "-f", form)).out
                        for form in (word, usual)]
                self.assertEqual(*both)

    def test_dump_words(self):
        """It is refused before the target is touched."""
        victim = self.victim()
        for words in (("--focus", "x"), ("-f", "x"), ("-f", "text", "--path", "/x"), ("--rows", "1")):
            with self.subTest(words=words):
                result = lib.run_tool("dump", victim.pid, *words)
                self.assert_failed(result, lib.USAGE)
                self.assertNotIn("held", result.err)
        self.assertEqual(victim.new_files(), [])
        self.assert_unharmed(victim)

    def test_files_of_a_container(self):
        """Where a mapped file is not here, the option that looks for it elsewhere is named."""
        path = os.path.join(self.directory(), "x.heap")
        with open(path, "w") as file:
            file.write("heap_v2/1\n@ 0x1234\n t*: 1: 8 [0: 0]\n\nMAPPED_LIBRARIES:\n")
            file.write("1000-2000 r-xp 00000000 08:02 1 /nonexistent/app\n")
        hint = "--root DIR of its container"
        self.assertIn(hint, self.assert_ran(lib.run_tool("report", path)).err)
        self.assertNotIn(hint, self.assert_ran(lib.run_tool("report", path, "--root", "/tmp")).err)

    def test_no_profile(self):
        self.assert_failed(lib.run_tool("report", "/nonexistent"), lib.USAGE, "No such file")
        self.assert_failed(lib.run_tool("report", "/etc/passwd"), lib.USAGE, "heap_v2")
        self.assert_failed(lib.run_tool("report", "/etc"), lib.USAGE, "Is a directory")

    def test_output_cannot_be_written(self):
        for name in ("text", "folded", "pprof", "flame", "dot", "symbolized", "raw"):
            with self.subTest(name):
                result = lib.run_tool("report", fixture("5.3.1"), "-f", name, "-o", "/dev/full")
                self.assert_failed(result, lib.OUTPUT_FAILED, "No space left")

    def test_nothing_is_left_of_a_failure(self):
        directory = self.directory()
        path = os.path.join(directory, "x.html")
        self.assert_failed(lib.run_tool("report", "/etc/passwd", "-o", path), lib.USAGE)
        self.assertEqual(os.listdir(directory), [])

    def test_binary_is_not_for_a_terminal(self):
        ours, theirs = pty.openpty()
        result = lib.run_tool("report", fixture("5.3.1"), "-f", "pprof", stdout=theirs)
        os.close(theirs)
        os.close(ours)
        self.assertEqual(result.code, lib.USAGE, result)

    def test_graph_without_graphviz(self):
        directory = self.directory()
        result = lib.run_tool(
            "report",
            fixture("5.3.1"),
            "-o",
            os.path.join(directory, "x.svg"),
            env={"PATH": directory},
        )
        self.assert_failed(result, lib.USAGE, "graphviz")
        self.assertEqual(os.listdir(directory), [])


class Known(Case):
    def test_text(self):
        process = self.sites()
        words = ("--unit", "B", "--rows", "0")
        self.assert_known(rows(self.report(self.dump(process), *words)))
        streamed = lib.run_tool("dump", process.pid, "-f", "text", *words)
        self.assert_known(rows(self.assert_ran(streamed).text))
        objects = rows(self.report(self.dump(process), "--value", "inuse_objects", "--rows", "0"))
        self.assertEqual(objects["keep_small"], (0, 1000))

    def test_pprof_agrees(self):
        path = self.dump(self.sites())
        packed = path + ".pb.gz"
        self.report(path, "-o", packed)
        ours = rows(self.report(path, "--unit", "B", "--rows", "0", "--no-fold"))
        theirs = pprof_rows(self.pprof(packed, "-top"))
        self.assert_known(theirs)
        for name in ours.keys() & theirs.keys():
            self.assertEqual(ours[name], theirs[name], name)
        self.assertGreater(len(ours.keys() & theirs.keys()), 6)

    def test_filters_agree_with_pprof(self):
        path = self.dump(self.sites())
        packed = path + ".pb.gz"
        self.report(path, "-o", packed)
        for option, regex in (
            ("focus", "keep_deep|keep_large"),
            ("ignore", "keep_l"),
            ("hide", "^make$"),
            ("show", "keep_|sites"),
            ("focus", "sites\\.c"),
            ("hide", "libc"),
        ):
            with self.subTest(option=option, regex=regex):
                words = ("--unit", "B", "--rows", "0", "--no-fold", "--" + option, regex)
                ours = rows(self.report(path, *words))
                theirs = pprof_rows(self.pprof(packed, "-top", "-%s=%s" % (option, regex)))
                named = {name for name in ours if "+0x" not in name}
                self.assertTrue(named)
                self.assertEqual(named, {name for name in theirs if name in named})
                for name in named:
                    self.assertEqual(ours[name], theirs[name], name)

    def test_pprof_has_lines_and_build_ids(self):
        process = self.sites()
        packed, profile = self.dump(process, "x.pb.gz"), open(self.dump(process)).read()
        raw = self.pprof(packed, "-raw")
        returns = set(re.findall(r"0x[0-9a-f]+", profile.split("MAPPED_LIBRARIES")[0]))
        calls = re.findall(r"(?m)^ +\d+: (0x[0-9a-f]+) M=", raw)
        self.assertGreater(len(calls), 5)
        for call in calls:
            self.assertIn("0x%x" % (int(call, 16) + 1), returns)
        source = open(os.path.join(lib.ROOT, "tests", "victims", "sites.c")).read().splitlines()
        line = 1 + next(i for i, text in enumerate(source) if "malloc(size)" in text)
        self.assertRegex(raw, r"make \S*sites\.c:%d\b" % line)
        self.assertRegex(raw, r"0x[0-9a-f]+/0x[0-9a-f]+/0x[0-9a-f]+ \S*sites [0-9a-f]{40} \[FN")
        gzip.open(packed).read()

    def test_threads(self):
        text = self.report(self.dump(self.sites()), "--by-thread", "-f", "folded")
        self.assertRegex(text, r"(?m)^\[thread site worker\];.*;keep_in_thread;make 4096$")

    def test_growth_across_runs(self):
        """Addresses of a PIE change: only names can be compared."""
        base, process = self.dump(self.sites()), self.sites()
        self.grow(process)
        path = self.dump(process)
        text = self.report(path, "--base", base, "-f", "folded")
        grown = [line for line in text.splitlines() if ";keep_small;" in line]
        self.assertEqual(len(grown), 1, text)
        self.assertRegex(grown[0], r";main;keep_small;make 64000 128000$")
        self.assertNotIn("keep_large", text)
        packed = path + ".pb.gz"
        self.report(path, "--base", base, "-o", packed)
        self.assertEqual(pprof_rows(self.pprof(packed, "-top"))["keep_small"], (0, 64000))
        table = self.report(path, "--base", base, "--unit", "B")
        self.assertRegex(table, r"(?m)^ *\+64000 .* make$")

    def test_symbolized_for_jeprof(self):
        require("jeprof", "libjemalloc-dev")
        path = self.dump(self.sites(), "x.symbolized")
        done = subprocess.run(
            ["jeprof", "--text", "--show_bytes", path], capture_output=True, text=True, timeout=60
        )
        found = {}
        for line in done.stdout.splitlines():
            words = line.split()
            if len(words) >= 6:
                found[words[5]] = (int(words[0]), int(words[3]))
        self.assertEqual(found.get("keep_large"), KNOWN["keep_large"], done.stdout)
        self.assertEqual(found.get("make"), KNOWN["make"], done.stdout)

    def test_graph(self):
        process = self.sites()
        dot = open(self.dump(process, "x.dot")).read()
        self.assertRegex(dot, r'label="keep_large\\n0 B')
        self.assertRegex(dot, r"N\d+ -> N\d+ \[label=\" 640 KiB\"")
        require("dot", "graphviz")
        svg = open(self.dump(process, "x.svg")).read()
        self.assertIn("keep_large", svg)
        self.assertIn("</svg>", svg)

    def test_graph_is_that_of_pprof(self):
        """The same functions, the same calls between them, and the numbers of the table."""
        path = self.dump(self.sites(), "x.heap")
        packed = os.path.join(os.path.dirname(path), "x.pb.gz")
        named = ("--hide", "[+]0x", "--unit", "B", "--no-fold")
        self.report(path, *named, "-o", packed)
        theirs = graph_parts(self.pprof(packed, "-dot", "-tagshow=none", "-edgefraction=0"))
        ours = graph_parts(self.report(path, *named, "-f", "dot", "--rows", "0", "--full-names"))
        self.assertEqual(ours, theirs)
        self.assertGreater(len(ours[1]), 3)
        table = rows(self.report(path, *named, "--rows", "0", "--full-names"))
        self.assertEqual(ours[0], {name: table[name][1] for name in ours[0]})

    def test_graph_that_dot_cannot_draw(self):
        directory = self.directory()
        dot = os.path.join(directory, "dot")
        with open(dot, "w", encoding="ascii") as script:
            script.write("#!/bin/sh\nexit 1\n")
        os.chmod(dot, 0o755)
        out = os.path.join(directory, "x.svg")
        env = dict(os.environ, PATH=directory + ":" + os.environ["PATH"])
        result = lib.run_tool("report", fixture("5.3.0"), "-o", out, env=env)
        self.assert_failed(result, 9, "dot could not draw the graph")
        self.assertIn("--rows", result.err)
        self.assertFalse(os.path.exists(out))

    def test_binary_that_was_replaced(self):
        """The names come from the mapped file, not from the file that now has its name."""
        directory = self.directory()
        copy = os.path.join(directory, "sites")
        shutil.copy(SITES, copy)
        process = self.process(
            [copy],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=lib.tool_environment({"MALLOC_CONF": "prof:true,lg_prof_sample:0"}),
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        os.unlink(copy)
        shutil.copy("/bin/true", copy)
        later = self.report(self.dump(process), "--rows", "0")
        self.assertIn("sites+0x", later)
        self.assertNotRegex(later, r"(?m)  (keep_large|_start)$")
        result = lib.run_tool("dump", process.pid, "-f", "text", "--unit", "B", "--rows", "0")
        if result.text.count("sites+0x"):
            raise lib.unittest.SkipTest("map_files cannot be opened here (CAP_SYS_ADMIN)")
        self.assert_known(rows(self.assert_ran(result).text))


if __name__ == "__main__":
    lib.main()
