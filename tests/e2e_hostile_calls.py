"""A fake jemalloc: its functions return garbage, write without end, or never return."""

import json
import os
import re
import signal

import hostile
import lib
from hostile import MIB, run_bounded

ENDLESS = ("calls", "spin", "sleep")  # they are left to finish by themselves, which never happens


class Calls(hostile.TestCase):
    def run_mode(self, mode, *words, memory=256 * MIB, timeout="20s", **options):
        """Runs the verb on a target of that mode; returns the result and the target."""
        process = self.hostile(HOSTILE=mode, cwd=self.directory())
        words = [words[0], process.pid, *words[1:]]
        result = run_bounded(*words, "--timeout", timeout, **options)
        return self.assert_bounded(result, memory), process

    def assert_code(self, code, mode, *words, **options):
        result, process = self.run_mode(mode, *words, **options)
        self.assertEqual(result.code, code, result)
        return result, process

    def assert_signals_blocked(self, result, process):
        """The message about a thread that was left in a call is true."""
        self.assertIn("with its signals blocked", result.err)
        text = lib.read_text("/proc/%d/status" % process.pid)
        blocked = int(re.search(r"^SigBlk:\s*(\w+)", text, re.M)[1], 16)
        self.assertTrue(blocked >> (signal.SIGTERM - 1) & 1, "SIGTERM is not blocked")

    # ---- return values -----------------------------------------------------------------

    def test_garbage(self):
        """Wrong lengths, texts without an end, pointers to nowhere, unknown error codes."""
        verbs = (("status",), ("status", "--json"), ("on", "--call"), ("off", "--call"), ("stats", "--full"), ("mallctl", "prof.reset"),
                 ("stats", "--prometheus"), ("purge",), ("top", "--once"), ("leak", "-d", "10ms"), ("mallctl", "version"),
                 ("mallctl", "opt.prof_prefix", "--json"), ("mallctl", "arenas.narenas"),
                 ("dump",), ("dump", "--call", "-o", "-"))
        for mode in ("garbage", "nowhere", "refuse", "escapes"):
            process = self.hostile(HOSTILE=mode, cwd=self.directory())
            for verb in verbs:
                with self.subTest(mode=mode, verb=verb):
                    result = run_bounded(verb[0], process.pid, *verb[1:])
                    self.assert_bounded(result)
                    if result.code == lib.OK and "--json" in verb:
                        json.loads(result.out)
            self.assert_untraced(process)

    def called(self, process, *words):
        result = self.assert_ran(lib.run_tool(words[0], process.pid, *words[1:]))
        self.assertIn("; a thread is stopped for a call instead\n", result.err)
        self.assertRegex(result.err, r"thread \d+ stopped for|a thread stopped \d times")
        self.assert_untraced(process)
        return result

    def test_what_memory_does_not_show(self):
        """It is taken by calls, where they are allowed; each is said. The memory has no table of
        jemalloc's."""
        process = self.hostile(HOSTILE="", cwd=self.directory())
        told = json.loads(self.called(process, "stats", "--json").out)
        self.assertEqual((told["source"], told["stops"]), ("call", 1))
        self.assertGreater(told["calls"], 0)
        looks = self.called(process, "top", "--json", "--count", "2", "--every", "100ms").out
        for look in map(json.loads, looks.splitlines()):
            self.assertEqual((look["way"], look["profile"]["stacks"]), ("call", 1))
            held = look["held_ns"]
            self.assertGreaterEqual(look["interval_ns"], min(100 * held, max(10**10, 10 * held)))
        told = json.loads(self.called(process, "leak", "-d", "100ms", "--json").out)
        self.assertEqual(told["way"], "call")
        self.assertGreater(told["sampled_bytes"], 0)
        self.assertGreater(told["holds"], 1)
        for words in (("dump", "-o", "-"), ("record", "-d", "10ms", "-o", "-")):
            self.assertRegex(self.called(process, *words).out, rb"\Aheap_v2/4096\n")

    def test_no_call_where_none_is_made(self):
        """Neither by frag and status, nor with --no-call."""
        process = self.hostile(HOSTILE="", cwd=self.directory())
        traced = re.compile(r"(?m)^jeattach: call \d+: ")
        rows = ((lib.REFUSED, "frag"), (lib.REFUSED, "leak", "--no-call", "-d", "10ms", "--samples"),
                (lib.REFUSED, "top", "--no-call", "--once"),
                (lib.REFUSED, "dump", "--no-call", "-o", self.path("a.heap")),
                (lib.REFUSED, "record", "--no-call", "-d", "10ms", "-o", self.path("a.heap")),
                (lib.REFUSED, "off", "--no-call"), (lib.OK, "status"), (lib.OK, "stats", "--no-call"))
        for code, *words in rows:
            with self.subTest(words=words):
                result = lib.run_tool(words[0], process.pid, *words[1:], tool=lib.TRACED_TOOL)
                self.assertEqual(result.code, code, result)
                self.assertIsNone(traced.search(result.err), result)
        result = lib.run_tool("frag", process.pid, "--json")
        self.assert_failed(result, lib.REFUSED, "its live objects cannot be found in its memory")
        told = json.loads(self.assert_ran(lib.run_tool("status", "--json", process.pid)).out)
        self.assertEqual((told["source"], told["verdict"], told["opt.prof"]), ("memory", None, None))
        self.assertEqual(told["next"],
                         "jeattach mallctl %d config.prof opt.prof prof.active" % process.pid)
        text = self.assert_ran(lib.run_tool("status", process.pid)).text
        self.assertRegex(text, r"(?m)^  opt\.prof +\? +not known without a call$")
        result = lib.run_tool(*told["next"].split()[1:])
        self.assertEqual(result.text, "config.prof = true\nopt.prof = true\nprof.active = true\n")

    def test_refusal_is_told(self):
        result, _ = self.assert_code(lib.REFUSED, "refuse", "mallctl", "version")
        self.assertIn("unknown return code", result.err)

    def test_no_read_ends_the_process(self):
        """Every name, where reads follow pointers that a minimal build never sets."""
        process = self.hostile(HOSTILE="bare", cwd=self.directory())
        for pattern in ("*", "stats.arenas.0.*", "stats.arenas.4096.*", "arena.0.*", "thread.*"):
            result = run_bounded("mallctl", process.pid, "--json", "--list", pattern)
            self.assertEqual(result.code, lib.OK, result)
            self.assertNotEqual(json.loads(result.out)["values"], {}, pattern)
        for name, reason in (
            ("stats.arenas.0.uptime", "statistics"),
            ("stats.arenas.4096.uptime", "statistics"),
            ("thread.tcache.max", "cache"),
        ):
            result = run_bounded("mallctl", process.pid, "version", name)
            self.assertEqual(result.code, lib.REFUSED, result)
            self.assertIn(reason, result.err)
        self.assert_untraced(process)

    # ---- the content of a profile --------------------------------------------------------

    def test_claims(self):
        """Writes of more bytes than exist, of the largest count, and of nothing."""
        for words in (("-o", self.path("a.heap")), ("-o", self.path("a.folded"))):
            result, process = self.run_mode("claim", "dump", *words)
            self.assertNotEqual(result.code, lib.OK, result)
            self.assertFalse(os.path.exists(words[1]))
            self.assert_untraced(process)

    def test_endless_profile(self):
        """It ends at the size limit, or at the deadline; the host keeps its other memory."""
        out = self.path("a.heap")
        result, process = self.run_mode("endless", "dump", "--call", "-o", out, memory=1280 * MIB,
                                        timeout="3s")
        self.assertIn(result.code, (lib.CALL_LATE, lib.OUTPUT_FAILED), result)
        self.assertFalse(os.path.exists(out))
        self.assert_untraced(process)

    def test_endless_bytes(self):
        self.assert_code(lib.CALL_LATE, "bytes", "dump", "--call", "-o", self.path("a.heap"), timeout="1s")

    def test_many_mappings(self):
        """Ten million lines of MAPPED_LIBRARIES."""
        result, _ = self.assert_code(lib.OUTPUT_FAILED, "maps", "dump", "--call", "-o",
                                     self.path("a.folded"), memory=1024 * MIB, timeout="60s")
        self.assertIn("mappings", result.err)

    def test_long_lines(self):
        self.run_mode("long_lines", "dump", "--call", "-o", self.path("a.folded"), memory=1024 * MIB,
                      timeout="60s")

    def test_many_stacks(self):
        """A profile of stacks alone, each with other addresses."""
        result, _ = self.assert_code(lib.OUTPUT_FAILED, "stacks", "dump", "--call", "-o",
                                     self.path("a.folded"), memory=1024 * MIB, timeout="60s")
        self.assertIn("addresses", result.err)

    def test_modules_that_are_none(self):
        result, _ = self.assert_code(lib.OK, "modules", "dump", "--call", "-o", self.path("a.txt"))
        self.assertNotIn("\x1b", result.err)

    # ---- file names ----------------------------------------------------------------------

    def test_names_of_files(self):
        for mode in ("far", "lines", "up", "many"):
            with self.subTest(mode=mode):
                result, process = self.run_mode(mode, "dump")
                self.assertLessEqual(result.out.count(b"\n"), 1, result)
                told, _ = self.run_mode(mode, "dump", "--json")
                if told.code == lib.OK:
                    answer = json.loads(told.out)
                    self.assertTrue(answer["target_path"].startswith("/"), answer)
                self.assert_untraced(process)

    def test_name_with_lines(self):
        result, _ = self.assert_code(lib.OK, "lines", "dump")
        self.assertRegex(result.out, rb"a\?")

    # ---- statistics --------------------------------------------------------------------

    def test_report_that_is_no_json(self):
        for mode in ("escapes", "broken", "nested"):
            with self.subTest(mode=mode):
                result, _ = self.assert_code(lib.REFUSED, mode, "stats", "--full", "--json")
                self.assertEqual(list(json.loads(result.out)), ["error"])
                self.assertIn("not JSON", result.err)
                self.run_mode(mode, "stats", "--full")
        result, _ = self.assert_code(lib.OK, "", "stats", "--full", "--json")
        self.assertEqual(json.loads(result.out), {"jemalloc": {}})

    def test_endless_report(self):
        for words in (("--full", "--json"), ("--full",)):
            result, process = self.run_mode("endless", "stats", *words, memory=640 * MIB,
                                            timeout="3s")
            self.assertIn(result.code, (lib.CALL_LATE, lib.OUTPUT_FAILED), result)
            if result.out:
                self.assertEqual(list(json.loads(result.out)), ["error"])
            self.assert_untraced(process)

    # ---- the end of the call -------------------------------------------------------------

    def test_the_end_of_the_process(self):
        for mode in ("exit", "kill", "abort", "crash", "sigreturn"):
            for words in (("dump",), ("dump", "--call", "-o", self.path("a.heap")), ("stats", "--full")):
                with self.subTest(mode=mode, words=words):
                    result, process = self.run_mode(mode, *words)
                    self.assertEqual(result.code, lib.GONE, result)
                    self.assertIsNotNone(process.wait(60))

    def test_another_program(self):
        for words in (("dump",), ("stats", "--full")):
            result, process = self.assert_code(lib.GONE, "exec", *words)
            self.assertIn("another program", result.err)
            self.assert_untraced(process)

    def test_the_end_of_the_thread(self):
        """Its only thread ends: so does the process."""
        self.assert_code(lib.GONE, "thread_exit", "dump")

    def test_children(self):
        for mode in ("fork", "thread"):
            _, process = self.assert_code(lib.OK, mode, "dump")
            self.assert_untraced(process)

    def test_stopped(self):
        result, process = self.run_mode("stop", "dump", timeout="2s")
        self.assertIsNone(process.poll())
        self.assertEqual(lib.tracer_of(process.pid), 0, result)

    def test_no_end(self):
        for mode in ENDLESS:
            for words in (("dump",), ("stats", "--full")):
                with self.subTest(mode=mode, words=words):
                    result, process = self.assert_code(lib.CALL_LATE, mode, *words,
                                                       timeout="500ms")
                    self.assert_signals_blocked(result, process)
                    self.assert_untraced(process)


if __name__ == "__main__":
    lib.main()
