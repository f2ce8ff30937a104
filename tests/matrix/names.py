#!/usr/bin/env python3
"""The verbs that use ctl names, on each release, shared and linked in, in each state.

    names.py [CELL...]     runs these cells, default: all
    names.py --list        prints the cells

For every state of profiling at start: the exit code and the message are right, no state of jemalloc
is reported as an errno, and the process continues.
"""

import json
import os
import re
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib  # noqa: E402
import subjects  # noqa: E402

STATES = {
    "inactive": "prof:true,prof_active:false,lg_prof_sample:10",
    "off": "prof:false",
    "every-allocation": "prof:true,lg_prof_sample:0",
    "seldom": "prof:true,lg_prof_sample:19",
    "background": "prof:true,prof_active:false,lg_prof_sample:10,background_thread:true",
}
KINDS = ("shared", "prefixed")
PREFIX = "_rjem_"
ERRNO_TEXTS = r"No such file|Invalid argument|Bad address|Operation not permitted|E(NOENT|FAULT|INVAL|PERM)"


def names_in(release, names):
    """Returns those of the names, given with their first release, that this release has."""
    number = tuple(map(int, release.split(".")))
    return [name for name, first in names.items() if tuple(map(int, first.split("."))) <= number]


class Releases(lib.TestCase):
    def start(self, release, kind, conf, libraries=None):
        self.directory_of_target = self.directory()
        counter = os.path.join(self.directory_of_target, "counter")
        with open(counter, "wb") as file:
            file.write(bytes(8))
        argv = self.command(release, kind) + [counter]
        variables = {"MALLOC_CONF": conf, "_RJEM_MALLOC_CONF": conf}
        if libraries:
            variables["LD_LIBRARY_PATH"] = libraries
        process = self.process(
            argv,
            env=lib.tool_environment(variables),
            cwd=self.directory_of_target,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.counter = counter
        self.assertTrue(lib.wait_until(lambda: self.rounds() > 50), "it does not start")
        return process.pid

    def command(self, release, kind):
        if kind == "prefixed":
            return [subjects.linked_in(release, PREFIX, "static-pie", False)]
        program = subjects.linked_shared(release)
        if release != "5.3.1":
            return [program]
        loader, path = subjects.sid_loader()
        return [loader, "--library-path", path, program]

    def rounds(self):
        with open(self.counter, "rb") as file:
            return struct.unpack("<Q", file.read(8))[0]

    def assert_works(self, pid):
        before = self.rounds()
        self.assertTrue(lib.wait_until(lambda: self.rounds() > before + 2), "it stands still")
        self.assertEqual(lib.tracer_of(pid), 0, "still traced")

    def tool(self, *words):
        return lib.run_tool(*words, "-q")

    def told(self, *words):
        return json.loads(self.assert_ran(self.tool(*words, "--json")).text)

    def value(self, pid, name):
        return self.told("mallctl", pid, name)["values"][name]

    def assert_worded(self, result, code, *words):
        self.assert_failed(result, code, *words)
        self.assertNotRegex(result.err, ERRNO_TEXTS)

    # ---- checks for every state ----

    def check_reads(self, release, pid):
        told = self.told("mallctl", pid, "--list", "*")
        self.assertTrue(told["version"].startswith(release + "-"), told["version"])
        wanted = {"opt.prof": "4.0.0", "opt.retain": "5.0.0", "opt.confirm_conf": "5.2.1",
                  "opt.trust_madvise": "5.3.0", "approximate_stats.active": "5.3.1",
                  "stats.retained": "4.2.0", "thread.arena": "4.0.0"}
        names = names_in(release, wanted)
        self.assertEqual([name for name in wanted if name in told["values"]], names)
        if release == "5.3.1":
            self.assertEqual(self.value(pid, "arena.0.name"), "auto_0")
            told = self.told("mallctl", pid, "arena.0.name=mine")
            self.assertEqual(told["old"], {"arena.0.name": "auto_0"})
            self.assertEqual(told["values"], {"arena.0.name": "mine"})
            long = self.tool("mallctl", pid, "arena.0.name=" + "x" * 40)
            self.assertEqual(long.code, lib.REFUSED, long)
            self.assertIn('reads back "xxx', long.err)
        else:
            self.assert_worded(self.tool("mallctl", pid, "arena.0.name"), lib.USAGE, "5.3.1 on")

    def check_each_by_itself(self, pid):
        """Every name has the type of this build; with another, mallctl returns EINVAL."""
        listed = self.told("mallctl", pid, "--list", "*")["values"]
        named = [name for name in listed if name not in ("epoch",)]
        for start in range(0, len(named), 20):
            some = self.told("mallctl", pid, *named[start : start + 20])["values"]
            self.assertEqual(set(some), set(named[start : start + 20]))

    def check_writes(self, pid):
        told = self.told("mallctl", pid, "arena.0.dirty_decay_ms=-1", "arena.0.decay")
        self.assertEqual(told["old"], {"arena.0.dirty_decay_ms": 10000})
        self.assertEqual(told["values"], {"arena.0.dirty_decay_ms": -1})
        self.assertEqual(self.value(pid, "arena.0.dirty_decay_ms"), -1)

    def check_refusals(self, pid):
        for word in ("arena.0.reset", "background_thread=true", "arena.4096.muzzy_decay_ms",
                     "thread.tcache.flush", "arena.0.extent_hooks=0", "prof.dump=/tmp/x"):
            self.assert_worded(self.tool("mallctl", pid, word), lib.REFUSED, word.split("=")[0])

    def check_purge(self, pid):
        told = self.told("purge", pid)
        for name in ("resident_before", "resident_after", "rss_before", "rss_after"):
            self.assertGreater(told[name], 1 << 16)

    # ---- with profiling ----

    def check_reset(self, pid, lg_sample):
        self.assertEqual(self.told("mallctl", pid, "prof.reset=13")["done"], {"prof.reset": True})
        self.assertEqual(self.value(pid, "prof.lg_sample"), 13)
        self.assert_ran(self.tool("mallctl", pid, "prof.reset=%d" % lg_sample))

    def check_active(self, release, pid):
        before = self.value(pid, "prof.active")
        for value in (not before, before):
            word = "prof.active=%s" % str(value).lower()
            noted = "jeattach on" in self.assert_ran(self.tool("mallctl", pid, word)).err
            self.assertEqual(noted, release == "5.2.1")
            told = self.told("mallctl", pid, word)
            self.assertEqual(told["values"], {"prof.active": value})
        self.assertIs(self.value(pid, "thread.prof.active"), True)

    def check_dump(self, pid, lg_sample):
        directory = self.directory_of_target
        generated = self.assert_ran(self.tool("dump", pid)).text.rstrip("\n")
        self.assertRegex(generated, r"^%s/jeprof\.%d\.\d+\.m\d+\.heap$" % (directory, pid))
        named = self.assert_ran(self.tool("dump", pid, "--path", "named.heap")).text.rstrip("\n")
        self.assertEqual(named, directory + "/named.heap")
        streamed = self.assert_ran(self.tool("dump", "--call", pid, "-o", "-")).out
        for data in [read(generated), read(named), streamed]:
            self.assertTrue(data.startswith(b"heap_v2/%d\n" % (1 << lg_sample)), data[:40])
            self.assertIn(b"\nMAPPED_LIBRARIES:\n", data)
        self.check_failing_dumps(pid)

    def check_failing_dumps(self, pid):
        for path, words in {
            "/nosuchdir/x.heap": ("/nosuchdir/x.heap", "ENOENT"),
            self.directory_of_target: ("EISDIR",),
            "/dev/full": ("/dev/full", "ENOSPC"),
            "/tmp/" + "x" * 300: ("ENAMETOOLONG",),
            "/tmp/" + "y/" * 2100: ("/tmp/y/y", "ENAMETOOLONG"),
        }.items():
            self.assert_failed(self.tool("dump", pid, "--path", path), lib.REFUSED, *words)

    def check_profiling(self, release, pid, conf):
        lg_sample = int(re.search(r"lg_prof_sample:(\d+)", conf)[1])
        self.check_active(release, pid)
        self.check_reset(pid, lg_sample)
        self.check_dump(pid, lg_sample)

    # ---- without ----

    def check_no_profiling(self, release, pid):
        for words in (("dump",), ("dump", "--call", "-o", "-"), ("mallctl", "prof.active=true"),
                      ("mallctl", "prof.active=false"), ("mallctl", "prof.reset"),
                      ("mallctl", "prof.gdump=false")):
            result = self.tool(words[0], pid, *words[1:])
            self.assert_worded(result, lib.PROFILING_OFF, "opt.prof is false", "prof:true")
        crashing = self.tool("mallctl", pid, "thread.prof.active")
        if release == "5.2.1":
            self.assert_worded(crashing, lib.REFUSED, "would crash the process")
        else:
            self.assert_ran(crashing)

    # ---- the cells ----

    def check_state(self, release, kind, state):
        conf = STATES[state]
        pid = self.start(release, kind, conf)
        self.check_reads(release, pid)
        self.check_each_by_itself(pid)
        self.check_writes(pid)
        self.check_refusals(pid)
        self.check_purge(pid)
        if state == "off":
            self.check_no_profiling(release, pid)
        else:
            self.check_profiling(release, pid, conf)
        self.assert_works(pid)

    def check_names_of_dumps(self, release, kind):
        pid = self.start(release, kind, "prof:true,lg_prof_sample:10,prof_prefix:")
        self.assert_worded(self.tool("dump", pid), lib.REFUSED, "opt.prof_prefix", "--path")
        self.assert_ran(self.tool("dump", pid, "--path", "x.heap"))
        self.assert_ran(self.tool("dump", "--call", pid, "-o", "-"))
        if release != "5.2.1":
            self.assert_ran(self.tool("mallctl", pid, "prof.prefix=renamed"))
            path = self.assert_ran(self.tool("dump", pid)).text
            self.assertRegex(path, r"/renamed\.%d\.\d+\.m\d+\.heap\n" % pid)
        self.assert_works(pid)
        if release == "5.3.1":
            pid = self.start(release, kind, "prof:true,lg_prof_sample:10,prof_pid_namespace:true")
            inode = os.stat("/proc/self/ns/pid").st_ino
            path = self.assert_ran(self.tool("dump", pid)).text.rstrip("\n")
            self.assertRegex(path, r"/jeprof\.%d\.%d\.0\.m0\.heap$" % (inode, pid))
            self.assertTrue(read(path).startswith(b"heap_v2/"))

    def check_without_version(self, release):
        """A build from a tree without tags: its names show the lowest release that it can be."""
        directory = self.directory()
        library = read(subjects.shared_library(release))
        own, none = b"%s-0-g" % release.encode(), b"0.0.0-0-g"
        self.assertIn(own, library)
        with open(os.path.join(directory, "libjemalloc.so.2"), "wb") as file:
            file.write(library.replace(own, none))
        pid = self.start(release, "shared", "prof:false", directory)
        self.assertTrue(self.value(pid, "version").startswith("0.0.0-0-g"))
        after = {"5.2.1": "opt.hpa", "5.3.0": "arena.0.name"}[release]
        self.assert_worded(self.tool("mallctl", pid, after), lib.USAGE, "this is 0.0.0")
        self.assert_ran(self.tool("mallctl", pid, "opt.confirm_conf", "arena.4096.purge"))
        # A name that crashes some release is refused if the release is unknown.
        crashing = self.tool("mallctl", pid, "thread.prof.active")
        self.assert_worded(crashing, lib.REFUSED, "would crash the process")
        self.assert_works(pid)

    def check(self, release, kind):
        for state in STATES:
            with self.subTest(state=state):
                self.check_state(release, kind, state)
        if kind == "shared" and release != "5.3.1":  # its program finds it by rpath first
            with self.subTest(state="no version"):
                self.check_without_version(release)
        with self.subTest(state="names"):
            self.check_names_of_dumps(release, kind)


def read(path):
    with open(path, "rb") as file:
        return file.read()


CELLS = ["%s-%s" % (release, kind) for release in subjects.RELEASES for kind in KINDS]


def method_name(cell):
    return "test_" + re.sub(r"\W", "_", cell)


def add_methods():
    def method_of(release, kind):
        return lambda self: self.check(release, kind)

    for cell in CELLS:
        setattr(Releases, method_name(cell), method_of(*cell.split("-")))


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CELLS))
        return
    sys.argv[1:] = [method_name(cell) for cell in sys.argv[1:]]
    lib.main()


add_methods()

if __name__ == "__main__":
    main()
