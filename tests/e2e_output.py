"""Outputs that cannot be written: on the tool's side, on the target's side."""

import os
import subprocess
import time

import lib


class ToolSide(lib.TestCase):
    def assert_output_failed(self, result, *words):
        self.assert_failed(result, lib.OUTPUT_FAILED, *words)
        return result

    def assert_untouched(self, victim, result):
        self.assertNotRegex(result.err, r"\bheld\b")
        self.assertEqual(victim.new_files(), [])
        self.assert_unharmed(victim)

    def test_directory_missing(self):
        victim = self.victim()
        sink = "/nonexistent/directory/x.heap"
        result = self.assert_output_failed(lib.run_tool("dump", victim.pid, "-o", sink), sink)
        self.assertIn("No such file", result.err)
        self.assertIn("fix:   create the directory (mkdir -p /nonexistent/directory), or", result.err)
        spaced = lib.run_tool("dump", victim.pid, "-o", "/nonexistent/it's here/x.heap")
        self.assertIn("(mkdir -p '/nonexistent/it'\\''s here')", spaced.err)
        self.assert_untouched(victim, result)

    def test_output_in_no_directory(self):
        victim = self.victim()
        sink = os.path.join(self.directory(), "nosuch", "%p.heap")
        result = self.assert_output_failed(
            lib.run_tool("dump", victim.pid, "-o", sink), sink.replace("%p", str(victim.pid)))
        self.assert_untouched(victim, result)

    def test_directory_is_made(self):
        """If it is named as one, for its owner alone, and not where a link leads."""
        victim = self.victim()
        place = self.directory()
        made = os.path.join(place, "heaps")
        self.assert_ran(lib.run_tool("dump", victim.pid, "-o", made + "/"))
        self.assertEqual((os.stat(made).st_mode & 0o777, len(os.listdir(made))), (0o700, 1))
        self.assert_ran(lib.run_tool("dump", victim.pid, "-o", made + "/"))
        self.assertEqual(len(os.listdir(made)), 2)
        os.symlink(os.path.join(place, "elsewhere"), os.path.join(place, "link"))
        for name in ("link/", "a/b/"):
            self.assert_output_failed(lib.run_tool("dump", victim.pid, "-o", os.path.join(place, name)))
        self.assertEqual(sorted(os.listdir(place)), ["heaps", "link"])
        self.assert_unharmed(victim)

    def test_output_on_a_full_disk(self):
        victim = self.victim()
        result = lib.run_tool("dump", victim.pid, "-o", "/dev/full")
        self.assert_output_failed(result, "/dev/full", "No space left")
        self.assert_unharmed(victim)

    def test_stdout_on_a_full_disk(self):
        victim = self.victim()
        for words in (("dump", "-o", "-"), ("dump",), ("on",), ("off",), ("status",)):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                result = lib.run_tool(words[0], victim.pid, *words[1:], stdout=full)
                self.assert_output_failed(result)
        self.assert_unharmed(victim)

    def test_stdout_closed(self):
        victim = self.victim()
        for words in ("dump %d -o -", "dump %d", "on %d", "status %d"):
            with self.subTest(words=words):
                command = 'exec "$0" %s >&-' % (words % victim.pid)
                result = lib.run_tool("-c", command, lib.TOOL, tool="/bin/sh")
                self.assertEqual(result.code, lib.OUTPUT_FAILED, result)
        self.assert_unharmed(victim)

    def test_reader_gone(self):
        """A pipe that nobody reads: the tool is not killed by SIGPIPE."""
        victim = self.victim()
        for words in (("dump", "-o", "-"), ("on",), ("dump",)):
            with self.subTest(words=words):
                read_end, write_end = os.pipe()
                os.close(read_end)
                result = lib.run_tool(words[0], victim.pid, *words[1:], stdout=write_end)
                os.close(write_end)
                self.assertEqual(result.code, lib.OUTPUT_FAILED, result)
        self.assert_unharmed(victim)

    def test_slow_reader_holds_nobody(self):
        victim = self.victim("spin")
        tool = self.process(
            [lib.TOOL, "dump", str(victim.pid), "-o", "-"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(),
            pipesize=4096,
        )
        time.sleep(0.5)
        self.assertIsNone(tool.poll(), "the profile fits into the pipe: the test shows nothing")
        self.assert_unharmed(victim, 20)
        out, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.OK, err)
        self.assert_profile(out, 60)

    def test_nothing_is_left_of_a_failed_stream(self):
        """After an output that failed, the next dump is complete."""
        victim = self.victim()
        lib.run_tool("dump", victim.pid, "-o", "/dev/full")
        self.assert_profile(lib.run_tool("dump", victim.pid, "-o", "-").out, 60)
        self.assertEqual(victim.new_files(), [])


class Existing(lib.TestCase):
    """One rule for every verb: an existing file is refused, and --force replaces it."""

    def setUp(self):
        self.target = self.victim()
        self.place = self.directory()
        self.path = os.path.join(self.place, "x.txt")
        self.heap = os.path.join(lib.ROOT, "tests", "fixtures", "5.2.1.heap")

    def commands(self):
        pid, short = self.target.pid, ("-d", "1ms", self.target.pid)
        return (("dump", pid), ("dump", "--call", pid), ("record", *short), ("leak", *short),
                ("report", self.heap))

    def assert_replaced(self):
        text = lib.read_text(self.path)
        self.assertTrue("in use" in text or '{"title": ' in text, text)

    def test_refused_unless_forced(self):
        for words in self.commands():
            for extra in ((), ("--json",)):
                with self.subTest(words=words, extra=extra):
                    with open(self.path, "w") as file:
                        file.write("former")
                    result = lib.run_tool(*words, *extra, "-o", self.path)
                    self.assert_failed(result, lib.OUTPUT_FAILED, self.path, "File exists",
                                       "  fix:   give another name, or --force to replace that file")
                    self.assertNotIn("stopped", result.err)
                    self.assertEqual(lib.read_text(self.path), "former")
                    self.assert_ran(lib.run_tool(*words, *extra, "--force", "-o", self.path))
                    self.assert_replaced()
                    self.assertEqual(os.listdir(self.place), ["x.txt"])
        self.assert_unharmed(self.target)

    def modes(self):
        """Returns the modes of the files in the directory, which it removes."""
        found = set()
        for name in os.listdir(self.place):
            path = os.path.join(self.place, name)
            found.add(oct(os.stat(path).st_mode & 0o7777))
            os.unlink(path)
        return found

    def test_modes(self):
        """A profile is nobody else's, whatever the umask allows; --mode gives it to others."""
        series = os.path.join(self.place, "%p-%t.heap")
        writes = [(*words, "-o", self.path) for words in self.commands()]
        writes += [("dump", self.target.pid, "-o", self.place), ("dump", self.target.pid, "-o", series),
                   ("record", "--every", "1ms", "--count", "2", self.target.pid, "-o", series),
                   ("watch", "--once", "--when", "rss>1K", self.target.pid, "-o", self.place)]
        former = os.umask(0)
        self.addCleanup(os.umask, former)
        for words in writes:
            with self.subTest(words=words):
                self.assert_ran(lib.run_tool(*words))
                self.assertEqual(self.modes(), {"0o600"})
                self.assert_ran(lib.run_tool(*words, "--mode", "646"))
                self.assertEqual(self.modes(), {"0o646"})
        os.umask(0o022)
        self.assert_ran(lib.run_tool("report", self.heap, "-o", self.path, "--mode", "666"))
        self.assertEqual(os.stat(self.path).st_mode & 0o7777, 0o644)
        self.assert_ran(lib.run_tool("report", self.heap, "-o", self.path, "--force"))
        self.assertEqual(self.modes(), {"0o644"})
        self.assert_unharmed(self.target)

    def test_links_are_existing_files(self):
        link = os.path.join(self.place, "link.txt")
        os.symlink("elsewhere.txt", link)
        for words in self.commands():
            with self.subTest(words=words):
                self.assert_failed(lib.run_tool(*words, "-o", link), lib.OUTPUT_FAILED, "--force")
        self.assertEqual(os.listdir(self.place), ["link.txt"])

    def test_what_is_no_file_is_written(self):
        fifo = os.path.join(self.place, "fifo")
        os.mkfifo(fifo)
        for words in self.commands():
            with self.subTest(words=words):
                self.assert_ran(lib.run_tool(*words, "-o", "/dev/null"))
                reader = self.process(["cat", fifo], stdout=subprocess.PIPE)
                self.assert_ran(lib.run_tool(*words, "-f", "text", "-o", fifo))
                self.assertIn(b"in use", reader.communicate(timeout=lib.TOOL_TIMEOUT)[0])
        self.assert_unharmed(self.target)

    def test_file_descriptors(self):
        """Written where the shell has opened them, although their file exists."""
        for name, redirection in (("/dev/stdout", ">"), ("/dev/fd/3", "3>"), ("/dev/fd/1", ">"),
                                  ("/proc/self/fd/4", "4>"), ("-", ">")):
            for words in self.commands():
                with self.subTest(words=words, name=name):
                    with open(self.path, "w") as file:
                        file.write("former")
                    before = os.stat(self.path).st_ino
                    line = ["sh", "-c", 'echo head %s"$0"; exec "$@" %s>"$0"' % (
                        ">", redirection[:-1] + ">"), self.path, lib.TOOL, *map(str, words),
                            "-f", "text", "-o", name]
                    done = subprocess.run(line, capture_output=True, timeout=lib.TOOL_TIMEOUT,
                                          env=lib.tool_environment())
                    self.assertEqual(done.returncode, lib.OK, done.stderr)
                    text = lib.read_text(self.path)
                    self.assertTrue(text.startswith("head\n"), text)
                    self.assertIn("in use", text)
                    self.assertEqual(os.stat(self.path).st_ino, before)
        self.assertEqual(os.listdir(self.place), ["x.txt"])
        self.assert_unharmed(self.target)

    def test_descriptors_of_the_tool_are_no_outputs(self):
        """Only those that it was started with: its own lead to the memory of the target."""
        for number in range(3, 20):
            result = lib.run_tool("dump", "-f", "text", self.target.pid, "-o", "/dev/fd/%d" % number)
            self.assert_failed(result, lib.OUTPUT_FAILED, "/dev/fd/%d" % number)
        self.assert_unharmed(self.target)

    def test_path_in_the_target(self):
        path = os.path.join(self.target.directory, "x.heap")
        with open(path, "w") as file:
            file.write("former")
        result = lib.run_tool("dump", self.target.pid, "--path", path)
        self.assert_failed(result, lib.OUTPUT_FAILED, path, "exists in the target", "--force")
        self.assertEqual(lib.read_text(path), "former")
        self.assert_ran(lib.run_tool("dump", self.target.pid, "--force", "--path", path))
        self.assert_profile(lib.read_bytes(path), 60)
        self.assert_unharmed(self.target)

    def test_generated_names_get_numbers(self):
        for words in (("dump",), ("record", "-d", "1ms")):
            for _ in range(2):
                path = os.path.join(self.place, "%p.heap")
                self.assert_ran(lib.run_tool(*words, self.target.pid, "-o", path))
        names = ["%d%s.heap" % (self.target.pid, end) for end in ("", "-1", "-2", "-3")]
        self.assertEqual(sorted(os.listdir(self.place)), sorted(names))
        result = lib.run_tool("dump", "--force", self.target.pid, "-o", path)
        self.assert_failed(result, lib.USAGE, "always new ones")


class TargetSide(lib.TestCase):
    def assert_refused(self, victim, result, *words):
        self.assert_failed(result, lib.REFUSED, *words)
        self.assertIn("\n  cause: ", result.err)
        self.assert_unharmed(victim)

    def test_target_directory_missing(self):
        victim = self.victim()
        path = "/nonexistent/directory/x.heap"
        result = lib.run_tool("dump", victim.pid, "--path", path)
        self.assert_refused(victim, result, path, "No such file or directory")

    def test_target_path_is_a_directory(self):
        victim = self.victim()
        result = lib.run_tool("dump", victim.pid, "--path", victim.directory)
        self.assert_refused(victim, result, victim.directory, "Is a directory")

    def test_target_prefix_in_a_missing_directory(self):
        victim = self.victim(
            conf="prof:true,prof_active:false,lg_prof_sample:12,prof_prefix:/nonexistent/jeprof"
        )
        result = lib.run_tool("dump", victim.pid)
        self.assert_refused(victim, result, "/nonexistent/jeprof.", "No such file or directory")
        self.assert_profile(lib.run_tool("dump", victim.pid, "-o", "-").out, 60)

    def test_target_disk_full(self):
        victim = self.victim()
        result = lib.run_tool("dump", victim.pid, "--path", "/dev/full")
        self.assert_refused(victim, result, "/dev/full", "No space left on device")
        self.assert_profile(lib.run_tool("dump", victim.pid, "-o", "-").out, 60)

    def test_target_directory_not_writable(self):
        lib.require_root()
        place = self.directory()
        path = os.path.join(place, "x.heap")
        victim = self.victim(user=lib.NOBODY)
        result = lib.run_tool("dump", victim.pid, "--path", path)
        self.assert_refused(victim, result, path, "Permission denied")
        self.assertEqual(os.listdir(place), [])

    def test_stream_of_a_process_that_may_write_nothing(self):
        lib.require_root()
        victim = self.victim(user=lib.NOBODY)
        result = self.assert_ran(lib.run_tool("dump", victim.pid, "-o", "-"))
        self.assert_profile(result.out, 60)
        self.assertEqual(victim.new_files(), [])
        self.assert_unharmed(victim)


if __name__ == "__main__":
    lib.main()
