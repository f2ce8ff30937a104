"""jemalloc linked into programs, with and without symbols; several of them; none at all."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import lib
import linked

SOURCE = os.path.join(lib.ROOT, "tests", "victims", "linked.c")
MIB = 1 << 20
VERSION = r"^\d+\.\d+\.\d+-"


class Linked(lib.TestCase):
    """Programs that are built are kept for the whole run of this file."""

    @classmethod
    def setUpClass(cls):
        why = linked.missing()
        if why:
            raise unittest.SkipTest(why)
        cls.folder = tempfile.mkdtemp(prefix="jeattach-linked.")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)

    def start(self, program, preload=None, words=()):
        directory = self.directory()
        ready = os.path.join(directory, "ready")
        env = dict(os.environ, MALLOC_CONF=lib.malloc_conf(directory))
        if preload:
            env["LD_PRELOAD"] = preload
        process = self.process([program, ready, *map(str, words)], env=env, stdin=subprocess.DEVNULL)
        self.assertTrue(lib.wait_until(lambda: os.path.exists(ready)), "does not start")
        return process

    def status(self, pid, *words):
        return json.loads(self.assert_ran(lib.run_tool("status", pid, "--json", *words)).text)

    def check_calls(self, process):
        for way in ("--call", "--no-call"):
            for verb, text in (("on", "false -> true"), ("off", "true -> false")):
                result = self.assert_ran(lib.run_tool(verb, process.pid, way))
                self.assertEqual(result.text.splitlines()[0], "prof.active: %s" % text)
                profile = self.assert_ran(lib.run_tool("dump", process.pid, "-o", "-", way)).out
                self.assertRegex(profile[:64], rb"^heap_v2/\d+\n")
        self.assertIsNone(process.poll())

    def check_cell(self, link, prefix, strip):
        process = self.start(linked.build(SOURCE, link, prefix, self.folder, strip))
        told = self.status(process.pid)
        self.assertRegex(told["version"], VERSION)
        self.assertEqual(told["found_by"], "tables" if strip else ".symtab", told)
        self.assertEqual(len(told["instances"]), 1, told)
        self.assertEqual(told["instances"][0]["version"], told["version"])
        if not strip:
            self.assertEqual(told["prefix"], prefix)
        self.check_calls(process)

    def check_link(self, link):
        for prefix in ("_rjem_", "je_", "foo_"):
            for strip in (True, False):
                with self.subTest(prefix=prefix, strip=strip):
                    self.check_cell(link, prefix, strip)

    def test_static_pie(self):
        self.check_link("static-pie")

    def test_static(self):
        self.check_link("static")

    def test_no_pie(self):
        self.check_link("no-pie")

    def test_pie(self):
        self.check_link("pie")

    def test_same_address_as_symbol(self):
        """The results without symbols equal those with symbols."""
        for link in linked.LINKS:
            named = linked.build(SOURCE, link, "je_", self.folder, strip=False)
            stripped = self.start(linked.build(SOURCE, link, "je_", self.folder, strip=True))
            wanted = re.search(r"^([0-9a-f]+) T je_mallctl$", linked.run("nm", named), re.M)
            text = self.assert_ran(lib.run_tool(stripped.pid, tool=lib.PLAN)).text
            told = int(re.search(r"mallctl at 0x([0-9a-f]+)", text).group(1), 16)
            self.assertEqual((told - int(wanted.group(1), 16)) % 4096, 0, text)
            bias = self.bias(stripped.pid, link)
            self.assertEqual(told - bias, int(wanted.group(1), 16), link)

    def bias(self, pid, link):
        first = next(m for m in lib.mappings(pid) if m.path.endswith("-stripped"))
        return first.start if link in ("static-pie", "pie") else 0

    def forbidden(self, pid):
        text = self.assert_ran(lib.run_tool(pid, tool=lib.PLAN)).text
        found = re.findall(r"^ +0x([0-9a-f]+)-0x([0-9a-f]+) (.*)$", text, re.M)
        self.assertTrue(found, text)
        return [(int(start, 16), int(end, 16), what) for start, end, what in found]

    def functions(self, program):
        """Name: addresses, of the twin with symbols."""
        found = {}
        for line in linked.run("nm", "--defined-only", program).splitlines():
            address, kind, name = line.split()[:3]
            if kind in "tTwW":
                found.setdefault(name, []).append(int(address, 16))
        return found

    def test_forbidden(self):
        """Functions in which a lock can be held without another forbidden function on the stack,
        and others."""
        entries = ["foo_" + name for name in linked.PUBLIC if not name.startswith("malloc_conf")
                   and name != "malloc_message"]
        entries += ["je_tsd_cleanup", "je_tcache_arena_associate", "je_prof_mdump", "ctl_lookup",
                    "je_jemalloc_prefork", "je_jemalloc_postfork_parent", "prof_active_ctl",
                    "stats_print_atexit", "je_arena_malloc_hard", "je_malloc_mutex_lock_slow"]
        for link in linked.LINKS:
            names = self.functions(linked.build(SOURCE, link, "foo_", self.folder, strip=False))
            process = self.start(linked.build(SOURCE, link, "foo_", self.folder, strip=True))
            ranges = self.forbidden(process.pid)
            bias = self.bias(process.pid, link)

            def inside(name, what):
                return [any(start <= at + bias < end and what in text for start, end, text in ranges)
                        for at in names.get(name, ())]

            present = [name for name in entries if name in names]
            self.assertGreater(len(present), 20, "a build with other names")
            for name in present:
                self.assertTrue(all(inside(name, "jemalloc")), (link, name))
            for name in names:
                if name.endswith(".cold") and name.startswith(("je_", "foo_")):
                    self.assertTrue(all(inside(name, "jemalloc")), (link, name))
            if link.startswith("static"):
                self.assertTrue(all(inside("_Fork", "fork") + inside("__libc_fork", "fork")))
            for name in ("main", "_start", "__libc_start_main", "__nanosleep", "__clock_nanosleep",
                         "start_thread", "__read", "__poll", "clone"):
                self.assertFalse(any(inside(name, "")), (link, name))

    def test_without_eh_frame(self):
        """Function boundaries are unknown: refused, with the reason."""
        program = linked.build(SOURCE, "static", "bar_", self.folder)
        linked.run("objcopy", "--rename-section", ".eh_frame=.nothing", program)
        process = self.start(program)
        result = lib.run_tool("on", process.pid)
        self.assert_failed(result, lib.NO_SAFE_MOMENT, ".eh_frame", "not touched")

    def test_two_instances(self):
        """One linked in under a prefix, one preloaded, which serves malloc."""
        program = linked.build(SOURCE, "pie", "je_", self.folder, strip=False)
        process = self.start(program, preload="libjemalloc.so.2")
        told = self.status(process.pid)
        found = sorted((i["prefix"], i["found_by"]) for i in told["instances"])
        self.assertEqual(found, [("", ".dynsym"), ("je_", ".symtab")])
        self.assertEqual(told["prefix"], "", "the one that serves malloc is the default")
        self.assertEqual([i["prefix"] for i in told["instances"] if i["chosen"]], [""])
        for instance in told["instances"]:
            self.assertRegex(instance["version"], VERSION)
            chosen = self.status(process.pid, "--instance", instance["instance"])
            self.assertEqual(chosen["prefix"], instance["prefix"])
        text = self.assert_ran(lib.run_tool("status", process.pid)).text
        self.assertIn("instances     2", text)
        self.check_calls_apart(process, told["instances"])

    def check_calls_apart(self, process, instances):
        """A switch in one does not change the other."""
        other = next(i["instance"] for i in instances if i["prefix"] == "je_")
        self.assert_ran(lib.run_tool("on", process.pid, "--instance", other))
        self.assertIs(self.status(process.pid)["prof.active"], False)
        self.assertIs(self.status(process.pid, "--instance", other)["prof.active"], True)

    def parts(self, verb, pid, *words):
        told = json.loads(self.assert_ran(lib.run_tool(verb, pid, "--json", *words)).text)
        rss = told["rss"]
        told = told["jemalloc"] if verb == "explain" else told
        return dict(told.get("parts", told), rss=rss)

    def test_memory_of_two(self):
        """Both are counted, each once; the other one by its module, whichever is looked at."""
        program = linked.build(SOURCE, "pie", "je_", self.folder, strip=False)
        process = self.start(program, "libjemalloc.so.2", (40, 20))
        numbers = {i["prefix"]: i["instance"] for i in self.status(process.pid)["instances"]}
        for verb in ("stats", "explain", "frag"):
            for prefix, other, own, rest in (("", "je_", 20, 40), ("je_", "", 40, 20)):
                with self.subTest(verb=verb, prefix=prefix):
                    words = ("--instance", numbers[prefix])
                    told = self.parts(verb, process.pid, *words)
                    self.assertAlmostEqual(told["in_use"] / MIB, own, delta=2)
                    self.assertAlmostEqual(told["other"] / MIB, rest, delta=4)
                    self.assertLess(told["outside"], 8 * MIB)
                    text = self.assert_ran(lib.run_tool(verb, process.pid, *words)).text
                    module = os.path.basename(program) if other else "libjemalloc.so.2"
                    self.assertRegex(text, r"(?m)^  other +[\d.]+ MiB +[\d.]+ %%  jemalloc of %s "
                                     r"\(--instance %s\)$" % (module, numbers[other]))
            self.assertEqual(self.parts(verb, process.pid)["other"] // (8 * MIB), 5)
        answer = self.assert_ran(lib.run_tool(process.pid)).text.replace("\n", " ")
        self.assertRegex(answer, r"\A\S+ uses \S+ MiB: 4\S* MiB \(\d+ %%\) of it is of another jemalloc, "
                         r"in %s \(--instance %s\)" % (os.path.basename(program), numbers["je_"]))

    def test_growth_of_two(self):
        """What one of them allocates grows once, whichever is looked at."""
        program = linked.build(SOURCE, "pie", "je_", self.folder, strip=False)
        process = self.start(program, "libjemalloc.so.2", (4, 4, "grow"))
        numbers = {i["prefix"]: i["instance"] for i in self.status(process.pid)["instances"]}
        told = json.loads(lib.run_tool("leak", process.pid, "--json", "-d", "3s", "--instance",
                                       numbers["je_"]).text)
        self.assertEqual([part["kind"] for part in told["parts"]], ["objects"], told["answer"])

    def test_two_instances_stripped(self):
        program = linked.build(SOURCE, "pie", "je_", self.folder, strip=True)
        process = self.start(program, preload="libjemalloc.so.2")
        told = self.status(process.pid)
        self.assertEqual(sorted(i["found_by"] for i in told["instances"]), [".dynsym", "tables"])
        self.assertEqual(told["found_by"], ".dynsym")

    def test_no_such_instance(self):
        process = self.start(linked.build(SOURCE, "pie", "je_", self.folder, strip=False))
        for number in (2, 99):
            result = lib.run_tool("on", process.pid, "--instance", number)
            self.assert_failed(result, lib.USAGE, "instances found: 1")
        self.assert_failed(lib.run_tool("on", process.pid, "--instance", "x"), lib.USAGE, "'x'")

    def decoy(self, define, link, strip):
        name = "%s-%s-%s" % (define, link, strip)
        program = os.path.join(self.folder, name)
        linked.run("gcc", "-O1", "-D_GNU_SOURCE", "-D" + define, *linked.LINKS[link], SOURCE, "-o",
                   program, *(["-s"] if strip else []))
        return self.start(program)

    def test_decoys(self):
        """Only names and texts, or a table without the rest, are not taken for jemalloc."""
        for define in ("DECOY", "FORGED", "NOTHING"):
            for link in linked.LINKS:
                for strip in (False, True):
                    with self.subTest(define=define, link=link, strip=strip):
                        process = self.decoy(define, link, strip)
                        result = lib.run_tool("status", process.pid)
                        self.assert_failed(result, lib.NO_JEMALLOC, "no jemalloc found")
                        self.assertIsNone(process.poll())


if __name__ == "__main__":
    lib.main()
