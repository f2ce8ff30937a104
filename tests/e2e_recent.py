"""jeattach recent: the allocations of known lifetimes, and what is restored whatever happens."""

import collections
import json
import os
import re
import signal
import time

import allocators
import e2e_record
import lib
import releases

EXACT = "prof:true,prof_active:false,lg_prof_sample:0"
COARSE_NS = 10**9 // os.sysconf("SC_CLK_TCK")  # a tick is at most this long


class Lifetimes(allocators.Allocator):
    """tests/victims/lifetimes.c"""

    def __init__(self, case, version="5.3.0", conf=EXACT):
        argv, env = releases.command(version, [os.path.join(lib.VICTIMS, "lifetimes")])
        super().__init__(case.directory(), argv, env, conf)
        case.addCleanup(self.stop)

    def ask(self, line):
        """Returns the bounds of the lifetimes."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer.startswith("ok "):
            raise AssertionError("%r was answered by %r" % (line, answer))
        return [int(word) for word in answer.split()[1:]]


class TestCase(e2e_record.TestCase):
    def start_recent(self, process, *words, **options):
        """Returns when the list is on, and no thread is stopped."""
        return self.start_again("recent", process.pid, "--for", "1h", "-v", *words, **options)

    def interrupted(self, tool):
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        return out.decode(), err

    def length(self, process):
        text = self.use("mallctl", process.pid, "experimental.prof_recent.alloc_max").text
        return int(re.search(r"= (-?\d+)", text)[1])

    def assert_restored(self, process, length=0, active=False):
        self.assertEqual(self.length(process), length)
        self.assert_active(process.pid, active)
        self.assertTrue(process.alive())
        self.assertEqual(process.said(), "")


def calls_of(told, record, which="stack"):
    """The names of the calls of a record, innermost first."""
    return [call["function"] for call in told["stacks"][record[which]]["calls"]]


class Recent(TestCase):
    def test_exact(self):
        """Every allocation, with its lifetime as the program itself has measured it."""
        for version in ("5.3.0", "5.3.1"):
            with self.subTest(version=version):
                process = Lifetimes(self, version)
                process.ask("churn 2 1")  # before: not listed
                tool = self.start_recent(process, "--json")
                low, high = process.ask("churn 7 50")
                told = json.loads(self.interrupted(tool)[0])
                process.ask("churn 2 1")  # after
                self.assert_exact(told, low, high)
                self.assert_restored(process)

    def assert_exact(self, told, low, high):
        made = collections.Counter()
        for record in told["records"]:
            name = calls_of(told, record)[0]
            made[name] += 1
            if name == "short_here":
                self.assertEqual((record["size"], record["usable_size"]), (1000, 1024))
                self.assertIs(record["alive"], False)
                self.assertTrue(low <= record["lifetime_ns"] <= high, (low, high, record))
                self.assertEqual(
                    record["released_ns"] - record["allocated_ns"], record["lifetime_ns"]
                )
                self.assertEqual(calls_of(told, record, "release_stack")[0], "churn")
                self.assertEqual(record["release_thread"], record["thread"])
            elif name == "long_here":
                self.assertEqual((record["size"], record["alive"]), (3000, True))
                for member in ("lifetime_ns", "released_ns", "release_thread", "release_stack"):
                    self.assertIsNone(record[member])
            self.assertEqual(told["taken_ns"] - record["allocated_ns"], record["age_ns"])
            self.assertLess(record["age_ns"], told["sampled_ns"] + 2 * COARSE_NS + 10**9)
        self.assertEqual(made, {"short_here": 7, "long_here": 7})
        times = [record["allocated_ns"] for record in told["records"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual((told["samples"], told["alive"], told["period"]), (14, 7, 1))
        self.assertEqual((told["last"], told["last_before"], told["full"]), (1000, 0, False))
        self.assertIs(told["clock_shared"], True)
        sites = {site["calls"][0]: site for site in told["sites"]}
        short, long = sites["short_here"], sites["long_here"]
        self.assertEqual((short["samples"], short["alive"], short["bytes"]), (7, 0, 7000))
        self.assertEqual((long["samples"], long["alive"], long["bytes"]), (7, 7, 21000))
        self.assertTrue(low <= short["median_lifetime_ns"] <= high)
        self.assertIsNone(long["median_lifetime_ns"])

    def test_table(self):
        process = Lifetimes(self)
        tool = self.start_recent(process, "--sort", "size", "--rows", "3")
        process.ask("churn 5 20")
        text, err = self.interrupted(tool)
        lines = text.splitlines()
        self.assertRegex(lines[0], r"^lifetimes\[%d\], sampled for .*: 10 sampled allocations, "
                                   r"5 still alive; the oldest is " % process.pid)
        self.assertRegex(text, r"(?m)^       5        0 +[\d.]+ ms     1000 B  short_here <- churn <- ")
        self.assertRegex(text, r"(?m)^       5        5           -   2\.93 KiB  long_here <- churn <- ")
        rows = lines[lines.index("") + 1:]
        rows = rows[rows.index("") + 2:]
        self.assertEqual(len(rows), 4, text)
        for row in rows[:3]:
            self.assertRegex(row, r" alive +2\.93 KiB  t0 +long_here \(lifetimes\.c:\d+\)$")
        self.assertEqual(rows[3], "and 7 more allocations (--rows 0 shows all)")
        self.assertIn("prof.active is false again", err)
        self.assert_restored(process)

    def test_last(self):
        """The newest N; the list says that it was full."""
        process = Lifetimes(self)
        tool = self.start_recent(process, "--last", "3", "--json")
        process.ask("churn 4 1")
        told = json.loads(self.interrupted(tool)[0])
        names = [calls_of(told, record)[0] for record in told["records"]]
        self.assertEqual(names, ["long_here", "short_here", "long_here"])
        self.assertEqual((told["last"], told["full"]), (3, True))
        self.assert_restored(process)

    def test_other_thread_releases(self):
        """Names are printed unescaped by jemalloc: the text is no JSON."""
        for version in ("5.3.0", "5.3.1"):
            with self.subTest(version=version):
                process = Lifetimes(self, version)
                process.ask('name a"b\\c,"')
                tool = self.start_recent(process, "--json")
                process.ask("hand 3")
                told = json.loads(self.interrupted(tool)[0])
                self.assertEqual(len(told["records"]), 3)
                for record in told["records"]:
                    self.assertEqual(record["thread"]["name"], 'a"b\\c,"')
                    self.assertIsNone(record["release_thread"]["name"])
                    self.assertNotEqual(record["thread"]["uid"], record["release_thread"]["uid"])
                    self.assertEqual(calls_of(told, record)[0], "hand_here")
                    self.assertEqual(calls_of(told, record, "release_stack")[0], "take")

    def test_for(self):
        process = Lifetimes(self)
        for words in (("--for", "50ms"), ("-d", "50ms")):
            result = self.assert_ran(self.tool("recent", process.pid, *words, "--json"))
            self.assertGreaterEqual(json.loads(result.text)["sampled_ns"], 50 * 10**6)
        result = self.assert_ran(self.tool("recent", process.pid, "--for", "50ms"))
        self.assertIn(": 0 sampled allocations\n", result.text)
        self.assertRegex(result.err, r"a thread stopped 2 times, .* at most")
        self.assert_restored(process)

    def test_several_records_of_text(self):
        """More text than jemalloc's buffer, and than the one that gathers it."""
        process = Lifetimes(self)
        tool = self.start_recent(process, "--json", "--last", "5000")
        process.ask("churn 1000 0")
        told = json.loads(self.interrupted(tool)[0])
        self.assertEqual((len(told["records"]), told["alive"]), (2000, 1000))
        self.assert_restored(process)

    def test_profile(self):
        """In use are the objects that are alive; all of them are accumulated."""
        process = Lifetimes(self)
        path = os.path.join(self.directory(), "x.heap")
        tool = self.start_recent(process, "-o", path)
        process.ask("churn 3 1")
        self.interrupted(tool)
        text = self.read(path).decode()
        self.assertIn("\n  t*: 3: 9216 [6: 12288]\n", text)
        folded = self.assert_ran(self.tool("report", "-f", "folded", path)).text
        self.assertRegex(folded, r"\A.*;churn;long_here 9216\n\Z")
        words = ("report", "-f", "folded", "--value", "alloc_space", path)
        folded = self.assert_ran(self.tool(*words)).text
        self.assertRegex(folded, r"(?m);churn;short_here 3072$")
        self.assert_failed(self.tool("recent", process.pid, "-o", path), lib.OUTPUT_FAILED)
        self.assert_restored(process)

    def test_filter(self):
        process = Lifetimes(self)
        tool = self.start_recent(process, "--focus", "short_here", "--json")
        process.ask("churn 3 1")
        told = json.loads(self.interrupted(tool)[0])
        self.assertEqual((told["samples"], told["alive"], len(told["records"])), (3, 0, 3))
        self.assertEqual([site["calls"][0] for site in told["sites"]], ["short_here"])

    # ---- what is restored ----

    def test_active_and_on_before(self):
        """The program's own list is not shortened; its records are listed."""
        process = Lifetimes(self)
        process.ask("max 2000")
        self.use("on", process.pid)
        process.ask("churn 2 1")
        tool = self.start_recent(process, "--json")
        process.ask("churn 1 1")
        told = json.loads(self.interrupted(tool)[0])
        self.assertEqual((told["last"], told["last_before"], len(told["records"])), (2000, 2000, 6))
        self.assert_restored(process, length=2000, active=True)

    def test_shorter_before(self):
        process = Lifetimes(self)
        process.ask("max 2")
        tool = self.start_recent(process, "--json")
        self.assertEqual(self.length(process), 1000)
        process.ask("churn 3 1")
        told = json.loads(self.interrupted(tool)[0])
        self.assertEqual((told["last_before"], len(told["records"])), (2, 6))
        self.assert_restored(process, length=2)

    def test_changed_by_the_program(self):
        """Its new length stays."""
        process = Lifetimes(self)
        tool = self.start_recent(process, "--json")
        process.ask("max 17")
        told = json.loads(self.interrupted(tool)[0])
        self.assertEqual(told["last"], 17)
        self.assert_restored(process, length=17)

    def test_second_signal(self):
        """While the process is stopped by job control: restored when it runs again."""
        process = Lifetimes(self)
        tool = self.start_recent(process)
        os.kill(process.pid, signal.SIGSTOP)
        tool.send_signal(signal.SIGINT)
        self.assertIn(b"trying again", tool.stderr.readline())
        tool.send_signal(signal.SIGINT)
        time.sleep(0.1)
        os.kill(process.pid, signal.SIGCONT)
        code, out, err = self.end(tool)
        self.assertEqual((code, out), (lib.INTERRUPTED, b""), err)
        self.assert_restored(process)

    def test_killed(self):
        """It stays on, within its bound, until it is switched off as the manual says."""
        process = Lifetimes(self)
        tool = self.start_recent(process, "--last", "4")
        tool.kill()
        tool.wait()
        process.ask("churn 10 1")
        self.assertEqual(self.length(process), 4)
        self.assert_active(process.pid, True)
        self.use("off", process.pid)
        self.use("mallctl", process.pid, "experimental.prof_recent.alloc_max=0")
        self.assert_restored(process)
        process.ask("churn 10 1")

    def test_target_is_killed(self):
        """At once: tests/e2e_gone.py lets it live until a list is kept."""
        process = Lifetimes(self)
        tool = self.start_recent(process, "-v")
        process.process.kill()
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.GONE, err)
        self.assertEqual(bool(out), "is kept" in err, err)
        self.assertIn("cut short" if out else "are lost", err)

    def test_target_is_as_it_was(self):
        victim = self.victim()
        before = lib.snapshot(victim.pid)
        self.assert_ran(self.tool("recent", victim.pid, "--for", "50ms"))
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        self.assert_unharmed(victim)

    # ---- what is refused ----

    def test_absent(self):
        process = allocators.Allocator(
            self.directory(), *releases.command("5.2.1", [os.path.join(lib.VICTIMS, "allocator")]),
            allocators.CONF)
        self.addCleanup(process.stop)
        result = self.tool("recent", process.pid, "--for", "1h", "--json")
        self.assertEqual(result.code, lib.REFUSED, result)
        error = json.loads(result.text)["error"]
        self.assertEqual(error["code"], "recent_absent")
        self.assert_failed(self.tool("recent", process.pid), lib.REFUSED, "5.3.0 or later")
        self.assert_active(process.pid, False)

    def test_unsafe(self):
        """5.3.0 frees the name of a thread at each sample; 5.3.1 does not."""
        conf = EXACT + ",prof_sys_thread_name:true"
        process = Lifetimes(self, conf=conf)
        result = self.tool("recent", process.pid, "--for", "1h")
        self.assert_failed(result, lib.REFUSED, "opt.prof_sys_thread_name")
        self.assert_restored(process)
        process = Lifetimes(self, "5.3.1", conf)
        tool = self.start_recent(process, "--json")
        process.ask("churn 1 1")
        told = json.loads(self.interrupted(tool)[0])
        self.assertEqual(told["records"][0]["thread"]["name"], "lifetimes")

    def test_not_profiling(self):
        process = Lifetimes(self, conf="prof:false")
        self.assert_failed(self.tool("recent", process.pid), lib.PROFILING_OFF, "opt.prof is false")
        self.assertTrue(process.alive())

    def test_usage(self):
        for words in (("--last", "0"), ("--last", "100001"), ("--sort", "x"), ("--no-call",)):
            with self.subTest(words=words):
                self.assert_failed(self.tool("recent", os.getpid(), *words), lib.USAGE)

    def test_dry_run(self):
        process = Lifetimes(self)
        text = self.assert_ran(self.tool("recent", process.pid, "--dry-run")).text
        self.assertIn("mallctl experimental.prof_recent.alloc_dump", text)
        self.assert_restored(process)


if __name__ == "__main__":
    lib.main()
