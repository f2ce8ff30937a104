"""Job control stops the tool: never while a thread is stopped, and like any program elsewhere."""

import json
import os
import pty
import shutil
import signal
import subprocess
import unittest

import hostile
import lib

STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
# In a session with a terminal: the job is stopped, its parent is notified, and it continues.
JOB = """
stty tostop
%s
: > stopped
until [ -e continue ]; do sleep 0.01; done
fg
echo $? > code
"""
FOREGROUND = '"$@" > out'
BACKGROUND = '"$@" > out & echo $! > pid'


class TestCase(hostile.TestCase):
    def waiting(self):
        """A process whose prof.dump and malloc_stats_print last until the file `go` exists."""
        self.place = self.directory()
        return self.hostile(HOSTILE="wait", cwd=self.place)

    def file(self, name):
        return os.path.join(self.place, name)

    def make(self, name):
        with open(self.file(name), "w"):
            pass

    def wait_for(self, name):
        self.assertTrue(lib.wait_until(lambda: os.path.exists(self.file(name))), name)

    def start(self, *words):
        """In a process group that is not orphaned: job control does not stop an orphaned one."""
        return self.process(
            [lib.TOOL] + [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(),
            preexec_fn=lambda: os.setpgid(0, 0),
        )

    def has_come(self, pid, number):
        """The signal has stopped the process, or is pending."""
        pending = int(lib.status_fields(pid)["ShdPnd"], 16)
        return lib.state_of(pid) == "T" or pending >> (number - 1) & 1

    def assert_let_go(self, victim):
        self.assertTrue(
            lib.wait_until(lambda: lib.tracer_of(victim.pid) == 0),
            "the stopped tool holds a thread",
        )
        self.assertTrue(lib.wait_until(lambda: lib.state_of(victim.pid) in "SR"))


class DuringHold(TestCase):
    def stop_in_call(self, number, *words):
        victim = self.waiting()
        tool = self.start(words[0], victim.pid, *words[1:])
        self.wait_for("called")
        self.assertNotEqual(lib.tracer_of(victim.pid), 0)
        tool.send_signal(number)
        self.assertTrue(lib.wait_until(lambda: self.has_come(tool.pid, number)))
        self.make("go")
        self.assert_let_go(victim)
        self.assertTrue(lib.wait_until(lambda: lib.state_of(tool.pid) == "T"), "not stopped")
        self.assertEqual(lib.tracer_of(victim.pid), 0)
        tool.send_signal(signal.SIGCONT)
        out, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.OK, err)
        self.assert_untraced(victim)
        return out

    def test_dump(self):
        for number in STOPS:
            with self.subTest(number=number):
                out = self.stop_in_call(number, "dump", "--call", "-o", "-")
                self.assertTrue(out.startswith(b"heap_v2/4096\n"), out)

    def test_file_of_the_target(self):
        out = self.stop_in_call(signal.SIGTSTP, "dump")
        self.assertEqual(out.decode().strip(), self.file("profile"))

    def test_report(self):
        out = self.stop_in_call(signal.SIGTSTP, "stats", "--full", "--json")
        self.assertEqual(json.loads(out), {"jemalloc": {}})

    def test_record(self):
        """Also while a verb stops a thread for the last time."""
        out = self.stop_in_call(signal.SIGTSTP, "record", "--call", "-d", "10ms", "-o", "-")
        self.assertTrue(out.startswith(b"heap_v2/4096\n"), out)

    def test_continued_before_the_end(self):
        """SIGCONT cancels a stop that has not taken effect yet."""
        victim = self.waiting()
        tool = self.start("dump", "--call", victim.pid, "-o", "-")
        self.wait_for("called")
        tool.send_signal(signal.SIGTSTP)
        self.assertTrue(lib.wait_until(lambda: self.has_come(tool.pid, signal.SIGTSTP)))
        tool.send_signal(signal.SIGCONT)
        self.make("go")
        out, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.OK, err)
        self.assertTrue(out.startswith(b"heap_v2/4096\n"), out)


class OnTerminal(TestCase):
    def job(self, script, *words):
        """A shell with job control on a terminal of its own, in self.place; its terminal."""
        if not shutil.which("sh"):
            raise unittest.SkipTest("there is no shell")
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        argv = ["setsid", "--ctty", "sh", "-m", "-c", JOB % script, "sh"]
        self.shell = self.process(argv + [lib.TOOL] + [str(word) for word in words], stdin=slave,
                                  stdout=slave, stderr=slave, cwd=self.place,
                                  env=lib.tool_environment())
        return master

    def assert_finishes(self, code):
        self.make("continue")
        self.assertTrue(lib.wait_until(lambda: self.shell.poll() is not None))
        self.assertEqual(lib.read_text(self.file("code")), "%d\n" % code)

    def test_ctrl_z(self):
        victim = self.waiting()
        master = self.job(FOREGROUND, "dump", "--call", victim.pid, "-o", "-")
        self.wait_for("called")
        tool = lib.tracer_of(victim.pid)
        os.write(master, b"\x1a")
        self.assertTrue(lib.wait_until(lambda: self.has_come(tool, signal.SIGTSTP)))
        self.make("go")
        self.wait_for("stopped")
        self.assert_let_go(victim)
        self.assert_finishes(lib.OK)
        self.assertTrue(lib.read_text(self.file("out")).startswith("heap_v2/4096\n"))

    def test_words_of_a_job_in_the_background(self):
        """With `stty tostop` its first line on stderr stops it: that is after the call."""
        victim = self.waiting()
        self.job(BACKGROUND, "dump", "--call", "-v", victim.pid, "-o", "-")
        self.wait_for("stopped")
        pid = int(lib.read_text(self.file("pid")))
        self.wait_for("called")
        self.make("go")
        self.assertTrue(lib.wait_until(lambda: lib.state_of(pid) == "T"), "not stopped")
        self.assert_let_go(victim)
        self.assert_finishes(lib.OK)
        self.assertTrue(lib.read_text(self.file("out")).startswith("heap_v2/4096\n"))


class BetweenHolds(TestCase):
    def test_pause(self):
        """While no thread is stopped the signal takes effect at once."""
        victim = self.waiting()
        self.make("go")
        tool = self.start("record", "--call", "-d", "1h", "-o", "-", victim.pid)
        self.assertTrue(lib.wait_until(lambda: self.waits(tool.pid)))
        tool.send_signal(signal.SIGTSTP)
        self.assertTrue(lib.wait_until(lambda: lib.state_of(tool.pid) == "T"), "not stopped")
        self.assertEqual(lib.tracer_of(victim.pid), 0)
        tool.send_signal(signal.SIGCONT)
        self.assertTrue(lib.wait_until(lambda: self.waits(tool.pid)), "not continued")
        tool.send_signal(signal.SIGINT)
        out, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.INTERRUPTED, err)
        self.assertTrue(out.startswith(b"heap_v2/4096\n"), out)

    @staticmethod
    def waits(pid):
        """In the ppoll(2) between two calls."""
        return lib.read_text("/proc/%d/syscall" % pid).startswith("271 ")


if __name__ == "__main__":
    lib.main()
