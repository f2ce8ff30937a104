"""Wrong arguments, and processes that cannot be attached to: a documented exit code, one clear
message, and an unharmed target.
"""

import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import lib
import rules

PF_KTHREAD = 0x00200000
UNUSED_PID = 4194303


MALLOC_OF_ITS_OWN = """
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef OWN
static _Alignas(16) char arena[1 << 20];
static size_t used;
void *malloc(size_t size) { used += size + 15 & ~(size_t)15; return arena + used - (size + 15 & ~(size_t)15); }
void free(void *p) { (void)p; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *p, size_t size) { return p ? NULL : malloc(size); }
#endif
int main(void)
{
    void *volatile block = malloc(100);
    free(block);
    if (write(1, "ready\\n", 6) == 6)
        sleep(600);
    return 0;
}
"""


def is_kernel_thread(pid):
    try:
        flags = int(lib.read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()[6])
    except OSError:
        return False
    return bool(flags & PF_KTHREAD)


def kernel_thread():
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    return next((pid for pid in pids if is_kernel_thread(pid)), None)


PACKAGED = ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib64/libjemalloc.so.2",
            "/usr/lib/libjemalloc.so.2")
ANY_ALLOCATOR = ("explain", "leak")  # the verbs that serve any process
WORDS_OF = {"watch": ("--when", "rss>1%", "--count", "1", "-o", "{}"), "mallctl": ("--list",),
            "top": ("--once",), "dump": ("-o", "{}/a.heap"), "record": ("--every", "1s", "-o", "{}/b.heap"),
            "purge": ()}


def preloadable():
    return next((path for path in PACKAGED if os.path.isfile(path)), "libjemalloc.so.2")


def verbs():
    """Those that work on a process."""
    text = lib.read_text(os.path.join(rules.ROOT, "cli/main.c"))
    names = re.findall(r"&verb_(\w+)", text.split("verbs[] = {")[1].split("}")[0])
    return [name for name in names if name not in ("ps", "report")]


class Words(lib.TestCase):
    def assert_usage(self, *words):
        result = lib.run_tool(*words)
        self.assert_failed(result, lib.USAGE)
        return result

    def test_garbage_pids(self):
        garbage = ("", " ", "12x", "0x10", "1.5", "-1", "0", "+", "1e3", "١٢")
        for word in garbage + ("99999999999999999999", "4294967297", "2147483648"):
            with self.subTest(word=word):
                self.assert_usage("on", word)
                self.assert_usage("on", "-p", word)

    def test_other_mallocs(self):
        """The fix is one that helps: LD_PRELOAD replaces only the malloc of a library."""
        wanted = (
            ((), "start it with LD_PRELOAD=%s MALLOC_CONF=prof:true,prof_active:false;" % preloadable()),
            (("-DOWN",), "a malloc of its own, which LD_PRELOAD does not replace;"),
            (("-static",), "a static program, for which LD_PRELOAD does nothing;"),
        )
        for flags, fix in wanted:
            with self.subTest(flags=flags):
                program = os.path.join(self.directory(), "program")
                words = ["cc", "-x", "c", "-o", program, *flags, "-"]
                subprocess.run(words, input=MALLOC_OF_ITS_OWN, text=True, check=True)
                process = self.process([program], stdout=subprocess.PIPE)
                self.assertEqual(process.stdout.readline(), b"ready\n")
                result = lib.run_tool("on", process.pid)
                self.assert_failed(result, lib.NO_JEMALLOC, "no jemalloc found", fix,
                                   "MALLOC_CONF=prof:true,prof_active:false")

    def test_no_verb_is_a_dead_end(self):
        """Without jemalloc a verb names one that answers, and what is printed can be typed."""
        process = self.process(["sleep", "600"])
        self.assertLess(set(ANY_ALLOCATOR), set(verbs()))
        for verb in verbs():
            words = [word.format(self.directory()) for word in WORDS_OF.get(verb, ())]
            if verb == "leak":
                words = ["-d", "1s"]
            with self.subTest(verb=verb):
                result = lib.run_tool(verb, process.pid, *words)
                if verb in ANY_ALLOCATOR:
                    self.assert_ran(result)
                    continue
                self.assert_failed(result, lib.NO_JEMALLOC, "LD_PRELOAD=" + preloadable(),
                                   "MALLOC_CONF=prof:true")
                named = re.findall(r"jeattach (\w+) %d\b" % process.pid, result.err)
                self.assertEqual(named, list(ANY_ALLOCATOR), result)
        self.assert_ran(lib.run_tool("explain", process.pid))

    def test_the_tool_is_traced_itself(self):
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        victim = self.victim()
        traced = ("-f", "-qq", "-e", "trace=none", "-e", "signal=none", lib.TOOL)
        no_leaks = {"ASAN_OPTIONS": "detect_leaks=0"}  # it would trace the tool as well
        result = lib.run_tool(*traced, "on", "--call", victim.pid, tool="strace", env=no_leaks)
        self.assert_failed(result, lib.NOT_PERMITTED, "jeattach itself is traced by", "strace")
        self.assert_unharmed(victim)
        result = lib.run_tool(*traced, "on", "--no-call", victim.pid, tool="strace", env=no_leaks)
        self.assertIn("false -> true", self.assert_ran(result).text)
        self.assert_unharmed(victim)

    def test_no_pid(self):
        for verb in ("on", "off", "dump", "status"):
            self.assert_usage(verb)
            self.assert_usage(verb, "-p")

    def test_unknown_verb(self):
        self.assert_failed(lib.run_tool("frobnicate", os.getpid()), lib.USAGE, "frobnicate")

    def test_unknown_option(self):
        self.assert_failed(lib.run_tool("on", "--frobnicate", os.getpid()), lib.USAGE, "frobnicate")

    def test_did_you_mean(self):
        profile = os.path.join(lib.ROOT, "tests", "fixtures", "5.2.1.heap")
        wanted = (
            (("dmup", "42"), "unknown verb 'dmup': did you mean dump?"),
            (("stat", "42"), "unknown verb 'stat': did you mean status or stats?"),
            (("-q", "recrod", "42"), "unknown verb 'recrod': did you mean record?"),
            (("dump", "--fromat=text", "42"), "unknown option '--fromat': did you mean --format?"),
            (("on", "--jsno", "42"), "unknown option '--jsno': did you mean --json?"),
            (("dump", "--co", "42"), "ambiguous option '--co': did you mean --core or --container?"),
            (("report", "-f", "flmae", profile), "unknown format 'flmae': did you mean flame?"),
            (("report", "-f", "xyz", profile), "unknown format 'xyz': must be one of raw, "),
            (("report", "--unit", "kib", profile), "unknown unit 'kib': did you mean KiB?"),
            (("report", "--value", "inuse-space", profile), "did you mean inuse_space?"),
            (("top", "--sort", "grwoth", "42"), "unknown order 'grwoth': did you mean growth?"),
            (("42", "--instance", "0"), "jeattach explain"),
            (("42", "dump"), "the verb must come before 42\n  fix:   jeattach dump 42\n"),
            (("-n", "42", "--list"), "no verb given, so the verb is ps"),
            (("stop", "42"), "fix:   jeattach off PID"),
            (("dump", "42", "flame.html"), "fix:   to write it: -o flame.html"),
            (("watch", "42", "rss"), "fix:   --when 'RULE', in quotes"),
            (("leak", "42", "30s"), "fix:   for a duration: -d 30s"),
            (("stats", "42", "30s"), "'30s' is not a process id\n  fix:   jeattach stats --help"),
        )
        for words, message in wanted:
            with self.subTest(words=words):
                self.assertIn(message, self.assert_usage(*words).err)
        for words in (("frobnicate", "42"), ("x", "42"), ("\x1b[31m",)):
            with self.subTest(words=words):
                result = self.assert_usage(*words)
                self.assertNotIn("did you mean", result.err)
                self.assertNotIn("\x1b", result.err)
                self.assertIn("must be one of ps, explain, status", result.err)
                self.assert_usage(*words, "--json")

    def test_words_of_other_tools(self):
        for word, line in (("snapshot", "dump PID -o FILE"), ("diff", "report NEW --base OLD"),
                           ("list", "ps"), ("flame", "dump PID -o FILE.html")):
            with self.subTest(word=word):
                self.assertIn("\n  fix:   jeattach %s\n" % line, self.assert_usage(word, "42").err)
                self.assertIn("\n  fix:   jeattach %s\n" % line, self.assert_usage(word).err)

    def test_unknown_extensions(self):
        """Refused before anything is read or written, with the extensions that there are."""
        victim = self.victim()
        place = self.directory()
        profile = os.path.join(lib.ROOT, "tests", "fixtures", "5.2.1.heap")
        known = ".heap, .symbolized, .txt, .tree, .folded, .pb.gz, .html, .dot, .svg, .json"
        commands = (("report", profile), ("dump", victim.pid), ("record", "-d", "1ms", victim.pid),
                    ("leak", "-d", "1ms", victim.pid))
        for words in commands:
            for name, told in (("x.prof", known), ("x.htm", "did you mean .html?"),
                               ("x.pb", "did you mean .pb.gz?"), ("x.heap.gz", known)):
                with self.subTest(words=words, name=name):
                    result = self.assert_usage(*words, "-o", os.path.join(place, name))
                    self.assertIn("unknown extension '.%s'" % name.rpartition(".")[2], result.err)
                    self.assertIn(told, result.err)
        self.assertEqual(os.listdir(place), [])
        self.assert_unharmed(victim)

    def test_bad_timeouts(self):
        victim = self.victim()
        for word in ("", "abc", "-5", "5x", "1h30", "99999999999999999999s"):
            with self.subTest(word=word):
                self.assert_usage("on", victim.pid, "--timeout", word)

    def test_bad_threads(self):
        victim = self.victim()
        for word in ("", "abc", "-1", "0"):
            with self.subTest(word=word):
                self.assert_usage("on", victim.pid, "--thread", word)

    def test_path_and_output_together(self):
        victim = self.victim()
        self.assert_usage("dump", victim.pid, "--path", "/tmp/x", "-o", "-")


class Targets(lib.TestCase):
    def test_dead_pid(self):
        self.assertFalse(os.path.exists("/proc/%d" % UNUSED_PID))
        for verb in ("on", "off", "dump", "status"):
            self.assert_failed(lib.run_tool(verb, UNUSED_PID), lib.GONE, str(UNUSED_PID))

    def test_zombie(self):
        child = self.process(["true"])
        self.assertTrue(lib.wait_until(lambda: lib.state_of(child.pid) == "Z"))
        for verb in ("on", "dump", "status"):
            self.assert_failed(lib.run_tool(verb, child.pid), lib.GONE, str(child.pid), "ended")

    def test_kernel_thread(self):
        pid = kernel_thread()
        if not pid:
            raise unittest.SkipTest("no kernel thread is visible in this pid namespace")
        for verb in ("on", "dump", "status"):
            result = lib.run_tool(verb, pid)
            self.assert_failed(result, lib.NO_JEMALLOC, str(pid), "kernel")

    def test_without_jemalloc(self):
        plain = self.process(["sleep", "1000"])
        lib.wait_until(lambda: "sleep" in lib.read_text("/proc/%d/maps" % plain.pid))
        for verb in ("on", "dump", "status"):
            result = lib.run_tool(verb, plain.pid)
            self.assert_failed(result, lib.NO_JEMALLOC, "jemalloc", str(plain.pid))
        self.assertIsNone(plain.poll())
        self.assertEqual(lib.tracer_of(plain.pid), 0)

    def test_32_bit(self):
        program = os.path.join(lib.VICTIMS, "tiny32")
        if not os.path.exists(program):
            raise unittest.SkipTest("no 32-bit program could be built (gcc-multilib)")
        try:
            target = self.process([program])
        except OSError as error:
            raise unittest.SkipTest("this kernel runs no 32-bit program: %s" % error)
        for verb in ("on", "dump"):
            result = lib.run_tool(verb, target.pid)
            self.assert_failed(result, lib.NO_JEMALLOC, str(target.pid), "32")
        self.assertIsNone(target.poll())

    def test_traced_by_another(self):
        victim = self.victim()
        holder = self.process(
            [os.path.join(lib.VICTIMS, "hold"), str(victim.pid)], stdout=subprocess.PIPE
        )
        self.assertEqual(holder.stdout.readline(), b"holding\n")
        for verb in ("on", "dump"):
            result = lib.run_tool(verb, "--call", victim.pid)
            self.assert_failed(result, lib.NOT_PERMITTED, "traced by", str(holder.pid), "hold")
            self.assertIn("\n  cause: ", result.err)
            self.assertIn("\n  fix:   ", result.err)
        self.assertEqual(lib.tracer_of(victim.pid), holder.pid)
        lib.end_process(holder)
        self.switch(victim, "on")
        self.assert_unharmed(victim)

    def test_profiling_not_enabled(self):
        victim = self.victim(prof=False)
        before = lib.snapshot(victim.pid)
        for words in (("on",), ("dump",), ("dump", "-o", "-")):
            result = lib.run_tool(words[0], victim.pid, *words[1:])
            self.assert_failed(result, lib.PROFILING_OFF, "opt.prof", "MALLOC_CONF", "prof:true")
            self.assertIn("\n  cause: ", result.err)
            self.assertIn("\n  fix:   ", result.err)
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        self.assert_unharmed(victim)

    def test_another_user(self):
        lib.require_root()
        victim = self.victim()
        place = self.directory()
        os.chmod(place, 0o755)
        tool = shutil.copy(lib.TOOL, place)
        result = lib.run_tool("on", victim.pid, tool=tool, user=lib.NOBODY, group=lib.NOBODY)
        self.assert_failed(result, lib.NOT_PERMITTED, str(victim.pid))
        self.assertIn("\n  cause: ", result.err)
        self.assert_unharmed(victim)

    def test_stopped_by_job_control(self):
        """It stays stopped, and the tool answers in time."""
        victim = self.victim()
        os.kill(victim.pid, signal.SIGSTOP)
        self.assertTrue(lib.wait_until(lambda: lib.state_of(victim.pid) == "T"))
        result = lib.run_tool("on", victim.pid, "--timeout", "1")
        self.assertIn(result.code, (lib.OK, lib.NO_SAFE_MOMENT, lib.CALL_LATE), result)
        self.assertIn("prof.active" if result.code == lib.OK else "jeattach: ", str(result))
        self.assertLess(result.seconds, 5)
        self.assertEqual(lib.state_of(victim.pid), "T")
        os.kill(victim.pid, signal.SIGCONT)
        victim.wait_rounds(1)
        self.assertEqual(lib.tracer_of(victim.pid), 0)
        self.assertEqual(victim.counters()["errors"], 0, victim.counters())

    def ends_before_call(self, words, k):
        """The target is killed while the tool is stopped before its k-th call into it."""
        victim = self.victim(ms=20)
        tool = self.process(
            [lib.TOOL, *words, str(victim.pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(
                {"JEATTACH_DIE_AT": str(k), "JEATTACH_DIE_SIGNAL": str(int(signal.SIGSTOP))}),
        )
        os.waitpid(tool.pid, os.WUNTRACED)
        victim.process.kill()
        if lib.tracer_of(victim.pid) == 0:  # else it waits for the tool before it ends
            self.assertTrue(lib.wait_until(lambda: lib.state_of(victim.pid) in ("Z", "X")))
        tool.send_signal(signal.SIGCONT)
        _, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        victim.stop()
        return tool.returncode, err

    def test_target_ends_meanwhile(self):
        for words, last in ((("on", "--call"), 30), (("dump",), 30), (("on", "--no-call"), 1)):
            for k in range(1, last + 1):
                with self.subTest(words=words, call=k):
                    code, err = self.ends_before_call(words, k)
                    self.assertEqual(code, lib.GONE, err)


if __name__ == "__main__":
    lib.main()
