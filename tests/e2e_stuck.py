"""Processes with pages that never arrive cost only themselves: the others are listed and done."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import unittest

import hostile
import lib
from e2e_ps import Crowd, children, jemalloc_library
from hostile import run_bounded

LONG = lib.LONG
CROWD, CROWD_STUCK = (5000, 20) if LONG else (60, 4)
POLLS = 20 if LONG else 4
PR_SET_CHILD_SUBREAPER = 36
INTERRUPTED = 130
PROCESSES = (56, 57, 58, 435)  # clone, fork, vfork, clone3

libc = ctypes.CDLL(None, use_errno=True)


def waiting(tool):
    """Returns the workers of the tool that wait for a page."""
    found = []
    for pid in children(tool.pid):
        with contextlib.suppress(OSError, KeyError):  # it ends meanwhile
            if lib.state_of(pid) == "D":
                found.append(pid)
    return found


def reads_memory(pid):
    """A process that sleeps in process_vm_readv(2), for a page that does not come."""
    return lib.state_of(pid) == "D" and lib.read_text("/proc/%d/syscall" % pid).startswith("310 ")


class Stuck(hostile.TestCase):
    """They are selected as descendants of the test, so that no other process matters."""

    def setUp(self):
        self.close_memory()
        self.assertEqual(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0)
        self.addCleanup(libc.prctl, PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        self.stuck, self.others = [], []

    def start(self, what, program=os.path.join(lib.VICTIMS, "stuck")):
        """Starts one; what is the word of tests/victims/stuck.c."""
        argv = [program, what]
        env = lib.tool_environment({"LD_PRELOAD": jemalloc_library(),
                                    "MALLOC_CONF": "prof:true,prof_active:false"})
        process = self.process(argv, env=env, stdout=subprocess.PIPE)
        line = process.stdout.readline()
        if line != b"ready\n":
            self.assertEqual(process.wait(), lib.SKIPPED, line)
            self.skipTest(line.decode().strip())
        (self.others if what == "none" else self.stuck).append(process.pid)
        return process

    def start_all(self, count=3):
        """Stuck ones, between two that are not."""
        self.start("none")
        for _ in range(count):
            self.start("data")
        self.start("none")

    def run_family(self, *words, **options):
        return run_bounded(*words, "-s", os.getpid(), **options)

    def assert_listed(self, result, reasons=None):
        """The list is complete but for the stuck ones, which it names."""
        self.assert_bounded(result)
        self.assertEqual(result.code, lib.OK, result)
        answer = json.loads(result.out)
        rows = {row["pid"] for row in answer["processes"]}
        left = {row["pid"]: row for row in answer["left_out_processes"]}
        self.assertEqual(set(self.others) - rows, set(), result)
        self.assertEqual(set(self.stuck) - set(left), set(), result)
        self.assertEqual(set(self.stuck) & rows, set(), result)
        self.assertEqual(answer["left_out"], len(left), result)
        for pid in self.stuck:
            self.assertEqual(left[pid]["name"], "stuck")
            self.assertIn(left[pid]["reason"], reasons or ("no_answer",), result)
            self.assertRegex(result.err, r"process %d \(stuck\) was left out: " % pid)
        return left

    def assert_none_left(self):
        """No worker of the tool is alive, or a zombie: it would be a child of the test."""
        own = set(self.stuck + self.others)

        def left():
            with contextlib.suppress(ChildProcessError):
                for pid in set(children(os.getpid())) - own:
                    os.waitpid(pid, os.WNOHANG)
            return set(children(os.getpid())) - own

        self.assertTrue(lib.wait_until(lambda: not left()), left())

    def test_ps(self):
        self.start_all()
        self.assert_listed(run_bounded("ps", "--json"))
        result = self.assert_bounded(run_bounded("ps"))
        self.assertEqual(result.code, lib.OK, result)
        for pid in self.others:
            self.assertRegex(result.text, r"(?m)^ *%d +%d +stuck +5" % (pid, pid))
        for pid in self.stuck:
            self.assertRegex(result.err, r"process %d .*do not respond.* process_vm_readv" % pid)
        self.assert_none_left()

    def test_names(self):
        """One that was asked for by its name is reported as not done; the others are done. Where
        only one may match, it counts: nobody knows that it is not the one that is meant."""
        self.start_all()
        words = ("status", "--json", "--no-call", "-n", "stuck", "-s", os.getpid())
        result = self.assert_bounded(run_bounded(*words))
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        told = [answer["pid"] for answer in self.json_objects(result.out)]
        self.assertEqual(sorted(told), sorted(self.others))
        for pid in self.stuck:
            self.assertRegex(result.err, r"process %d \(stuck\) was left out" % pid)
        result = self.assert_bounded(run_bounded("status", "-n", "stuck"))
        self.assertEqual(result.code, lib.USAGE, result)
        for pid in self.stuck + self.others:
            self.assertRegex(result.err, r"(?m)^ *%d .*stuck" % pid)
        self.assert_none_left()

    def test_only_name(self):
        """The only match of a name is stuck: the tool does not wait for it again."""
        self.start("data")
        result = self.assert_bounded(run_bounded("status", "--json", "-n", "stuck"))
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertEqual(json.loads(result.out)["error"]["code"], "no_answer")

    def test_all(self):
        """A verb on several does the others, and says which it has left out."""
        self.start_all()
        for words in (("dump", "-o", self.path("%p.heap")), ("explain", "--json"),
                      ("stats", "--json", "--no-call")):
            with self.subTest(words=words):
                result = self.assert_bounded(self.run_family(*words))
                self.assertEqual(result.code, lib.OK, result)
                for pid in self.stuck:
                    self.assertRegex(result.err, r"process %d \(stuck\) was left out" % pid)
                if "--json" in words:
                    told = [answer["pid"] for answer in self.json_objects(result.out)]
                    # Only explain serves this test as well, which has no jemalloc.
                    others = self.others + [os.getpid()] * (words[0] == "explain")
                    self.assertEqual(sorted(told), sorted(others))
        for pid in self.others:
            self.assertTrue(os.path.exists(self.path("%d.heap" % pid)))
        self.assert_none_left()

    def test_slots(self):
        """More stuck processes than are worked on at once: those behind them do not wait. All
        stuck ones are still waited for when the last process is done."""
        self.start_all(6)
        pids = [self.others[0], *self.stuck, self.others[1]]
        tool = self.process([lib.TOOL, "dump", "--timeout", "60s", "-o", self.path("%p.heap"),
                             *map(str, pids)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env=lib.tool_environment())

        self.assertTrue(lib.wait_until(lambda: len(waiting(tool)) == 6 or tool.poll() is not None))
        last = self.path("%d.heap" % pids[-1])
        self.assertTrue(lib.wait_until(lambda: os.path.exists(last) or tool.poll() is not None))
        self.assertEqual(len(waiting(tool)), 6)

    def assert_nothing_kept(self, tool):
        """Looks at `watch` while it looks again and again at a stuck process. A worker is given
        up at each look: its descriptors and its zombie must go before the next one."""
        open_files = {}  # by the worker that waits: of the tool

        def look():
            now = children(tool.pid)
            self.assertLess(len(now), 4, now)
            if len(now) == 1 and waiting(tool) == now:
                count = len(os.listdir("/proc/%d/fd" % tool.pid))
                open_files[now[0]] = min(count, open_files.get(now[0], count))
            return len(open_files) > POLLS or tool.poll() is not None

        self.assertTrue(lib.wait_until(look, 20 * POLLS))
        self.assertIsNone(tool.poll())
        counts = open_files.values()  # one differs where a second worker has worked
        self.assertLess(max(counts) - min(counts), POLLS // 2 + 1, open_files)

    def test_watch(self):
        """It waits for the next process of a name, which a stuck one has, too: that one is looked
        at each second, and the tool keeps nothing of these looks. The next that answers is
        watched."""
        name = "jt%d" % os.getpid()
        program = self.path(name)
        shutil.copy(os.path.join(lib.VICTIMS, "stuck"), program)
        words = ["watch", "-n", name, "--json", "--when", "rss>1G", "-o", self.path("")]
        tool = self.process([lib.TOOL, *words], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, env=lib.tool_environment())
        self.assertEqual(json.loads(tool.stdout.readline())["event"], "waiting")
        stuck = self.start("data", program)
        self.assert_nothing_kept(tool)
        stuck.kill()
        stuck.wait()
        self.start("none", program)
        event = json.loads(tool.stdout.readline())
        self.assertEqual((event["event"], event["pid"]), ("watching", self.others[0]))
        tool.send_signal(signal.SIGINT)
        self.assertEqual(tool.wait(), INTERRUPTED)

    def test_interrupted_alone(self):
        """Ctrl-C once ends a read that would last until the deadline."""
        self.start("data")
        tool = self.process([lib.TOOL, "status", "--timeout", "1h", str(self.stuck[0])],
                            stderr=subprocess.PIPE, env=lib.tool_environment())
        self.assertTrue(lib.wait_until(lambda: reads_memory(tool.pid)))
        tool.send_signal(signal.SIGINT)
        self.assertTrue(lib.wait_until(lambda: tool.poll() is not None))
        self.assertEqual(tool.returncode, INTERRUPTED, tool.stderr.read())

    def test_by_pid(self):
        """Each stuck process that is named by its pid has its own answer."""
        self.start_all(6)
        result = self.assert_bounded(run_bounded("status", "--json", "--timeout", "2s",
                                                 *self.stuck, *self.others))
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        answers = self.json_objects(result.out)
        codes = {answer["error"]["pid"]: answer["error"]["code"]
                 for answer in answers if "error" in answer}
        self.assertEqual(codes, dict.fromkeys(self.stuck, "no_answer"))
        self.assertEqual(len(answers), len(self.stuck) + len(self.others))

    def test_none_answers(self):
        """If all that match are stuck, the reason is the fault."""
        self.start("data")
        result = self.assert_bounded(run_bounded("status", "--json", "-s", self.stuck[0]))
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertEqual(json.loads(result.out)["error"]["code"], "no_answer")
        self.assertIn("process %d " % self.stuck[0], result.err)

    def start_ps(self):
        """Starts `ps --json`, and stops it by SIGSTOP while a worker waits for each stuck page:
        all processes before these have been examined then."""
        tool = lib.Process([lib.TOOL, "ps", "--json"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=lib.tool_environment())

        def waits():
            asleep = waiting(tool)
            return asleep if len(asleep) >= len(self.stuck) else []

        self.assertTrue(lib.wait_until(lambda: waits() or tool.poll() is not None))
        with contextlib.suppress(ProcessLookupError):
            tool.send_signal(signal.SIGSTOP)
        return tool, tool.poll() is None and waits()

    def run_ps_until_it_waits(self, act):
        """Calls act(tool, its workers that wait for a page) while the tool is stopped, then lets
        it go on. On a busy machine it may have ended before: then it is started again."""
        for _ in range(20):
            tool, waits = self.start_ps()
            if waits:
                act(tool, waits)
            tool.send_signal(signal.SIGCONT)
            out, err = tool.communicate(timeout=60)
            if waits:
                return lib.Result(["ps"], tool.returncode, out, err.decode(), 0)
        self.skipTest("ps has always ended first")

    def test_interrupted(self):
        """Ctrl-C once suffices, and what was found is printed."""
        self.start_all()
        result = self.run_ps_until_it_waits(lambda tool, _: tool.send_signal(signal.SIGINT))
        self.assertEqual(result.code, INTERRUPTED, result)
        answer = json.loads(result.out)
        self.assertGreater(answer["left_out"], 0)
        self.assertIn(self.others[0], [row["pid"] for row in answer["processes"]])
        self.assert_none_left()

    def test_killed(self):
        """No worker outlives the tool."""
        self.start_all()
        result = self.run_ps_until_it_waits(lambda tool, _: tool.kill())
        self.assertEqual(result.code, -signal.SIGKILL, result)
        self.assert_none_left()

    def test_lost_worker(self):
        """A worker that is killed costs the process that it was examining."""
        self.start_all()
        result = self.run_ps_until_it_waits(lambda _, waits: os.kill(waits[0], signal.SIGKILL))
        reasons = [row["reason"] for row in json.loads(result.out)["left_out_processes"]]
        self.assertEqual(result.code, lib.OK, result)
        self.assertEqual(sorted(reasons), ["lost", "no_answer", "no_answer"], result)
        self.assertRegex(result.err, "was left out: the worker .* was killed by SIGKILL")
        self.assertIn(self.others[1], [row["pid"] for row in json.loads(result.out)["processes"]])
        self.assert_none_left()

    def test_without_workers(self):
        """Where no process can be made, the tool reads by itself."""
        self.start("none")
        result = self.assert_bounded(run_bounded(
            "ps", "--json", preexec=hostile.refuse_calls(1, *PROCESSES),
            env={"ASAN_OPTIONS": "detect_leaks=0"}))  # it would make a process
        self.assertEqual(result.code, lib.OK, result)
        self.assertIn(self.others[0], [row["pid"] for row in json.loads(result.out)["processes"]])

    def test_crowd(self):
        """A crowd with stuck processes in its midst."""
        first = Crowd(CROWD // 2)
        self.addCleanup(first.stop)
        self.start_all(CROWD_STUCK)
        second = Crowd(CROWD - CROWD // 2)
        self.addCleanup(second.stop)
        result = run_bounded("ps", "--json", "--timeout", "60s")
        self.assert_listed(result)
        answer = json.loads(result.out)
        self.assertGreaterEqual(answer["looked_at"], CROWD + 2)
        print("%d processes, %d of them stuck, in %.2f s with %.1f MB"
              % (answer["looked_at"] + answer["left_out"], answer["left_out"], result.seconds,
                 result.peak / 1e6), flush=True)


if __name__ == "__main__":
    lib.main()
