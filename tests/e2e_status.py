"""jeattach status: the verdict and the next step for every state, and their source."""

import json
import os
import re
import shutil
import subprocess

import allocators
import lib
import releases

DENSE, SPARSE = "prof:true,prof_active:false,lg_prof_sample:0", "prof:true,lg_prof_sample:40"
STATES = (
    # conf, verdict, the next step begins with
    ("", "disabled", "start it with %(variable)s=prof:true,prof_active:false;"),
    ("prof:false", "disabled", "start it with "),
    ("prof:true,prof_active:false", "inactive", "jeattach on %(pid)d"),
    ("prof:true,prof_active:false,lg_prof_sample:19", "inactive", "jeattach on %(pid)d"),
    ("prof:true", "active", "jeattach dump %(pid)d -f text"),
    ("prof:true,background_thread:true", "active", "jeattach dump %(pid)d -f text"),
    ("prof:true,prof_thread_active_init:false", "old_threads",
     "jeattach on --repair %(pid)d"),
    (DENSE, "dense", "jeattach mallctl %(pid)d prof.reset=19"),
    (SPARSE, "sparse", "jeattach mallctl %(pid)d prof.reset=19  # drops"),
)
# A value, the piece that jemalloc rejects, and a word of the reason.
WRONG = (
    ("opt.prof:true", "opt.prof:true", "without 'opt.'"),
    ("opt.prof:true,prof:true,prof_active:false", "opt.prof:true", "reads no further"),
    ("prof=true,narenas:2", "prof=true", "a colon"),
    ("narenas:2, prof:true", " prof:true", "no blank"),
    ('"prof:true"', '"prof:true"', "quotes"),
    ("prof:1", "prof:1", "true or false"),
    ("narenas:2,prof", "prof", "a value"),
    ("narenas:2,pro:true", "pro:true", "did you mean prof?"),
)
SYMBOL = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
const char *malloc_conf = CONF;
int main(void)
{
    return puts(malloc(1) ? "ready" : "") < 0 || fflush(stdout) || getchar() == 'x';
}
"""
# strerror's texts for the codes of mallctl: they are not used to describe a state.
STRERROR = ("no such file", "bad address", "invalid argument", "operation not permitted", "errno",
            "enoent", "efault")


class Status(allocators.TestCase):
    def status(self, pid, *words, **options):
        return self.assert_ran(lib.run_tool("status", pid, *words, **options))

    def told(self, pid, *words):
        return json.loads(self.status(pid, "--json", *words).text)

    def assert_state(self, allocator, verdict, step):
        variable = "_RJEM_MALLOC_CONF" if "static" in allocator.name else "MALLOC_CONF"
        step %= {"pid": allocator.pid, "variable": variable}
        told = self.told(allocator.pid)
        self.assertEqual(told["verdict"], verdict)
        self.assertTrue(told["next"].startswith(step), (told["next"], step))
        self.assertEqual(told["variable"], variable)
        text = self.status(allocator.pid).text
        self.assertEqual(text.count("\nnext: "), 1)
        self.assertIn("\nnext: " + told["next"], text)
        self.assertRegex(text, r"\A\S+\[%d\]: (profiling |this jemalloc was built )" % allocator.pid)
        for word in STRERROR:
            self.assertNotIn(word, text.lower())

    def test_every_state(self):
        for version, link in allocators.CELLS:
            for conf, verdict, step in STATES:
                with self.subTest(version=version, link=link, conf=conf):
                    allocator = self.allocator(version, link, conf=conf)
                    self.assert_state(allocator, verdict, step)
                    self.assert_well(allocator)
                    allocator.stop()

    def test_verbs_on_every_state(self):
        """The exit code and the sentence of what failed."""
        for version, link in allocators.CELLS:
            for conf, verdict, _ in STATES:
                with self.subTest(version=version, link=link, conf=conf):
                    allocator = self.allocator(version, link, conf=conf)
                    if verdict == "disabled":
                        self.assert_disabled(allocator)
                    else:
                        self.assert_usable(allocator)
                    self.assert_well(allocator)
                    allocator.stop()

    def assert_disabled(self, allocator):
        for words in (("on",), ("off",), ("dump",), ("dump", "-o", "-")):
            result = lib.run_tool(words[0], allocator.pid, *words[1:])
            self.assert_failed(result, lib.PROFILING_OFF, "opt.prof is false", "MALLOC_CONF=prof:true")
            self.assertRegex(result.err, r"\(opt\.prof is false; jemalloc \d\.\d\.\d\)\n")
            self.assertNotIn(" stopped for ", result.err) # memory tells
            for word in STRERROR:
                self.assertNotIn(word, result.err.lower())

    def assert_usable(self, allocator):
        for words in (("on",), ("dump", "-o", "-"), ("off",), ("stats",)):
            self.assert_ran(lib.run_tool(words[0], allocator.pid, *words[1:]))

    def test_variable_of_the_environment(self):
        allocator = self.allocator("5.3.0", conf="background_thread:false")
        told = self.told(allocator.pid)
        self.assertEqual(told["variable_value"], "background_thread:false")
        self.assertIn("MALLOC_CONF=background_thread:false,prof:true", told["next"])
        self.assertIn("MALLOC_CONF='background_thread:false'", self.status(allocator.pid).text)

    def test_off_of_several(self):
        """Only those in which profiling is on are touched, and listed."""
        confs = ("", "prof:true,prof_active:false", "prof:true", "prof:true")
        allocators_ = [self.allocator("5.3.0", conf=conf) for conf in confs]
        result = self.assert_ran(lib.run_tool("off", "-s", os.getpid()))
        self.assertEqual([int(pid) for pid in re.findall(r"\[(\d+)\] prof.active: true -> false",
                                                         result.text)],
                         [allocator.pid for allocator in allocators_[2:]])
        for allocator in allocators_[:2]:
            self.assertNotIn("[%d]" % allocator.pid, result.text + result.err)
        result = self.assert_ran(lib.run_tool("off", "-s", os.getpid()))
        self.assertEqual(result.text, "")
        self.assertIn("profiling is on in none of the processes that match", result.err)

    def test_top_without_profiling_makes_no_call(self):
        """Also where the records may not be read: the RSS remains."""
        lib.require_root()
        program = os.path.join(lib.VICTIMS, "allocator")
        argv, env = releases.command("5.3.0", [program])
        nobody = ["setpriv", "--reuid", str(lib.NOBODY), "--regid", str(lib.NOBODY), "--clear-groups"]
        allocator = allocators.Allocator(self.directory(), nobody + argv, env, None)
        self.addCleanup(allocator.stop)
        lacking = "-dac_override,-dac_read_search"
        done = subprocess.run(
            ["setpriv", "--bounding-set", lacking, "--inh-caps", lacking, lib.TOOL, "top", "--json",
             "-d", "100ms", "--count", "2", str(allocator.pid)],
            capture_output=True, text=True, env=lib.tool_environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("stopped", done.stderr)
        for line in done.stdout.splitlines():
            self.assertEqual(json.loads(line)["profiling"], "disabled")
        self.assert_well(allocator)

    # ---- settings that jemalloc rejects ----------------------------------------------------

    def assert_rejected(self, pid, source, piece, reason):
        """The screen names the piece and its source. Returns the variable and the proposed value.
        """
        told = self.told(pid)
        self.assertEqual(told["verdict"], "disabled")
        row = next(row for row in told["rejected"] if row["source"] == source)
        self.assertEqual(row["setting"], piece)
        self.assertIn(reason, row["why"])
        self.assertEqual(told["cause"], "jemalloc rejected '%s' in %s" % (piece, source))
        text = self.status(pid).text
        self.assertIn("\n                rejected: '%s': " % piece, text)
        self.assertIn("\n  cause         %s\n" % told["cause"], text)
        return re.match(r"start it with (\w+)=([\w:,.-]+); ", told["next"]).groups()

    def assert_proposal(self, conf):
        """Started again with the proposed line, it can profile, and nothing is rejected."""
        allocator = self.allocator("5.3.0", conf=conf)
        told = self.told(allocator.pid)
        self.assertEqual((told["verdict"], told["rejected"]), ("inactive", []))
        self.assertEqual(allocator.said(), "")
        allocator.stop()

    def test_wrong_settings(self):
        for conf, piece, reason in WRONG:
            with self.subTest(conf=conf):
                allocator = self.allocator("5.3.0", conf=conf)
                self.assertIn("<jemalloc>: ", allocator.said())
                name, proposed = self.assert_rejected(allocator.pid, "MALLOC_CONF", piece, reason)
                self.assertEqual(name, "MALLOC_CONF")
                # A setting that was in force stays.
                self.assertEqual("narenas:2" in proposed, conf.startswith("narenas:2"))
                allocator.stop()
                self.assert_proposal(proposed)

    def test_wrong_settings_that_hide_nothing(self):
        """What was accepted counts: it profiles, and the rest is named all the same."""
        for conf, piece in (("prof:true, prof_active:false", " prof_active:false"),
                            ("prof:true,prof_actve:false", "prof_actve:false")):
            allocator = self.allocator("5.3.0", conf=conf)
            told = self.told(allocator.pid)
            self.assertEqual((told["verdict"], told["cause"]), ("active", None))
            self.assertEqual([row["setting"] for row in told["rejected"]], [piece])
            allocator.stop()

    def test_wrong_settings_of_another_version(self):
        allocator = self.allocator("5.2.1", conf="hpa:true,prof:true")
        told = self.told(allocator.pid)
        self.assertEqual(told["verdict"], "active")
        self.assertEqual(told["rejected"][0]["why"],
                         "'hpa:true': jemalloc 5.2.1 has no such option")

    def test_wrong_link(self):
        allocator = self.in_root("prof=true")
        name, proposed = self.assert_rejected(allocator.pid, "/etc/_rjem_malloc.conf", "prof=true",
                                              "a colon")
        self.assertEqual(name, "_RJEM_MALLOC_CONF")
        self.assert_proposal(proposed)

    def test_wrong_symbol(self):
        place = self.directory()
        source, program = os.path.join(place, "symbol.c"), os.path.join(place, "symbol")
        with open(source, "w") as file:
            file.write(SYMBOL)
        releases.run(["cc", '-DCONF="prof:yes"', source, "-rdynamic", "-o", program], place)
        argv, env = releases.command("5.3.0", [program])
        process = self.process(argv, env=lib.tool_environment(env), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        _, proposed = self.assert_rejected(process.pid, "malloc_conf", "prof:yes", "true or false")
        self.assert_proposal(proposed)

    # ---- the next step ---------------------------------------------------------------------

    def test_next_step_answers(self):
        """The line is run as it is printed: a shell takes it, it answers, and stops nothing."""
        where = self.directory()
        os.symlink(lib.TOOL, os.path.join(where, "jeattach"))
        path = where + os.pathsep + os.environ["PATH"]
        for conf, verdict, _ in STATES:
            if verdict == "disabled":
                continue
            allocator = self.allocator("5.3.0", conf=conf)
            allocator.ask("work 1000")
            done = subprocess.run(self.told(allocator.pid)["next"], shell=True, text=True,
                                  capture_output=True, env=lib.tool_environment({"PATH": path}))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.strip(), done.stderr)
            if verdict == "active":
                self.assertIn("no thread was stopped", done.stderr)
                self.assertEqual(os.listdir(allocator.directory), ["stderr"])
            self.assert_well(allocator)
            allocator.stop()

    def test_hostile_value(self):
        """Control characters reach neither the terminal nor a shell."""
        conf = "abort:false,x:\x1b[31m;touch /tmp/x$(reboot)"
        allocator = self.allocator("5.3.0", conf=None)
        allocator.stop()
        allocator = self.with_environment({"MALLOC_CONF": conf})
        text = self.status(allocator.pid).text
        self.assertNotIn("\x1b", text)
        self.assertIn("next: start it with MALLOC_CONF=abort:false,prof:true,prof_active:false;", text)
        self.assertEqual(self.told(allocator.pid)["variable_value"], conf)

    def with_environment(self, env):
        argv, more = releases.command("5.3.0", [os.path.join(lib.VICTIMS, "allocator")])
        allocator = allocators.Allocator(self.directory(), argv, dict(more, **env), None)
        self.addCleanup(allocator.stop)
        return allocator

    def test_variable_of_another_prefix(self):
        allocator = self.with_environment({"_RJEM_MALLOC_CONF": "prof:true"})
        told = self.told(allocator.pid)
        self.assertIsNone(told["variable_value"])
        self.assertEqual(told["other_variable"], "_RJEM_MALLOC_CONF")
        self.assertIn("this jemalloc reads MALLOC_CONF", self.status(allocator.pid).text)

    def test_without_a_call(self):
        """Nothing is stopped."""
        allocator = self.allocator("5.3.0")
        result = self.status(allocator.pid, "--no-call")
        self.assertNotRegex(result.err, r"\bheld\b")
        self.assertIn("MALLOC_CONF='%s'" % allocators.CONF, result.text)
        told = self.told(allocator.pid, "--no-call")
        self.assertEqual((told["opt.prof"], told["prof.active"], told["verdict"]),
                         (True, False, "inactive"))
        self.assertEqual(told["calls"], 0)
        traced = self.status(allocator.pid, "--no-call", tool=lib.TRACED_TOOL).err
        self.assertNotIn("SEIZE", traced)

    def test_without_a_call_where_symbols_tell(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version, "static")
                told = self.told(allocator.pid, "--no-call")
                self.assertIs(told["opt.prof"], True)
                self.assertIs(told["prof.active"], False)
                self.assertEqual((told["prof.lg_sample"], told["verdict"]), (12, "inactive"))
                self.assert_ran(lib.run_tool("on", allocator.pid))
                self.assertEqual(self.told(allocator.pid, "--no-call")["verdict"], "active")
                allocator = self.allocator(version, "static", conf="")
                self.assertEqual(self.told(allocator.pid, "--no-call")["verdict"], "disabled")

    def test_without_a_call_where_no_symbols_are(self):
        """Each value, with a setting that no other variable has: the same as by a call."""
        conf = "prof:true,prof_active:%s,prof_thread_active_init:%s,lg_prof_sample:%d,prof_prefix:%s"
        settings = [("false", "true", 13, "abc"), ("true", "false", 17, "/tmp/x y"),
                    ("false", "false", 12, "a" * 100)]
        for version in allocators.VERSIONS:
            for link in ("shared", "stripped"):
                for setting in settings:
                    with self.subTest(version=version, link=link, setting=setting):
                        allocator = self.allocator(version, link, conf=conf % setting)
                        self.assert_same_by_a_call(allocator, *setting)
                        allocator.stop()

    def assert_same_by_a_call(self, allocator, active, init, lg_sample, prefix):
        told = self.told(allocator.pid, "--no-call")
        self.assertEqual(told["found_by"], "tables" if "stripped" in allocator.name else ".dynsym")
        self.assertEqual(told["calls"], 0)
        self.assertEqual(
            [told[name] for name in ("prof.active", "prof.thread_active_init", "prof.lg_sample",
                                     "opt.prof_prefix")],
            [active == "true", init == "true", lg_sample, prefix])
        for name in ("prof.active", "prof.thread_active_init", "prof.lg_sample", "opt.prof_prefix"):
            said = self.assert_ran(lib.run_tool("mallctl", allocator.pid, name)).text
            self.assertEqual(said.rstrip("\n").partition(" = ")[2].strip('"'),
                             json.dumps(told[name]).strip('"'), name)

    def test_link_in_the_root_of_the_target(self):
        """/etc/malloc.conf of the target's own root; the link is read, never followed."""
        allocator = self.in_root("prof:true,prof_active:false")
        told = self.told(allocator.pid)
        self.assertEqual((told["link"], told["link_value"]),
                         ("/etc/_rjem_malloc.conf", "prof:true,prof_active:false"))
        self.assertEqual(told["verdict"], "inactive")
        self.assertIn("/etc/_rjem_malloc.conf='prof:true", self.status(allocator.pid).text)

    def in_root(self, link):
        lib.require_root()
        root = self.directory()
        program = releases.static_program("5.3.0")
        os.mkdir(os.path.join(root, "etc"))
        os.symlink(link, os.path.join(root, "etc", "malloc.conf"))
        # The renamed archive still reads MALLOC_CONF: the tool expects the prefixed variable.
        os.symlink(link, os.path.join(root, "etc", "_rjem_malloc.conf"))
        shutil.copy(program, os.path.join(root, "allocator"))
        argv = ["setpriv", "--pdeathsig", "KILL", "chroot", root, "/allocator"]
        allocator = allocators.Allocator(self.directory(), argv, {}, None)
        self.addCleanup(allocator.stop)
        return allocator

    def test_environment_that_cannot_be_read(self):
        """The environment of another user's process is not readable: reported as such, not guessed.
        """
        lib.require_root()
        allocator = self.allocator("5.3.0")
        done = subprocess.run(
            ["setpriv", "--reuid", str(lib.NOBODY), "--regid", str(lib.NOBODY), "--clear-groups",
             lib.TOOL, "status", "--no-call", str(allocator.pid)],
            capture_output=True, text=True, env=lib.tool_environment(),
        )
        self.assertEqual((done.returncode, done.stdout), (lib.NOT_PERMITTED, ""), done.stderr)


if __name__ == "__main__":
    lib.main()
