"""Every verb under valgrind: the tool reads no uninitialized memory and leaks none."""

import os
import shutil

import hostile
import lib

# The exit code of a run with an error found by valgrind: none of the tool's own.
SEEN = 99
VALGRIND = ("valgrind", "--quiet", "--error-exitcode=%d" % SEEN, "--leak-check=full",
            "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
            "--suppressions=" + os.path.join(lib.ROOT, "tests", "valgrind.supp"))


class Valgrind(lib.TestCase):
    def run_verb(self, code, *words):
        if not shutil.which(VALGRIND[0]):
            self.skipTest("valgrind is not installed")
        # Valgrind needs calls in the reader of names that its filter refuses: it has none here.
        result = lib.run_tool(*VALGRIND[1:], lib.TOOL, *words, tool=VALGRIND[0],
                              preexec_fn=hostile.refuse_calls(1, hostile.SET_SECCOMP))
        self.assertEqual(result.code, code, result)
        return result

    def on_each(self, *words, unwound=False):
        """Runs it on a sleeping thread and, if unwound or with --long, on one whose stack needs
        unwinding."""
        for mode in ("poll", "malloc") if unwound or lib.LONG else ("poll",):
            victim = self.victim(mode)
            lib.run_tool("on", victim.pid)
            self.run_verb(lib.OK, *words, victim.pid)
            self.assert_unharmed(victim, slow=True)

    def test_on(self):
        self.on_each("on", "--call", unwound=True)

    def test_on_in_memory(self):
        self.on_each("on")

    def test_off(self):
        self.on_each("off", "--call")

    def test_status(self):
        self.on_each("status")

    def test_status_json(self):
        self.on_each("status", "--json")

    def test_dump(self):
        self.on_each("dump")

    def test_dump_to_a_path(self):
        self.on_each("dump", "--force", "--path", os.path.join(self.directory(), "profile"))

    def test_streamed_dump(self):
        sink = os.path.join(self.directory(), "profile")
        self.on_each("dump", "--call", "--force", "-o", sink, unwound=True)

    def test_stats(self):
        forms = ((), ("--bins",), ("--json",), ("--full",), ("--full", "--json"), ("--prometheus",), ("--call",))
        for form in forms if lib.LONG else forms[:1]:
            self.on_each("stats", *form)

    def test_reset(self):
        self.on_each("mallctl", "prof.reset", "-p")

    def test_purge(self):
        self.on_each("purge")

    def test_names(self):
        victim = self.victim("poll")
        self.run_verb(lib.OK, "mallctl", victim.pid, "version", "stats.allocated",
                      "prof.active=true")
        self.run_verb(lib.OK, "mallctl", victim.pid, "--list", "opt.*")
        self.run_verb(lib.USAGE, "mallctl", victim.pid, "prof.actve")
        self.assert_unharmed(victim, slow=True)

    def test_ps(self):
        self.victim("poll")
        self.run_verb(lib.OK, "ps")
        self.run_verb(lib.OK, "ps", "--json")

    def test_reports(self):
        victim = self.victim("malloc")
        lib.run_tool("on", victim.pid)
        path = os.path.join(self.directory(), "profile.heap")
        lib.run_tool("dump", "--call", victim.pid, "-o", path)
        for form in ("text", "flame", "pprof", "folded", "dot", "symbolized"):
            out = os.path.join(self.directory(), form)
            self.run_verb(lib.OK, "report", path, "-f", form, "--force", "-o", out)
            if form == "text" or lib.LONG:
                self.run_verb(lib.OK, "dump", victim.pid, "-f", form, "--force", "-o", out)
        self.run_verb(lib.OK, "report", path, "--base", path, "-o", os.devnull)
        self.assert_unharmed(victim, slow=True)

    def test_refusals(self):
        self.run_verb(lib.USAGE, "no-verb", "42")
        self.run_verb(lib.USAGE, "on", "12x")
        ended = self.process(["true"])
        ended.wait()
        self.run_verb(lib.GONE, "on", ended.pid)
        self.run_verb(lib.NO_JEMALLOC, "on", self.process(["sleep", "60"]).pid)

    def test_help(self):
        for words in (["--help"], ["dump", "--help"], ["--version"]):
            self.run_verb(lib.OK, *words)


if __name__ == "__main__":
    lib.main()
