"""jeattach top: on a terminal and elsewhere, with its keys, signals, and targets that end."""

import contextlib
import fcntl
import json
import os
import pty
import random
import re
import resource
import select
import signal
import struct
import subprocess
import termios
import time

import allocators
import e2e_name_bombs
import freezing
import hostile
import lib
from e2e_ps import jemalloc_library

SITES = os.path.join(lib.VICTIMS, "sites")
SMALL = 64000  # bytes of one keep_small
MANY = 8000  # stacks: a profile of 2 MB, which takes more than a millisecond on any machine
ENTER, LEAVE = "\033[?1049h", "\033[?1049l"
LIMIT = 12  # seconds until a condition must be true
OFTEN = ("--every", "100ms")


class TestCase(hostile.TestCase):
    def unreadable(self):
        """Memory does not show its profile: refreshes make calls."""
        return self.hostile(HOSTILE="", cwd=self.directory())

    def sites(self, conf="prof:true,lg_prof_sample:0", stacks=0):
        process = self.process(
            [SITES, str(stacks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=lib.tool_environment({"MALLOC_CONF": conf}),
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def grow(self, process):
        process.stdin.write(b"x")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"grown\n")

    def assert_left_alone(self, process):
        """It continues, and is not traced."""
        self.assertIsNone(process.poll())
        self.assertEqual(lib.tracer_of(process.pid), 0)
        self.grow(process)


def sites_of(look):
    """Returns the bytes by innermost function."""
    found = {}
    for site in look["sites"]:
        found[site["calls"][0]] = found.get(site["calls"][0], 0) + site["bytes"]
    return found


CALLER = """
.text
.globl bomb
.type bomb,@function
.p2align 6
bomb: push %rbp
mov %rsp,%rbp
call *%rdi
pop %rbp
ret
.p2align 6
.size bomb,64
"""
HOST = """
#include <stdlib.h>
#include <unistd.h>
void bomb(void (*)(void));
static void allocate(void) { if (!malloc(100000)) abort(); }
int main(void)
{
    for (int i = 0; i < 100; i++) bomb(allocate);
    if (write(1, "ready\\n", 6) == 6) pause();
}
"""


class Names(TestCase):
    """The names of a process take far longer than there is time."""

    def put(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def start_bomb(self):
        """A process with a library whose entries of debug information cost minutes."""
        self.folder = self.directory()
        parts = {"rows": 1, "children": 1, "entries": ".fill 1000000,1,2\n.byte 0",
                 "abbreviations": ".byte 2,0x2e,0\n.rept 200000\n.byte 0x3f,0x19\n.endr\n"
                                  ".byte 0,0"}
        bomb, host = os.path.join(self.folder, "bomb.so"), os.path.join(self.folder, "host")
        subprocess.run(["gcc", "-shared", "-nostdlib", "-o", bomb, self.put(
            "bomb.s", CALLER + e2e_name_bombs.DEBUG % parts + e2e_name_bombs.NO_STACK)], check=True)
        subprocess.run(["gcc", "-o", host, self.put("host.c", HOST), bomb], check=True)
        process = self.process([host], stdout=subprocess.PIPE, env=lib.tool_environment(
            {"LD_PRELOAD": jemalloc_library(), "MALLOC_CONF": "prof:true,lg_prof_sample:9"}))
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def start_top(self, *words):
        """Starts it, and waits until its child reads the library."""
        tool = self.process([lib.TOOL, "top", "--json", *words], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=lib.tool_environment())
        children = "/proc/%d/task/%d/children" % (tool.pid, tool.pid)
        self.assertTrue(lib.wait_until(lambda: lib.read_text(children) or tool.poll() is not None))
        return tool

    def test_ctrl_c_among_names(self):
        """Once suffices."""
        process = self.start_bomb()
        tool = self.start_top(str(process.pid), "--timeout", "1h")
        time.sleep(0.2)
        tool.send_signal(signal.SIGINT)
        self.assertIn(tool.wait(LIMIT), (lib.OK, lib.INTERRUPTED))
        self.assertNotIn(b'"bomb"', tool.stdout.read())

    def test_deadline_of_names(self):
        """A refresh comes without what there was no time for: without a deadline the debug
        information is read for 5 s of CPU time."""
        process = self.start_bomb()
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        tool = self.start_top(str(process.pid), "--count", "2", "--every", "1s", "--timeout", "1s")
        out, err = tool.communicate(timeout=LIMIT)
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        self.assertEqual(tool.returncode, lib.OK, err)
        self.assertEqual(len(out.splitlines()), 2, err)
        self.assertRegex(out, rb'"bomb"|bomb\.so\+')
        self.assertLess(used, 4.5)


class Blocks(TestCase):
    """Runs it with a stdout that is not a terminal."""

    def top(self, process, *words):
        return self.assert_ran(lib.run_tool("top", *words, process.pid))

    def test_once(self):
        process = self.sites()
        before = lib.snapshot(process.pid)
        result = self.top(process, "--once", "--no-inlines")
        self.assertNotIn("\033", result.text)
        self.assertRegex(result.text, r"\Asites\[%d\]  jemalloc [\d.]+ " % process.pid)
        self.assertRegex(result.text, r"\n +640 KiB +\d+\.\d% .* keep_large <- ")
        self.assertRegex(result.text, r"\n +62\.5 KiB +\d+\.\d% .* keep_small <- main")
        for name in ("RSS", "in use", "slabs", "free pages", "own data", "outside", "padding", "sampling"):
            self.assertRegex(result.text, r"\b%s +\d+(\.\d+)? [KM]?i?B" % name)
        self.assertRegex(result.err, r"\Ajeattach: sites\[\d+\] profile read from memory in .*; "
                                     r"no thread was stopped\n\Z")
        self.assertEqual(lib.snapshot_differences(process.pid, before), [])
        self.assert_left_alone(process)

    def test_blocks(self):
        process = self.sites()
        text = self.top(process, "--count", "2", *OFTEN, "--rows", "1").text
        blocks = text.split("\n\n" + "sites[")
        self.assertEqual(len(blocks), 2, text)
        self.assertNotIn("\033", text)
        self.assertIn("rates follow with the next refresh", blocks[0])
        self.assertRegex(blocks[1], r"\n(steady|growing|shrinking): ")
        self.assertEqual([len(re.findall(r" \d+\.\d% ", block)) for block in blocks], [1, 1])

    def test_filters(self):
        process = self.sites()
        text = self.top(process, "--once", "--hide", "keep_small").text
        self.assertNotIn("keep_small", text)
        self.assertIn("keep_large", text)
        self.assertNotIn("keep_large", self.top(process, "--once", "--ignore", "large").text)

    def test_target_of_each_release(self):
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.release(version, link)
                allocator.ask("work 3000")
                look = json.loads(self.top(allocator, "--once", "--json").text)
                self.assertEqual(look["profiling"], "active")
                self.assertGreater(look["profile"]["bytes"], 0)
                self.assertGreater(look["profile"]["stacks"], 0)
                self.assertTrue(look["version"].startswith(version))
                own = json.loads(allocator.own_stats("J"))["jemalloc"]["stats"]
                gauges = look["gauges"]
                counted = sum(gauges[name] for name in ("in_use", "sampling", "slabs", "padding"))
                self.assertLess(counted - own["active"], 1 << 20)
                self.assertGreater(counted + gauges["absent"] - own["active"], -(1 << 20))
                allocators.TestCase.assert_well(self, allocator)

    def release(self, version, link):
        return allocators.TestCase.allocator(
            self, version, link, conf="prof:true,prof_active:true,lg_prof_sample:12")

    def test_gauges_only(self):
        rows = (
            ("prof:false", "opt.prof is false", "next: start it with MALLOC_CONF=prof:true"),
            ("prof:true,prof_active:false", "prof.active is false", "next: jeattach on %d"),
        )
        for conf, why, what in rows:
            with self.subTest(conf=conf):
                process = self.sites(conf)
                text = self.top(process, "--once").text
                self.assertIn("counts only: ", text)
                self.assertIn(why, text)
                self.assertIn(what % process.pid if "%d" in what else what, text)
                self.assertRegex(text, r"in use +\d")
                look = json.loads(self.top(process, "--once", "--json").text)
                self.assertNotIn("sites", look)
                self.assertTrue(look["next"])

    def test_wrong_words(self):
        pid = os.getpid()
        rows = (
            ([pid, pid], "one process"),
            (["--every", "10ms", pid], "100ms"),
            (["--sort", "name", pid], "cur, growth"),
            (["--once", "--count", "2", pid], "--once"),
            (["--count", "0", pid], "number"),
            (["--rows", "x", pid], "rows"),
        )
        for words, said in rows:
            result = lib.run_tool("top", *words)
            self.assertEqual((result.code, result.out), (lib.USAGE, b""), result)
            self.assertIn(said, result.err)

    def test_output_that_is_not_taken(self):
        process = self.sites()
        with open("/dev/full", "wb") as full:
            result = lib.run_tool("top", "--once", process.pid, stdout=full)
        self.assertEqual(result.code, lib.OUTPUT_FAILED, result)
        self.assert_left_alone(process)


class FromMemory(TestCase):
    """Without a call, the default: no thread is stopped, and nothing slows the refreshes down."""

    def looks(self, process, *words):
        result = self.assert_ran(lib.run_tool("top", "--json", *words, process.pid))
        return [json.loads(line) for line in result.text.splitlines()]

    def test_ten_a_second(self):
        process = self.sites(stacks=MANY)
        looks = self.looks(process, "--every", "100ms", "--count", "10", "--no-inlines")
        self.assertEqual(len(looks), 10)
        for look in looks:
            self.assertEqual((look["way"], look["calls"], look["held_ns"]), ("memory", 0, 0))
            self.assertEqual(look["interval_ns"], 10**8)
            self.assertGreater(look["read_ns"], 0)
            self.assertGreaterEqual(look["profile"]["stacks"], MANY)
            self.assertEqual(sites_of(look)["keep_small"], SMALL)
        self.assert_left_alone(process)

    def test_words(self):
        process = self.sites()
        result = self.assert_ran(lib.run_tool("top", "--count", "2", "--every", "100ms", process.pid))
        self.assertRegex(result.text, r"(?m)^no thread stopped; profile read in [\d.]+ (us|ms), at "
                                      r"most [\d.]+ (us|ms); every 100 ms$")
        self.assertRegex(result.text, r"\n +640 KiB +\d+\.\d% .* keep_large <- ")
        self.assertRegex(result.err, r"profile read from memory 2 times, in .* at most: ")

    def test_growth_while_it_is_stopped(self):
        """A stopped target is shown as before; the growth before that is seen."""
        process = self.sites()
        tool = self.process(
            [lib.TOOL, "top", "--no-call", "--json", "--every", "100ms", "--no-inlines",
             str(process.pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=lib.tool_environment(), text=True)
        self.assertEqual(sites_of(json.loads(tool.stdout.readline()))["keep_small"], SMALL)
        self.grow(process)
        process.send_signal(signal.SIGSTOP)
        self.assertTrue(lib.wait_until(lambda: lib.state_of(process.pid) == "T"))
        last = [json.loads(tool.stdout.readline()) for _ in range(3)][-1]
        self.assertIsNone(last["missed"])
        self.assertEqual(sites_of(last)["keep_small"], 2 * SMALL)
        process.send_signal(signal.SIGCONT)
        tool.send_signal(signal.SIGINT)
        tool.communicate(timeout=LIMIT)
        self.assertEqual(tool.returncode, lib.OK)
        self.assert_left_alone(process)

    def test_cache_that_renews_itself(self):
        """Its objects are older than the sampling: new ones that samples know replace them, which
        is no growth. The leak of a tenth of it is named as soon as the counts decide."""
        program = os.path.join(self.directory(), "renewing")
        source = os.path.join(lib.ROOT, "tests", "seeded", "renewing.c")
        subprocess.run(["gcc", "-g", "-O2", source, "-o", program], check=True)
        process = self.process([program], stdout=subprocess.PIPE, env=lib.tool_environment({
            "LD_PRELOAD": jemalloc_library(),
            "MALLOC_CONF": "prof:true,prof_active:false,lg_prof_sample:14"}))
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assert_ran(lib.run_tool("on", process.pid))
        tool = self.process(
            [lib.TOOL, "top", "--no-call", "--json", "--every", "300ms", "--sort", "growth",
             str(process.pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=lib.tool_environment(), text=True)
        for _ in range(200):
            look = json.loads(tool.stdout.readline())
            told = {site["calls"][0]: site for site in look.get("sites", [])}
            self.assertNotIn(told.get("cache_put", {}).get("verdict"), ("grows", "stopped"), look)
            if told.get("keep_for_ever", {}).get("verdict") == "grows":
                break
        self.assertEqual(told["keep_for_ever"]["verdict"], "grows", look)
        self.assertEqual(look["profile"]["evidence"], "exact")
        self.assertEqual(look["sites"][0]["calls"][0], "keep_for_ever")
        tool.send_signal(signal.SIGINT)
        tool.communicate(timeout=LIMIT)
        self.assertEqual(tool.returncode, lib.OK)

    def test_profiling_is_off(self):
        for conf, state in (("prof:false", "disabled"), ("prof:true,prof_active:false", "inactive")):
            for way in ((), ("--no-call",)):
                with self.subTest(conf=conf, way=way):
                    look = self.looks(self.sites(conf), "--once", *way)[0]
                    self.assertEqual(look["profiling"], state)
                    self.assertGreater(look["gauges"]["rss"], 0)


class Lines(TestCase):
    """--json, read while it runs."""

    def start(self, process, *words):
        tool = self.process(
            [lib.TOOL, "top", "--json", *OFTEN, *words, str(process.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(),
            text=True,
        )
        return tool

    def look(self, tool):
        """Returns the next line, without those about a refresh that failed."""
        for _ in range(100):
            line = tool.stdout.readline()
            self.assertTrue(line.endswith("\n"), "no more lines")
            look = json.loads(line)
            if not look["missed"]:
                return look
        raise AssertionError("a hundred refreshes brought nothing")

    def finish(self, tool, number=signal.SIGINT):
        tool.send_signal(number)
        _, err = tool.communicate(timeout=LIMIT)
        return tool.returncode, err

    def test_growth(self):
        process = self.sites()
        tool = self.start(process, "--no-inlines", "--sort", "growth")
        first = self.look(tool)
        self.assertEqual(first["refresh"], 1)
        self.assertEqual(sites_of(first)["keep_small"], SMALL)
        self.assertIsNone(first["per_second"]["in_use"])
        self.grow(process)
        self.grow(process)
        rated = False
        for _ in range(100):
            look = self.look(tool)
            rated |= look["per_second"]["in_use"] is not None
            if sites_of(look)["keep_small"] == 3 * SMALL:
                break
        site = look["sites"][0]
        self.assertEqual(site["calls"][:2], ["keep_small", "main"])
        self.assertEqual((site["bytes"], site["objects"]), (3 * SMALL, 3000))
        self.assertEqual(site["growth_since_start"], 2 * SMALL)
        self.assertEqual(site["growth"], 2 * SMALL)
        self.assertTrue(site["growth_low"] <= 2 * SMALL <= site["growth_high"], site)
        self.assertGreater(site["growth_per_second"], 0)
        self.assertGreater(look["gauges"]["rss"], 0)
        for _ in range(100):  # counts that would take more than a tenth of the time come later
            if rated:
                break
            rated = self.look(tool)["per_second"]["in_use"] is not None
        self.assertTrue(rated)
        self.assertGreaterEqual(look["interval_ns"], 10**8)
        self.assertEqual(look["held_ns"], 0)
        self.assertEqual(self.finish(tool)[0], lib.OK)
        self.assert_left_alone(process)

    def test_number_of_refreshes(self):
        process = self.sites()
        tool = self.start(process, "--count", "3")
        out, err = tool.communicate(timeout=LIMIT)
        looks = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(tool.returncode, lib.OK, err)
        self.assertEqual(len(looks), 3)
        self.assertEqual(len({look["time_ns"] for look in looks}), 3)

    def test_interrupted_before_its_number(self):
        process = self.sites()
        for number in (signal.SIGINT, signal.SIGTERM):
            tool = self.start(process, "--count", "1000")
            self.look(tool)
            self.assertEqual(self.finish(tool, number)[0], lib.INTERRUPTED)
        self.assert_left_alone(process)

    def test_target_ends(self):
        process = self.sites()
        tool = self.start(process)
        self.look(tool)
        process.kill()
        process.wait()
        _, err = tool.communicate(timeout=LIMIT)
        self.assertEqual(tool.returncode, lib.GONE, err)
        self.assertIn("ended", err)
        self.assertIn("cannot continue to show process %d (sites)" % process.pid, err)

    def test_switched_on_meanwhile(self):
        process = self.sites("prof:true,prof_active:false,lg_prof_sample:0")
        tool = self.start(process, "--no-inlines")
        self.assertEqual(self.look(tool)["profiling"], "inactive")
        self.assert_ran(lib.run_tool("on", process.pid))
        self.grow(process)
        for _ in range(100):
            look = self.look(tool)
            if "sites" in look and sites_of(look).get("keep_small") == SMALL:
                break
        self.assertEqual(look["profiling"], "active")
        self.assertEqual(sites_of(look)["keep_small"], SMALL)
        self.assertEqual(self.finish(tool)[0], lib.OK)

    def test_interval_grows(self):
        """At most 1 % of the time, whatever was requested; and the output shows it."""
        process = self.unreadable()
        look = json.loads(self.assert_ran(
            lib.run_tool("top", "--json", "--every", "100ms", "--count", "1", process.pid)).text)
        self.assertEqual((look["way"], look["profile"]["stacks"]), ("call", 1))
        if look["held_ns"] <= 10**6:
            self.skipTest("the target was held for less than 1 % of 100 ms")
        held = look["held_ns"]
        self.assertGreaterEqual(look["interval_ns"], min(100 * held, max(10**10, 10 * held)))
        text = self.assert_ran(
            lib.run_tool("top", "--every", "100ms", "--count", "1", process.pid)).text
        self.assertRegex(text, r"every [\d.]+ \w+, not 100 ms, to stay below 1 %\n")

    def assert_misses(self, hold, release, word):
        """A refresh that fails is reported, and the next one is tried."""
        process = self.unreadable()
        tool = self.start(process)
        self.look(tool)
        hold(process)
        try:
            for _ in range(100):
                look = json.loads(tool.stdout.readline())
                if look["missed"]:
                    break
            self.assertIn(word, look["missed"])
        finally:
            release(process)
        self.look(tool)
        self.assertEqual(self.finish(tool)[0], lib.OK)
        self.assert_untraced(process)

    def test_stopped_target(self):
        self.assert_misses(lambda process: process.send_signal(signal.SIGSTOP),
                           lambda process: process.send_signal(signal.SIGCONT), "stopped")

    def test_frozen_target(self):
        """A frozen target is as transient as a stopped one."""
        freezers = []

        def freeze(process):
            freezers.append(freezing.any_version(self, process.pid))
            freezers[0].freeze(self)

        self.assert_misses(freeze, lambda _: freezers[0].thaw(), "frozen")


class Terminal:
    """The tool on a terminal of its own."""

    def __init__(self, test, columns, lines, *words):
        self.test = test
        self.master, self.slave = pty.openpty()
        test.addCleanup(os.close, self.slave)
        test.addCleanup(os.close, self.master)
        self.resize(columns, lines)
        self.former = termios.tcgetattr(self.slave)
        self.text = ""
        self.tool = test.process(
            [lib.TOOL, "top"] + [str(word) for word in words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env=lib.tool_environment({"TERM": "xterm"}),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def resize(self, columns, lines):
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def write(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds=0.05):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            with contextlib.suppress(OSError):
                self.text += os.read(self.master, 1 << 16).decode(errors="replace")

    def wait(self, condition):
        """Reads the screen until the condition is true."""
        deadline = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError("not shown: %r" % self.text[-3000:])
            self.read()

    def frames(self):
        """Returns the complete pictures so far, as lists of lines without escapes."""
        parts = self.text.partition(ENTER)[2].split("\033[H")[1:]
        done = [part.partition("\033[J")[0] for part in parts if "\033[J" in part]
        plain = [re.sub(r"\033\[[?\d;]*\w", "", part).replace("\r", "") for part in done]
        return [part.split("\n") for part in plain]

    def end(self):
        """Returns its exit code, after all its output is read."""
        self.wait(lambda: self.tool.poll() is not None)
        while select.select([self.master], [], [], 0)[0]:
            before = len(self.text)
            self.read(0)
            if len(self.text) == before:
                break
        return self.tool.returncode

    def is_restored(self):
        shown = self.text.count(ENTER) - self.text.count(LEAVE)
        hidden = self.text.count("\033[?25l") - self.text.count("\033[?25h")
        return shown == 0 and hidden == 0 and termios.tcgetattr(self.slave) == self.former


class OnTerminal(TestCase):
    def terminal(self, process, *words, columns=80, lines=24):
        terminal = Terminal(self, columns, lines, "--no-inlines", *words, process.pid)
        terminal.wait(lambda: len(terminal.frames()) >= 1)
        return terminal

    def assert_fits(self, frame, columns, lines):
        self.assertLessEqual(len(frame), lines, frame)
        for line in frame:
            self.assertLessEqual(len(line), columns, frame)

    def test_resize_and_keys(self):
        process = self.sites()
        terminal = self.terminal(process, "--every", "1h")
        self.assert_fits(terminal.frames()[-1], 80, 24)
        self.assertTrue(any("keep_large" in line for line in terminal.frames()[-1]))
        self.assertEqual(len(terminal.frames()), 1)
        for columns, lines in ((40, 10), (120, 40), (20, 4)):
            terminal.text = ENTER + "\033[?25l"
            terminal.resize(columns, lines)
            terminal.wait(lambda: terminal.frames())
            self.assert_fits(terminal.frames()[-1], columns, lines)
        terminal.resize(100, 30)
        terminal.write("s")
        terminal.wait(lambda: any("GROWTH" in line for line in terminal.frames()[-1]))
        terminal.write("q")
        self.assertEqual(terminal.end(), lib.OK)
        self.assertTrue(terminal.is_restored(), terminal.text)
        # The last picture stays, as plain text.
        rest = terminal.text.rpartition(LEAVE)[2]
        self.assertIn("keep_large", rest)
        self.assertIn("jeattach: sites[%d]" % process.pid, rest)
        self.assertNotIn("\033", rest)
        self.assert_left_alone(process)

    def test_refreshes(self):
        process = self.sites()
        terminal = self.terminal(process, *OFTEN)
        self.grow(process)
        terminal.wait(lambda: any("125 KiB" in line for line in terminal.frames()[-1]))
        terminal.write("\x03")
        self.assertEqual(terminal.end(), lib.OK)
        self.assertTrue(terminal.is_restored(), terminal.text)
        self.assertNotIn("cannot", terminal.text)

    def test_refresh_by_key(self):
        """r takes the next profile at once; the countdown is to that after it."""
        process = self.sites()
        terminal = self.terminal(process, "--every", "1h")
        self.assertIn("next in 60 min", terminal.frames()[-1][0])
        self.grow(process)
        terminal.write("r")
        terminal.wait(lambda: any("125 KiB" in line for line in terminal.frames()[-1]))
        self.assertIn("next in 60 min", terminal.frames()[-1][0])
        terminal.write("q")
        self.assertEqual(terminal.end(), lib.OK)
        self.assertNotIn("next in", terminal.text.rpartition(LEAVE)[2])

    def test_countdown(self):
        """Between two refreshes the page shows how long is left."""
        terminal = self.terminal(self.sites(), "--every", "30s")
        terminal.wait(lambda: len({frame[0].split("next in")[1].split("  ")[0]
                                   for frame in terminal.frames()}) >= 3)
        clocks = {frame[0].split()[-1] for frame in terminal.frames()}
        self.assertEqual(len(clocks), 1, clocks)  # of one refresh
        terminal.write("q")
        self.assertEqual(terminal.end(), lib.OK)

    def test_rss_between_refreshes(self):
        """It goes on while the next refresh is far: no thread is stopped for it."""
        process = self.sites()
        terminal = self.terminal(process, "--every", "1h")
        for _ in range(16):
            self.grow(process)
        terminal.wait(lambda: len({line.split("iB")[0] for frame in terminal.frames()
                                   for line in frame if line.startswith("RSS ")}) >= 2)
        self.assertEqual(len({frame[0].split()[-1] for frame in terminal.frames()}), 1)
        terminal.write("q")
        self.assertEqual(terminal.end(), lib.OK)
        self.assertIn("no thread was stopped", terminal.text)

    def test_scrolling(self):
        """Few of the sites fit; the first one is always valid."""
        process = self.sites(stacks=200)
        terminal = self.terminal(process, "--every", "1h")
        self.assertIn("q quits", terminal.frames()[-1][-1])
        terminal.text = ENTER + "\033[?25l"
        terminal.resize(80, 10)
        terminal.wait(lambda: terminal.frames())

        def heading(key, text):
            terminal.write(key)
            terminal.wait(lambda: any(text in line for line in terminal.frames()[-1]))
            self.assert_fits(terminal.frames()[-1], 80, 10)

        def rows(frame):
            start = [i for i, line in enumerate(frame) if "share" in line][0]
            return frame[start + 1 :]

        first = rows(terminal.frames()[-1])
        self.assertGreater(len(first), 2)
        heading("\033[B", "site, from 2 of")
        heading("j", "site, from 3 of")
        heading("k", "site, from 2 of")
        self.assertEqual(rows(terminal.frames()[-1])[:-1], first[1:])
        heading("\033[6~", "site, from %d of" % (1 + len(first)))
        heading("\033[5~", "site, from 2 of")
        heading("g", "site, of")
        heading("G", "site, from")
        sites = int(re.search(r"site, from \d+ of (\d+)", "\n".join(terminal.frames()[-1]))[1])
        last = "site, from %d of %d" % (1 + sites - len(first), sites)
        heading("j", last)  # not beyond the last one
        self.assertEqual(len(rows(terminal.frames()[-1])), len(first))
        heading("\033[H", "site, of")
        terminal.write("q")
        self.assertEqual(terminal.end(), lib.OK)
        self.assert_left_alone(process)

    def shown(self, terminal, pattern):
        """Waits until the newest picture matches, and returns it."""
        terminal.wait(lambda: re.search(pattern, "\n".join(terminal.frames()[-1])))
        return "\n".join(terminal.frames()[-1])

    def test_sparkline(self):
        """The RSS of the last refreshes is a row of bars, the newest last."""
        process = self.sites()
        terminal = self.terminal(process, "--every", "100ms")
        bars = r"RSS, [\d.]+ m?s: ([^\s\033]{5,16})"
        self.shown(terminal, bars)
        for _ in range(64):
            self.grow(process)
        terminal.wait(lambda: any(self.rises(found) for found in re.findall(bars, terminal.text)))
        terminal.write("q")
        self.assertEqual(terminal.end(), lib.OK)

    def rises(self, bars):
        return bars[0] != bars[-1]

    def selected(self, terminal, pattern):
        """Waits until the selected row, which only its colors show, matches."""

        def row():
            last = terminal.text.split("\033[H")[-1]
            rows = re.findall(r"\033\[7m([^\033]*%[^\033]*)", last)
            return "\033[J" in last and len(rows) == 1 and re.search(pattern, rows[0])

        terminal.wait(row)
        return "\n".join(terminal.frames()[-1])

    def test_enter_opens_a_stack(self):
        process = self.sites()
        terminal = Terminal(self, 100, 24, "--every", "1h", process.pid)
        table = self.selected(terminal, "keep_large")
        others = re.findall(r"(?m)%.*  (\w+)", table)
        terminal.write("\n")
        stack = self.shown(terminal, r"one stack|the largest of \d+ stacks")
        self.assertRegex(stack, r"(?m)^  keep_large \(sites\.c:\d+\)$")
        self.assertRegex(stack, r"(?m)^  main \(sites\.c:\d+\)$")
        self.assertRegex(stack, r"(?m)^640 KiB \([\d.]+%\) in \d+ objects")
        self.assertNotIn("SIZE", stack)
        self.assertIn("Esc", terminal.frames()[-1][-1])
        for key in ("\033", "q", "\n"):  # each goes back, and ends nothing
            terminal.write(key)
            self.selected(terminal, "keep_large")
            terminal.write("\n")
            self.shown(terminal, r"one stack|the largest of \d+ stacks")
        terminal.write("\033")
        self.shown(terminal, r"SIZE")
        terminal.write("j")
        self.selected(terminal, "^(?!.*keep_large)")
        terminal.write("\n")
        second = self.shown(terminal, r"one stack|the largest of \d+ stacks")
        self.assertNotIn("  keep_large (", second)
        self.assertTrue(any(name in second for name in others), (others, second))
        for columns, lines in ((40, 10), (20, 4), (100, 24)):
            terminal.text = ENTER + "\033[?25l"
            terminal.resize(columns, lines)
            terminal.wait(lambda: terminal.frames())
            self.assert_fits(terminal.frames()[-1], columns, lines)
        terminal.write("r")  # the open stack follows the refreshes
        self.shown(terminal, r"no growth over|over \d")
        terminal.write("\x03")
        self.assertEqual(terminal.end(), lib.OK)
        self.assertIn("keep_large", terminal.text.rpartition(LEAVE)[2])
        self.assert_left_alone(process)

    def is_active(self, process):
        return "true" in lib.run_tool("mallctl", process.pid, "prof.active").text

    def test_p_switches_profiling(self):
        process = self.sites()
        terminal = self.terminal(process, "--every", "1h")
        terminal.write("p")
        self.shown(terminal, r"profiling: on -> off, read back \(one byte written, no thread")
        self.assertFalse(self.is_active(process))
        self.shown(terminal, r"profiling is not active")
        terminal.write("p")
        self.shown(terminal, r"profiling: off -> on, read back .*threads:\s\d+ of \d+ sample")
        self.assertTrue(self.is_active(process))
        terminal.write("q")
        self.assertEqual(terminal.end(), lib.OK)
        self.assertNotIn("is left", terminal.text.rpartition(LEAVE)[2])  # as it was found
        self.assert_left_alone(process)

    def test_p_says_what_it_leaves(self):
        process = self.sites("prof:true,prof_active:false,lg_prof_sample:0")
        for turn in range(2):
            with self.subTest(turn=turn):
                terminal = self.terminal(process, "--every", "1h")
                terminal.write("p")
                self.shown(terminal, r"profiling: (on -> off|off -> on), read back \(one byte written")
                active = self.is_active(process)
                terminal.write("q")
                self.assertEqual(terminal.end(), lib.OK)
                said = "profiling is left %s, as the key p has set it; to undo that: jeattach %s %d"
                said %= (("on", "off") if active else ("off", "on")) + (process.pid,)
                self.assertIn(said, terminal.text.rpartition(LEAVE)[2])
                self.assertEqual(self.is_active(process), active)
        self.assertFalse(active)
        self.assert_left_alone(process)

    def test_p_without_profiling(self):
        process = self.sites("prof:false")
        terminal = self.terminal(process, "--every", "1h")
        terminal.write("p")
        self.shown(terminal, r"profiling cannot be switched on: profiling was not enabled at start")
        terminal.write("q")
        self.assertEqual(terminal.end(), lib.OK)
        self.assertNotIn("is left", terminal.text)
        self.assert_left_alone(process)

    def test_killed_while_p_is_pressed(self):
        """The target has one of the two states, and is unharmed."""
        process = self.sites()
        for _ in range(12):
            terminal = self.terminal(process, "--every", "1h")
            terminal.write("p")
            time.sleep(random.uniform(0, 0.02))
            terminal.tool.kill()
            terminal.tool.wait()
            self.assert_left_alone(process)
            self.assertIn(self.is_active(process), (True, False))
        self.assertEqual(lib.run_tool("on", process.pid).code, lib.OK)
        self.assertTrue(self.is_active(process))

    def test_ctrl_c_at_any_moment(self):
        """Half of the time where each refresh stops a thread."""
        process, called = self.sites(), self.unreadable()
        allowed = (lib.OK, lib.INTERRUPTED, -signal.SIGINT)
        for i in range(16):
            terminal = Terminal(self, 80, 24, *OFTEN, (process, called)[i // 2 % 2].pid)
            time.sleep(random.uniform(0, random.choice((0.005, 0.03, 0.1))))
            terminal.write("\x03" * (1 + i % 2))
            self.assertIn(terminal.end(), allowed, terminal.text)
            self.assertTrue(terminal.is_restored(), terminal.text)
            self.assertEqual(lib.tracer_of(called.pid), 0)
        self.assert_left_alone(process)
        self.assert_untraced(called)

    def test_ctrl_z(self):
        """It stops only while no thread is stopped, restores the terminal, and takes it again."""
        process = self.unreadable()
        terminal = self.terminal(process, *OFTEN)
        terminal.write("\x1a")
        terminal.wait(lambda: lib.state_of(terminal.tool.pid) == "T")
        terminal.wait(terminal.is_restored)
        self.assertEqual(lib.tracer_of(process.pid), 0)
        terminal.text = ""
        terminal.tool.send_signal(signal.SIGCONT)
        terminal.wait(lambda: terminal.frames())
        terminal.write("q")
        self.assertEqual(terminal.end(), lib.OK)
        self.assertTrue(terminal.is_restored(), terminal.text)
        self.assert_untraced(process)

    def test_target_ends_on_a_terminal(self):
        process = self.sites()
        terminal = self.terminal(process, "--every", "1h")
        process.kill()
        process.wait()
        self.assertEqual(terminal.end(), lib.GONE)
        self.assertTrue(terminal.is_restored(), terminal.text)
        rest = terminal.text.rpartition(LEAVE)[2]
        self.assertIn("keep_large", rest)
        self.assertIn("ended", rest)

    def test_once_takes_no_terminal(self):
        process = self.sites()
        terminal = Terminal(self, 40, 24, "--once", process.pid)
        self.assertEqual(terminal.end(), lib.OK)
        self.assertNotIn("\033", terminal.text)
        head = terminal.text.split("jeattach:")[0]
        self.assertTrue(all(len(line) <= 40 for line in head.split("\r\n")), head)

    def test_terminal_goes_away(self):
        process = self.sites()
        terminal = self.terminal(process, "--every", "1h")
        os.kill(terminal.tool.pid, signal.SIGHUP)
        self.assertEqual(terminal.end(), lib.OK)
        self.assert_left_alone(process)


if __name__ == "__main__":
    lib.main()
