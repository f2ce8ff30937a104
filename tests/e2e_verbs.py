"""Output and effect of each verb on a healthy process."""

import contextlib
import fcntl
import functools
import json
import os
import re
import struct
import subprocess

import lib


class Verbs(lib.TestCase):
    def run_json(self, *args):
        result = self.assert_ran(lib.run_tool(*args, "--json"))
        return json.loads(result.text)

    def active(self, victim):
        return self.run_json("status", victim.pid)["prof.active"]

    def test_on_off(self):
        victim = self.victim()
        expected = (
            ("on", "prof.active: false -> true\nthreads: 1 of 1 sample\n"),
            ("on", "prof.active: true (unchanged)\nthreads: 1 of 1 sample\n"),
            ("off", "prof.active: true -> false\n"),
            ("off", "prof.active: false (unchanged)\n"),
        )
        for words in ((), ("--call",), ("--no-call",)):
            for verb, text in expected:
                result = self.assert_ran(lib.run_tool(verb, victim.pid, *words))
                self.assertEqual(result.text, text)
        self.assert_unharmed(victim)

    def test_on_off_json(self):
        victim = self.victim()
        for verb, old, new in (("on", False, True), ("on", True, True), ("off", True, False)):
            told = self.run_json(verb, victim.pid, "--call")
            self.assertEqual((told["pid"], told["old"], told["new"]), (victim.pid, old, new))
            self.assertEqual((told["thread"], told["way"]), (victim.pid, "call"))
            self.assertGreaterEqual(told["calls"], 1)
            self.assertTrue(0 < told["held_ns"] < 10**9, told)
        self.assert_unharmed(victim)

    def test_on_is_seen_by_status(self):
        victim = self.victim()
        self.assertIs(self.active(victim), False)
        self.switch(victim, "on")
        self.assertIs(self.active(victim), True)
        self.switch(victim, "off")
        self.assertIs(self.active(victim), False)

    def test_on_makes_new_samples(self):
        victim = self.victim("malloc")
        before = self.stream(victim)
        self.switch(victim, "on")
        self.assertTrue(victim.wait_rounds(10))
        self.assertGreater(self.stacks(self.stream(victim)), self.stacks(before))
        self.switch(victim, "off")
        self.assert_unharmed(victim)

    def stacks(self, profile):
        return len(re.findall(rb"^@ 0x", profile, re.M))

    def stream(self, victim):
        result = self.assert_ran(lib.run_tool("dump", "--call", victim.pid, "-o", "-"))
        self.assert_profile(result.out)
        return result.out

    def test_status(self):
        victim = self.victim()
        text = self.assert_ran(lib.run_tool("status", victim.pid)).text
        for word in ("config.prof", "opt.prof", "prof.active"):
            self.assertIn(word, text)
        self.assert_unharmed(victim)

    def test_status_json(self):
        victim = self.victim()
        told = self.run_json("status", victim.pid)
        self.assertEqual(told["pid"], victim.pid)
        self.assertRegex(told["version"], r"^\d+\.\d+\.\d+")
        self.assertEqual(
            [told["config.prof"], told["opt.prof"], told["prof.active"]], [True, True, False]
        )
        self.assert_unharmed(victim)

    def test_status_without_profiling(self):
        victim = self.victim(prof=False)
        text = self.assert_ran(lib.run_tool("status", victim.pid)).text
        self.assertIn("MALLOC_CONF", text)
        self.assertIs(self.run_json("status", victim.pid)["opt.prof"], False)
        self.assert_unharmed(victim)

    def test_status_leaves_all_as_it_was(self):
        victim = self.victim("epoll_wait")
        before = lib.snapshot(victim.pid)
        self.assertIn("opt.prof", self.assert_ran(lib.run_tool("status", victim.pid)).text)
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])

    def test_dump_with_the_name_of_jemalloc(self):
        victim = self.victim()
        paths = []
        for _ in range(2):
            result = self.assert_ran(lib.run_tool("dump", victim.pid))
            self.assertRegex(result.text, r"\A[^\n]+\n\Z")
            paths.append(result.text.rstrip("\n"))
        self.assertNotEqual(paths[0], paths[1])
        for path in paths:
            self.assertRegex(os.path.basename(path), r"^jeprof\.%d\.\d+\.m\d+\.heap$" % victim.pid)
            self.assert_profile(read(path), 60)
        self.assert_unharmed(victim)

    def test_dump_json(self):
        victim = self.victim()
        told = self.run_json("dump", victim.pid)
        self.assertEqual(told["pid"], victim.pid)
        self.assertEqual(os.path.dirname(told["target_path"]), victim.directory)
        self.assertTrue(os.path.samefile(told["path"], told["target_path"]))
        self.assertEqual(told["bytes"], os.path.getsize(told["path"]))
        self.assertTrue(0 < told["held_ns"] < 10**10, told)
        self.assert_unharmed(victim)

    def test_dump_to_a_path(self):
        victim = self.victim()
        wanted = os.path.join(victim.directory, "with space.heap")
        result = self.assert_ran(lib.run_tool("dump", victim.pid, "--path", wanted))
        self.assertTrue(os.path.samefile(result.text.rstrip("\n"), wanted))
        self.assert_profile(read(wanted), 60)
        self.assertEqual(victim.new_files(), ["with space.heap"])
        self.assert_unharmed(victim)

    def test_dump_to_a_relative_path(self):
        """The path is relative to the target's working directory; the printed path opens from here.
        """
        victim = self.victim()
        result = self.assert_ran(
            lib.run_tool("dump", victim.pid, "--path", "relative.heap", cwd="/")
        )
        self.assertEqual(victim.new_files(), ["relative.heap"])
        printed = result.text.rstrip("\n")
        self.assertTrue(printed.startswith("/"), printed)
        self.assertTrue(os.path.samefile(printed, os.path.join(victim.directory, "relative.heap")))

    def test_dump_streamed_to_a_file(self):
        victim = self.victim("epoll_wait")
        before = lib.snapshot(victim.pid)
        sink = os.path.join(self.directory(), "out.heap")
        told = self.run_json("dump", "--call", victim.pid, "-o", sink)
        self.assert_profile(read(sink), 60)
        self.assertEqual(told["bytes"], os.path.getsize(sink))
        self.assertEqual(victim.new_files(), [])
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        self.assert_unharmed(victim)

    def test_dump_streamed_to_stdout(self):
        victim = self.victim()
        result = self.assert_ran(lib.run_tool("dump", "--call", victim.pid, "-o", "-"))
        self.assert_profile(result.out, 60)
        self.assertEqual(victim.new_files(), [])
        self.assert_unharmed(victim)

    def test_streamed_and_plain_dumps_agree(self):
        victim = self.victim()
        plain = self.assert_ran(lib.run_tool("dump", victim.pid)).text.rstrip("\n")
        streamed = self.assert_ran(lib.run_tool("dump", "--call", victim.pid, "-o", "-")).out
        self.assertEqual(samples(read(plain)), samples(streamed))

    def test_a_plain_dump_after_a_streamed_one(self):
        """A streamed dump must leave no state in jemalloc that breaks the next one."""
        victim = self.victim()
        for _ in range(3):
            self.assert_ran(lib.run_tool("dump", "--call", victim.pid, "-o", "-"))
            path = self.assert_ran(lib.run_tool("dump", victim.pid)).text.rstrip("\n")
            self.assert_profile(read(path), 60)
        self.assertEqual(len(victim.new_files()), 3)
        self.assert_unharmed(victim)

    @staticmethod
    def sleeps_for(pid, seconds):
        """True if it is in a nanosleep(2) of that length. The victim's first ones are shorter."""
        words = lib.read_text("/proc/%d/syscall" % pid).split()
        if len(words) < 6 or words[0] not in ("35", "230"):
            return False
        with open("/proc/%d/mem" % pid, "rb") as memory:
            memory.seek(int(words[1 if words[0] == "35" else 3], 16))
            return struct.unpack("<q", memory.read(8))[0] == seconds

    def test_last_line(self):
        # Not epoll_wait: a thread that is stopped twice in a row may not have restarted it yet.
        victim = self.victim("nanosleep", ms=100000)
        self.assertTrue(lib.wait_until(lambda: self.sleeps_for(victim.pid, 100)))
        result = self.switch(victim, "on", "--call")
        self.assertRegex(
            result.err.splitlines()[-1],
            r"^jeattach: victim\[%d\] thread %d stopped for \d+(\.\d+)? (us|ms|s), \d+ calls?, back in \S+"
            % (victim.pid, victim.pid),
        )

    def test_quiet(self):
        victim = self.victim()
        self.assertEqual(self.switch(victim, "on", "-q").err, "")
        result = self.assert_ran(lib.run_tool("dump", "--call", "-q", victim.pid, "-o", "-"))
        self.assertEqual(result.err, "")
        self.assert_profile(result.out, 60)

    def test_pid_as_an_option(self):
        victim = self.victim()
        result = self.assert_ran(lib.run_tool("on", "-p", victim.pid))
        self.assertEqual(result.text, "prof.active: false -> true\nthreads: 1 of 1 sample\n")

    def test_options_after_the_pid(self):
        victim = self.victim()
        result = self.assert_ran(lib.run_tool("on", victim.pid, "-q", "--timeout", "5s"))
        self.assertEqual(result.text, "prof.active: false -> true\nthreads: 1 of 1 sample\n")

    def test_options_before_the_verb(self):
        victim = self.victim()
        for words in (("-q", "on", victim.pid), ("-p", victim.pid, "on"),
                      ("-q", "--", "on", victim.pid), ("--timeout", "5s", "on", victim.pid),
                      ("--timeo=5s", "-qp", victim.pid, "on")):
            with self.subTest(words=words):
                result = self.assert_ran(lib.run_tool(*words))
                self.assertEqual(result.text, "prof.active: false -> true\nthreads: 1 of 1 sample\n")
                self.switch(victim, "off")
        told = json.loads(lib.run_tool("--json", "-n", "victim", "ps").text)
        self.assertIn(victim.pid, [process["pid"] for process in told["processes"]])
        self.assertIn("usage: jeattach dump ", lib.run_tool("--help", "dump").text)
        self.assertRegex(lib.run_tool("-V", "dump").text, r"\Ajeattach \d")
        self.assert_unharmed(victim)

    def test_without_a_verb(self):
        """The verb is ps, with its options."""
        victim = self.victim()
        row = r"(?m)^ *%d +\d+ +victim " % victim.pid
        for words in ((), ("-n", "victim"), ("-q",), ("--timeout", "20s")):
            with self.subTest(words=words):
                self.assertRegex(self.assert_ran(lib.run_tool(*words)).text, row)
        told = json.loads(self.assert_ran(lib.run_tool("--json", "-n", "victim")).text)
        self.assertIn(victim.pid, [process["pid"] for process in told["processes"]])
        for words in (("-n", "no-such-name"), ("-q", "--help"), ("--help",)):
            self.assertNotRegex(self.assert_ran(lib.run_tool(*words)).text, row)

    def test_verbose(self):
        victim = self.victim()
        plain, verbose, twice = (
            self.assert_ran(lib.run_tool("off", victim.pid, *words)).err.splitlines()
            for words in (("--call",), ("--call", "-v"), ("--call", "-vv"))
        )
        self.assertEqual(len(plain), 1, plain)
        self.assertGreater(len(verbose), 1, verbose)
        self.assertEqual(len(twice), len(verbose), twice)

    def assert_writes_afterwards(self, victim, *words):
        """Each line of stderr meets a pipe that is full: meanwhile no thread is stopped."""
        read, write = os.pipe()
        filled = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)

        def fill():
            os.set_blocking(write, False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(write, b"x")
            os.set_blocking(write, True)

        fill()
        tool = self.process([lib.TOOL, *words, "-vv", str(victim.pid)], stderr=write,
                            stdout=subprocess.DEVNULL, env=lib.tool_environment())
        lines = 0

        def blocked():
            with contextlib.suppress(OSError):  # a thread has ended
                return any(lib.read_text("/proc/%d/task/%d/wchan" % (tool.pid, tid)).endswith(
                    "pipe_write") for tid in lib.threads(tool.pid))

        while True:
            self.assertTrue(lib.wait_until(lambda: tool.poll() is not None or blocked()), words)
            if tool.poll() is not None:
                break
            self.assertEqual(lib.tracer_of(victim.pid), 0, (words, lines))
            os.read(read, filled)
            fill()
            lines += 1
        os.close(read)
        os.close(write)
        self.assertEqual(tool.returncode, lib.OK, words)
        self.assertGreater(lines, 0, words)

    def test_stderr_is_not_read(self):
        """A reader that does not read, such as a pager, keeps no thread stopped."""
        victim = self.victim()
        for words in (("on", "--call"), ("dump", "--call", "-o", "/dev/null"), ("dump",),
                      ("stats", "--full"), ("purge",),
                      ("record", "--call", "-d", "1ms", "-o", "/dev/null"),
                      ("off", "--call")):
            self.assert_writes_afterwards(victim, *words)
        self.assert_unharmed(victim, slow=True)

    def test_executable_memory_refused(self):
        """As under SELinux: the call is made without code of the tool's own."""
        victim = self.victim()
        wrote_code = "write to /proc/PID/mem"
        plain = self.assert_ran(lib.run_tool("on", "--call", victim.pid, tool=lib.TRACED_TOOL))
        self.assertIn(wrote_code, plain.err)
        for words in (("off", "--call"), ("on", "--call"), ("dump",),
                      ("dump", "-o", "/dev/null", "--call"), ("stats", "--full")):
            result = lib.run_tool(*words, victim.pid, tool=lib.REFUSED_TOOL)
            self.assertNotIn(wrote_code, self.assert_ran(result).err)
        self.assertIs(self.active(victim), True)
        self.assertEqual(len(victim.new_files()), 1)
        self.assert_unharmed(victim)

    def test_chosen_thread(self):
        victim = self.victim(arguments=("--threads", "4"))
        for tid in lib.threads(victim.pid):
            told = self.run_json("on", victim.pid, "--thread", tid)
            self.assertEqual(told["thread"], tid)
        self.assert_unharmed(victim)

    def test_thread_of_another_process(self):
        victim = self.victim()
        result = lib.run_tool("on", victim.pid, "--thread", os.getpid())
        self.assertIn(result.code, (lib.USAGE, lib.GONE), result)
        self.assertIs(self.active(victim), False)

    def test_only_one_thread_is_stopped(self):
        victim = self.victim("spin", arguments=("--threads", "8"))
        seen = set()
        for _ in range(20):
            tool = self.process(
                [lib.TOOL, "dump", "--call", str(victim.pid), "-o", "/dev/null"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=lib.tool_environment(),
            )
            while tool.poll() is None:
                seen.add(len(traced_together(victim.pid)))
        self.assertEqual(seen, {0, 1})
        self.assert_unharmed(victim)

    def test_many_threads(self):
        victim = self.victim(arguments=("--threads", "64"))
        before = lib.snapshot(victim.pid)
        for _ in range(5):
            self.switch(victim, "on", "--call")
            self.switch(victim, "off", "--call")
        # A thread that has never allocated gets data of jemalloc's by its first call.
        differences = lib.snapshot_differences(victim.pid, before)
        now = lib.covered(lib.mappings(victim.pid))
        new, gone = set(now) - set(before.maps), set(before.maps) - set(now)
        if differences == ["maps"] and all(map(functools.partial(has_grown, gone), new)):
            differences = []
        self.assertEqual(differences, [], (new, gone))
        self.assert_unharmed(victim)

    def test_what_only_looks_makes_no_call(self):
        """--call is an option of those that switch or write."""
        victim = self.victim()
        rows = [(verb, "--call", "this verb has no option --call")
                for verb in ("stats", "status", "frag", "leak", "top", "purge", "mallctl", "explain")]
        rows += [("leak", "--reset", "unknown option '--reset'"),
                 ("leak", "--reset",
                  "fix:   jeattach mallctl PID prof.reset=19, which drops all samples taken so far"),
                 ("top", "--interval=2s", "fix:   --every D"),
                 ("dump", "--force-hooks", "fix:   --allow hooks"),
                 ("stats", "--call", "fix:   leave it out"), ("top", "--share", "fix:   leave it out"),
                 ("top", "--share=1", "unknown option '--share")]
        for verb, option, said in rows:
            with self.subTest(verb=verb, option=option):
                self.assert_failed(lib.run_tool(verb, option, victim.pid), lib.USAGE, said)
        self.assertIs(self.active(victim), False)
        self.assert_unharmed(victim)

    def test_help_and_version(self):
        for word in ("-h", "--help"):
            text = self.assert_ran(lib.run_tool(word)).text
            for verb in ("on", "off", "dump", "status"):
                self.assertRegex(text, r"\b%s\b" % verb)
        for word in ("-V", "--version"):
            self.assertRegex(self.assert_ran(lib.run_tool(word)).text, r"\d+\.\d+")


def has_grown(former, mapping):
    """True if it is one of the former ones and more of the same kind: not one that was left."""
    start, end, kind = mapping
    return any(start <= old[0] and old[1] <= end and old[2] == kind for old in former)


def traced_threads(pid, tids):
    base = "/proc/%d/task" % pid
    return [tid for tid in tids if "TracerPid:\t0\n" not in lib.read_text("%s/%d/status" % (base, tid))]


def traced_together(pid):
    """Returns the threads that are traced. During the first pass the tool may move from one thread
    to the next: only threads that are traced in a second pass as well count."""
    found = traced_threads(pid, lib.threads(pid))
    return found if len(found) < 2 else traced_threads(pid, found)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def samples(profile):
    """Returns the stacks with their counts; the maps of the process follow. The dump's own buffers
    are not sampled while profiling is off."""
    return profile.partition(b"\nMAPPED_LIBRARIES:\n")[0]


if __name__ == "__main__":
    lib.main()
