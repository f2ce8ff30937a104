"""Programs with a known leak: the first screen of report, leak and top names the function."""

import json
import os
import shutil
import subprocess
import sysconfig

import lib

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeded")
SCREEN_LINES, SCREEN_COLUMNS = 24, 80
LEAK_SECONDS = "3s"


def build(argv, **options):
    made = subprocess.run(argv, stderr=subprocess.PIPE, text=True, **options)
    if made.returncode != 0:
        raise AssertionError("%s: %s" % (argv[0], made.stderr))


def screen(text):
    """Returns what a terminal of 80 by 24 shows at first."""
    return "\n".join(line[:SCREEN_COLUMNS] for line in text.splitlines()[:SCREEN_LINES])


class Seeded(lib.TestCase):
    def start_seeded(self, argv, **env):
        place = self.directory()
        conf = "prof:true,prof_active:true,lg_prof_sample:14,prof_prefix:%s/own" % place
        process = self.process(
            argv,
            env=lib.tool_environment(
                dict(env, LD_PRELOAD="libjemalloc.so.2", MALLOC_CONF=conf),
            ),
            cwd=place,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def compile_c(self, source, *options):
        program = os.path.join(self.directory(), "program")
        build(["gcc", "-g", "-O2", *options, os.path.join(SOURCES, source), "-o", program])
        return program

    def screen_of(self, *words):
        environment = lib.tool_environment({"COLUMNS": str(SCREEN_COLUMNS)})
        return screen(self.assert_ran(lib.run_tool(*words, env=environment)).text)

    def assert_named(self, process, function, first_in_use=True):
        """The function is in each first screen, and the first row of what grows."""
        told = json.loads(
            self.assert_ran(lib.run_tool("leak", "-d", LEAK_SECONDS, "--json", process.pid)).out
        )
        first = [call["function"] for call in told["rows"][0]["stack"]]
        self.assertTrue([name for name in first if function in name], first)
        self.assertIn(function, told["answer"])
        self.assertIn(function, self.screen_of("leak", "-d", LEAK_SECONDS, process.pid))
        top = self.screen_of("top", "--count", "2", "--every", "1s", "--sort", "growth", process.pid)
        self.assertIn(function, top)
        if first_in_use:
            profile = os.path.join(self.directory(), "x.heap")
            self.assert_ran(lib.run_tool("dump", "-o", profile, process.pid))
            self.assertIn(function, self.screen_of("report", profile))
        self.assertIsNone(process.poll())

    def test_c(self):
        self.assert_named(self.start_seeded([self.compile_c("leak.c")]), "session_new")

    def test_started_by_a_link(self):
        """As Debian's redis-server is one to redis-check-rdb: it is called as ps calls it."""
        program = self.compile_c("leak.c", "-s")
        link = os.path.join(os.path.dirname(program), "server")
        os.symlink("program", link)
        process = self.start_seeded([link])
        stacks = self.assert_ran(lib.run_tool("dump", process.pid, "-f", "folded")).text
        self.assertIn(";server+0x", stacks)
        self.assertNotIn("program+0x", stacks)
        told = self.assert_ran(lib.run_tool("dump", process.pid, "-f", "text")).err
        self.assertRegex(told, r"(?m)^jeattach: server: \d+ of \d+ addresses ha\w+ no name")

    def test_wrappers_and_a_common_caller(self):
        """The first line names what asked for the memory, and what all of them are below."""
        process = self.start_seeded([self.compile_c("wrapped.c", "-O0")])
        told = self.assert_ran(lib.run_tool("leak", process.pid, "-d", "4s", "--json")).out
        answer = json.loads(told)["answer"]
        self.assertRegex(answer, r"(tree_copy|plan_make) \(wrapped\.c:\d+\) <- query_prepare")
        self.assertRegex(answer, r"; (9\d|100) % below query_prepare")
        self.assertNotIn("alloc", answer)

    def test_debug_file_that_only_the_target_sees(self):
        """In a mount namespace of its own, as in a container."""
        lib.require_root()
        place = self.directory()
        program = self.compile_c("leak.c")
        debug = program + ".debug"
        build(["objcopy", "--only-keep-debug", program, debug])
        build(["objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, program])
        start = 'mount -t tmpfs none "$1" && cp "$2" "$3" "$1" && exec "$1"/program'
        process = self.start_seeded(
            ["unshare", "-m", "sh", "-c", start, "sh", place, program, debug]
        )
        self.assertEqual(os.listdir(place), [])
        for verb in (("dump", "-f", "text"), ("top", "--once")):
            self.assertIn("cache_fill", self.screen_of(*verb, process.pid))

    def test_go_with_cgo(self):
        if not shutil.which("go"):
            self.skipTest("go is not installed (package golang-go)")
        place = self.directory()
        program = os.path.join(place, "program")
        environment = dict(os.environ, GOCACHE=os.path.join(place, "cache"), GO111MODULE="off")
        build(["go", "build", "-o", program, os.path.join(SOURCES, "leak.go")], env=environment)
        self.assert_named(self.start_seeded([program]), "tile_decode")

    def test_python_with_an_extension(self):
        headers = sysconfig.get_path("include")
        if not os.path.exists(os.path.join(headers, "Python.h")):
            self.skipTest("Python.h is not installed (package python3-dev)")
        place = self.directory()
        module = os.path.join(place, "records.so")
        source = os.path.join(SOURCES, "records.c")
        build(["gcc", "-g", "-O2", "-fPIC", "-shared", "-I", headers, source, "-o", module])
        program = self.start_seeded(
            ["/usr/bin/python3", os.path.join(SOURCES, "leak.py")], PYTHONPATH=place
        )
        self.assert_named(program, "record_copy")


if __name__ == "__main__":
    lib.main()
