"""How ./test counts a test that fails: tests/results.sh with a few small tests."""

import glob
import json
import os
import re
import shutil
import subprocess
import textwrap

import lib

# Each counts its runs. ctest runs such a file without cmake.
SUITE = """\
add_test(steady sh run steady 0 0)
add_test(un.steady-1 sh run un.steady-1 1 0)
add_test(unxsteady-1 sh run unxsteady-1 0 0)
add_test(broken sh run broken 1 1)
add_test(harm_once sh run harm_once 1 0)
add_test(harm_two sh run harm_two 1 0)
add_test(harmless sh run harmless 1 0)
add_test(absent sh run absent 77 77)
add_test(absent_later sh run absent_later 1 77)
add_test(hangs sh run hangs hang 0)
set_tests_properties(harm_once PROPERTIES LABELS harm)
set_tests_properties(harm_two PROPERTIES LABELS "kill;harm")
set_tests_properties(harmless PROPERTIES LABELS "harmless")
set_tests_properties(absent absent_later PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(hangs PROPERTIES TIMEOUT 2)
"""
RUN = """\
echo x >> runs.$1
echo "SKIP: not here"
echo "run $(wc -l < runs.$1) of $1"
first=$2 second=$3
[ "$(wc -l < runs.$1)" -eq 1 ] && code=$first || code=$second
[ "$code" = hang ] && exec sleep 60
exit $code
"""
WANTED = {
    "steady": ("passed", 1),
    "un.steady-1": ("unsteady", 2),
    "unxsteady-1": ("passed", 1),
    "broken": ("failed", 2),
    "harm_once": ("failed", 1),
    "harm_two": ("failed", 1),
    "harmless": ("unsteady", 2),
    "absent": ("skipped", 1),
    "absent_later": ("failed", 2),
    "hangs": ("unsteady", 2),
}
# The names of the tests that look for harm.
HARM = r"(kill|storm|safety|containers|vm)\.|e2e\.(interrupt|modes|redis|hostile\w*)\."


class Unsteady(lib.TestCase):
    def suite(self, text):
        self.path = self.directory()
        for name, content in (("CTestTestfile.cmake", text), ("run", RUN)):
            with open(os.path.join(self.path, name), "w") as file:
                file.write(content)
        os.mkdir(os.path.join(self.path, "alone"))
        self.logs = self.directory()

    def run_suite(self, *arguments):
        """Runs the suite like ./test. Returns its exit code and its lines of output."""
        script = """
            logs=$1 results=$1/results jobs=4 sudo=
            : > "$results"
            . tests/results.sh
            run_tests fake "$2" "${@:3}"
            echo ----
            summary
        """
        done = subprocess.run(
            ["bash", "-uc", textwrap.dedent(script), "bash", self.logs, self.path] + list(arguments),
            cwd=lib.ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def results(self):
        lines = lib.read_text(os.path.join(self.logs, "results")).splitlines()
        rows = [line.split("\t") for line in lines]
        self.assertEqual(len(rows), len({name for _, name, _ in rows}), rows)
        return {name: (result, reason) for result, name, reason in rows}

    def runs(self, name):
        return lib.read_text(os.path.join(self.path, "runs." + name)).count("x")

    def test_each_kind(self):
        self.suite(SUITE)
        code, lines = self.run_suite()
        results = self.results()
        got = {name[len("fake: "):]: result for name, (result, _) in results.items()}
        self.assertEqual({name: (got[name], self.runs(name)) for name in got}, WANTED)
        self.assertEqual(code, 1, lines)
        end = lines[lines.index("----") + 1:]
        self.assertEqual(end[-1], "5 passed, 4 failed, 1 skipped")
        self.assertEqual(end[-2], "3 unsteady, counted as passed")
        self.assertEqual(sum(line.startswith("unsteady: fake: ") for line in end), 3, end)
        self.assertIn("failed: fake: harm_once", end)
        self.assertIn("skipped: fake: absent: not here", end)

    def test_both_outputs_are_kept(self):
        self.suite(SUITE)
        self.run_suite()
        first = lib.read_text(os.path.join(self.logs, "fake-tests.log"))
        second = lib.read_text(os.path.join(self.logs, "fake-again-tests.log"))
        self.assertIn("run 1 of un.steady-1", first)
        self.assertIn("run 1 of harm_once", first)
        self.assertIn("run 2 of broken", second)
        self.assertNotIn("harm_once", second)

    def test_unsteady_alone_is_no_failure(self):
        self.suite("add_test(once sh run once 1 0)\nadd_test(good sh run good 0 0)\n")
        code, lines = self.run_suite()
        self.assertEqual((code, lines[-1]), (0, "2 passed, 0 failed, 0 skipped"))
        self.assertTrue(lines[-3].startswith("unsteady: fake: once: "), lines)

    def test_one_at_a_time(self):
        """Repeated tests run alone: none runs beside another."""
        run = "mkdir alone/$1; sleep 0.3; ls alone | wc -l >> beside.$1; rmdir alone/$1\n" \
            "echo x >> runs.$1\ntest $(wc -l < runs.$1) -eq 2\n"
        names = ["a", "b", "c", "d"]
        self.suite("".join("add_test(%s sh run %s)\n" % (name, name) for name in names))
        with open(os.path.join(self.path, "run"), "w") as file:
            file.write(run)
        code, lines = self.run_suite()
        self.assertEqual((code, lines[-1]), (0, "4 passed, 0 failed, 0 skipped"))
        for name in names:
            text = lib.read_text(os.path.join(self.path, "beside." + name))
            self.assertEqual(text.split()[1], "1", name)

    def test_all_good_repeats_nothing(self):
        """Logs of an earlier run in that folder are not used."""
        self.suite("add_test(once sh run once 1 0)\n")
        self.run_suite()
        os.unlink(os.path.join(self.path, "runs.once"))
        with open(os.path.join(self.path, "CTestTestfile.cmake"), "w") as file:
            file.write("add_test(once sh run once 0 1)\n")
        code, lines = self.run_suite()
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.results()["fake: once"][0], "passed")
        self.assertFalse(os.path.exists(os.path.join(self.logs, "fake-again.xml")))

    def test_labels_of_this_build(self):
        """Every test of those families has the label that results.sh looks for, and others have
        not."""
        build, copy = os.path.dirname(lib.TOOL), self.directory()
        # In the build itself it would restart the log of the ctest that runs this test.
        for path in glob.glob(os.path.join(build, "**", "CTestTestfile.cmake"), recursive=True):
            target = os.path.join(copy, os.path.relpath(path, build))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(path, target)
        done = subprocess.run(["ctest", "--test-dir", copy, "--show-only=json-v1"],
                              capture_output=True, check=True)
        labels = {test["name"]: [label for entry in test["properties"] if entry["name"] == "LABELS"
                                 for label in entry["value"]]
                  for test in json.loads(done.stdout)["tests"]}
        wanted = sorted(name for name in labels if re.match(HARM, name))
        self.assertGreater(len(wanted), 100)
        self.assertEqual([name for name in wanted if "harm" not in labels[name]], [])
        self.assertNotIn("harm", labels["e2e.verbs.on_off"])

    def test_nothing_ran(self):
        self.suite("add_test(once sh run once 0 0)\n")
        code, lines = self.run_suite("-R", "no such test")
        self.assertEqual(code, 1, lines)
        self.path = os.path.join(self.path, "absent")
        code, lines = self.run_suite()
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    lib.main()
