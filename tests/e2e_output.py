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
        self.assert_untouched(victim, result)

    def test_output_in_no_directory(self):
        victim = self.victim()
        sink = os.path.join(self.directory(), "nosuch", "%p.heap")
        result = self.assert_output_failed(
            lib.run_tool("dump", victim.pid, "-o", sink), sink.replace("%p", str(victim.pid)))
        self.assert_untouched(victim, result)

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
