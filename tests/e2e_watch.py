"""watch: a profile when a rule fires, whatever happens to the target and the host."""

import json
import os
import shutil
import random
import signal
import subprocess
import time

import allocators
import lib
from lib import GONE, INTERRUPTED, NO_SAFE_MOMENT, OK, OUTPUT_FAILED, PROFILING_OFF, USAGE
from watching import CAP_IPC_LOCK, CONF, MIB, NAME, PATIENCE, WatchTest


class Rules(WatchTest):
    """Each kind of rule fires once when it is true, and not when it is false."""

    def test_resident_size(self):
        grower = self.grower()
        watch = self.watch(grower.pid, "--when", "rss>40M", "--when", "rss>80M", "--when", "rss>9G")
        start = watch.started()
        self.assertEqual((start["name"], start["pid"]), ("grower", grower.pid))
        self.assertTrue(start["prof.active"])
        for _ in range(4):
            grower.grow(5)
        grower.grow(20)
        self.assert_fired(watch.wait_for("profile")[0], "rss>40M")
        grower.grow(50)
        self.assert_fired(watch.wait_for("profile", 2)[1], "rss>80M")
        names = self.assert_complete(watch)
        self.assertEqual(len(names), 2)
        for name, event in zip(names, watch.events("profile")):
            parts = NAME.match(os.path.basename(event["path"]))
            self.assertEqual(parts[1] + parts[2], "grower%d" % grower.pid)
            self.assertEqual(int(parts[4]), event["rss"] // MIB)
            self.assertIn("[%d] %s (" % (grower.pid, event["rules"][0]["rule"]),
                          lib.read_text(watch.err))
        self.assertEqual(watch.end(), INTERRUPTED)

    def test_share_of_the_smallest_limit(self):
        parent = self.group(80 * MIB)
        grower = self.grower(group=self.group(300 * MIB, parent))
        watch = self.watch(grower.pid, "--when", "rss>50%", "--when", "rss>95%")
        self.assertEqual(watch.started()["limit"], 80 * MIB)
        grower.grow(20)
        grower.grow(30)
        event = watch.wait_for("profile")[0]
        self.assert_fired(event, "rss>50%")
        self.assertEqual(event["rules"][0]["threshold"], 40 * MIB)

    def test_limit_that_is_changed(self):
        group = self.group(900 * MIB)
        grower = self.grower(group=group)
        watch = self.watch(grower.pid, "--when", "cgroup>60%")
        watch.started()
        grower.grow(40)
        group.limit(64 * MIB)
        self.assertEqual(watch.wait_for("profile")[0]["limit"], 64 * MIB)

    def test_use_of_the_group(self):
        group = self.group(100 * MIB)
        grower = self.grower(group=group)
        file = self.uncached_file(60)
        watch = self.watch(grower.pid, "--when", "cgroup>50%", "--when", "cgroup>99%")
        watch.started()
        grower.tell("read", file, 1)
        cached = group.inactive()
        grower.grow(52)
        event = watch.wait_for("profile")[0]
        self.assert_fired(event, "cgroup>50%")
        self.assertEqual(event["rules"][0]["threshold"], 50 * MIB)
        if cached > 40 * MIB:  # pages of files do not count
            self.assertLess(event["rules"][0]["value"], 75 * MIB)

    def test_size_of_the_own_group(self):
        parent = self.group(80 * MIB)
        self.grower(group=parent).grow(30)
        grower = self.grower(group=self.group(None, parent))
        watch = self.watch(grower.pid, "--when", "cgroup>40M")
        watch.started()
        grower.grow(42)
        self.assert_fired(watch.wait_for("profile")[0], "cgroup>40M")

    def test_growth(self):
        grower = self.grower()
        grower.grow(100)
        watch = self.watch(grower.pid, "--when", "grow>20%/1s", "--when", "grow>9G/1s", "--count", 1)
        watch.started()
        for _ in range(12):  # a measurement may be late: growth before the first one is not seen
            grower.grow(int(grower.rss() / MIB / 3))
            lib.wait_until(lambda: watch.events("profile"), 2)
            if watch.events("profile"):
                break
        self.assert_fired(watch.wait_for("profile")[0], "grow>20%/1s")
        self.assertEqual(watch.code(), OK)

    def test_pressure(self):
        group = self.group(24 * MIB)
        grower = self.grower(group=group)
        watch = self.watch(
            grower.pid, "--cooldown", "1h", "--when", "psi.some>0.2%/2s",
            "--when", "psi.some>0.2%/700ms", "--when", "psi.full>100%/10s",
        )
        if not lib.wait_until(lambda: watch.events() or watch.process.poll() is not None, PATIENCE):
            self.fail(watch.said())
        if watch.process.poll() == NO_SAFE_MOMENT and "pressure" in watch.said():
            self.skipTest("this kernel does not measure pressure")
        file = self.uncached_file(64)
        fired, begun = set(), time.monotonic()
        while time.monotonic() - begun < PATIENCE:
            grower.tell("read", file, 2)
            if group.usage() < 12 * MIB:
                self.skipTest("files of the temporary directory are not cached for their readers")
            for event in watch.events("profile"):
                fired.update(rule["rule"] for rule in event["rules"])
            # The kernel's first alarm for 10 s may count all stalls since boot.
            if len(fired) >= 2 and time.monotonic() - begun > 5:
                break
        self.assertEqual(fired, {"psi.some>0.2%/2s", "psi.some>0.2%/700ms"}, watch.said())
        self.assertLessEqual(len(watch.events("profile")), 2)


class Limits(WatchTest):
    def test_most(self):
        grower = self.grower()
        grower.grow(20)
        watch = self.watch(grower.pid, "--when", "rss>10M", "--count", 3, "--cooldown", "1ms")
        self.assertEqual(watch.code(), OK)
        self.assertEqual(len(self.assert_complete(watch)), 3)
        self.assertEqual(watch.events("stopped")[0]["profiles"], 3)
        result = self.assert_ran(lib.run_tool("report", watch.events("profile")[0]["path"]))
        self.assertIn("\nsampled: ", result.text)
        watch = self.watch(grower.pid, "--when", "rss>10M", "--once", "--cooldown", "1ms")
        self.assertEqual(watch.code(), OK)
        self.assertEqual(len(self.assert_complete(watch)), 1)

    def test_keep(self):
        grower = self.grower()
        grower.grow(20)
        directory = self.directory()
        others = ["grower-1-20200101T000000Z-1MiB.heap", "other-1-20200101T000000Z-1MiB.watch.heap"]
        old = lib.name_in_files(grower.pid) + "-1-20200101T000000Z-1MiB.watch.heap"
        for name in others + [old]:
            with open(os.path.join(directory, name), "w"):
                pass
        watch = self.watch(
            grower.pid, "--when", "rss>10M", "--count", 5, "--keep", 2, "--cooldown", "1ms",
            directory=directory,
        )
        self.assertEqual(watch.code(), OK)
        told = [os.path.basename(event["path"]) for event in watch.events("profile")]
        self.assertEqual(len(told), 5)
        self.assertEqual(watch.files(), sorted(others + told[-2:]))
        self.assertEqual(sum(event["removed"] for event in watch.events("profile")), 4)

    def test_keep_of_another_user(self):
        """Whoever imitates the name of a process pushes none of its profiles out."""
        lib.require_root()

        class Stranger:
            def enter():
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)

        place, directory = self.directory(), self.directory()
        os.chmod(place, 0o755)
        program = shutil.copy(os.path.join(lib.VICTIMS, "grower"), place)
        own, other = self.grower(program=program), self.grower(program=program, group=Stranger)
        words = ("--when", "rss>1K", "--once", "--keep", 1)
        first = self.watch(own.pid, *words, directory=directory)
        self.assertEqual(first.code(), OK)
        for _ in range(2):
            self.assertEqual(self.watch(other.pid, *words, directory=directory).code(), OK)
        files = sorted(os.listdir(directory))
        self.assertEqual(len(files), 2, files)
        self.assertEqual([name for name in files if "@uid65534-" in name],
                         [name for name in files if "-%d-" % other.pid in name])
        self.assertTrue(os.path.exists(first.events("profile")[0]["path"]), files)

    def test_wrong_words(self):
        grower = self.grower()
        directory = self.directory()
        for words, said in (
            (("--when", "rss"), "unquoted"),
            (("--when", "rss>110%"), "range"),
            (("--when", "psi.some>5"), "percentage"),
            (("--count", "3"), "--when"),
        ):
            result = lib.run_tool("watch", grower.pid, "-o", directory, *words)
            self.assertEqual(result.code, USAGE, result)
            self.assertIn(said, result.err)
        result = lib.run_tool("watch", grower.pid, "--when", "rss>1G")
        self.assertEqual(result.code, USAGE, result)
        for output in (os.path.join(directory, "none", "none"), lib.__file__):
            result = lib.run_tool("watch", grower.pid, "--when", "rss>1G", "-o", output)
            self.assert_failed(result, OUTPUT_FAILED, "cannot write")


class Alarm(WatchTest):
    """--exec: a command with the facts in its environment, with a profile or without."""

    def run_alarm(self, process, *words, **options):
        """Returns the result, and the events between the first one and the end of the watch."""
        result = lib.run_tool("watch", process.pid, "--json", "--when", "rss>1M", *words, **options)
        events = [json.loads(line) for line in result.text.splitlines()]
        kinds = [event["event"] for event in events]
        self.assertEqual((kinds[0], kinds.count("stopped")), ("watching", 1))
        return result, [event for event in events[1:] if event["event"] != "stopped"]

    def test_any_process(self):
        """Without jemalloc, and the command ends before the watch does."""
        process = self.process(["sleep", "600"])
        command = "sleep 0.3; env >%s" % os.path.join(self.directory(), "facts")
        result, [alarm] = self.run_alarm(process, "--once", "--exec", command,
                                         env={"JEATTACH_PID": "1", "JEATTACH_OTHER": "of another"})
        self.assertEqual((result.code, alarm["event"]), (OK, "alarm"), result)
        facts = dict(line.split("=", 1) for line in lib.read_text(command.split(">")[1]).splitlines())
        self.assertEqual({name: facts["JEATTACH_" + name] for name in ("PID", "NAME", "RULE", "PROFILE")},
                         {"PID": str(process.pid), "NAME": "sleep", "RULE": "rss>1M", "PROFILE": ""})
        self.assertNotIn("JEATTACH_OTHER", facts)
        self.assertEqual(int(facts["JEATTACH_RSS"]), alarm["rss"])
        self.assertGreater(int(facts["JEATTACH_LIMIT"]), alarm["rss"])

    def test_with_a_profile(self):
        grower, place = self.grower(), self.directory()
        seen = os.path.join(place, "seen")
        result, [profile] = self.run_alarm(grower, "--once", "-o", place, "--exec",
                                           'cp "$JEATTACH_PROFILE" %s' % seen)
        self.assertEqual(lib.read_bytes(seen), lib.read_bytes(profile["path"]), result)

    def test_command_that_fails(self):
        process = self.process(["sleep", "600"])
        for command, end in (("exit 3", {"exit": 3}), ("kill -9 $$", {"signal": 9})):
            result, [_, failed] = self.run_alarm(process, "--once", "--exec", command)
            self.assertEqual(failed["event"], "command", result)
            self.assertEqual({name: failed[name] for name in end}, end)
        self.assertIn("was ended by signal 9", result.err)

    def test_settled_before_the_command_ends(self):
        """prof.active has its former value, and the profile is there, while the command still runs."""
        grower, place = self.grower(active=False), self.directory()
        tool = self.process([lib.TOOL, "watch", str(grower.pid), "--when", "rss>1M", "--on", "--once",
                             "-q", "-o", place, "--exec", "touch %s/begun; exec sleep 600" % place],
                            stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertTrue(lib.wait_until(lambda: os.path.exists(place + "/begun")))
        state = lambda: json.loads(lib.run_tool("status", grower.pid, "--json").text)["prof.active"]
        self.assertTrue(lib.wait_until(lambda: not state()), "prof.active stays true")
        self.assertIsNone(tool.poll())
        [child] = [int(pid) for pid in lib.read_text(
            "/proc/%d/task/%d/children" % (tool.pid, tool.pid)).split()]
        tool.send_signal(signal.SIGINT)
        self.assertEqual(tool.wait(30), OK)
        os.kill(child, signal.SIGKILL)

    def test_signals_of_the_command(self):
        """What jeattach ignores is not ignored in it: a writer ends with its reader."""
        process = self.process(["sleep", "600"])
        file = os.path.join(self.directory(), "status")
        self.run_alarm(process, "--once", "--exec", "grep -E '^Sig(Ign|Blk)' /proc/self/status >" + file)
        for name, mask in (line.split() for line in lib.read_text(file).splitlines()):
            self.assertEqual(int(mask, 16) & (1 << 12 | 1 << 24), 0, name)

    def test_command_that_lasts(self):
        """It is not started twice at the same time."""
        process = self.process(["sleep", "600"])
        place = self.directory()
        result, events = self.run_alarm(process, "--count", "2", "--cooldown", "10ms", "--exec",
                                        "touch %s/$$; sleep 3" % place)
        self.assertEqual([event["event"] for event in events], ["alarm", "alarm", "command"], result)
        self.assertIn("is still running", result.err)
        self.assertEqual(len(os.listdir(place)), 1)

    def test_what_needs_profiles(self):
        for words in (("--on",), ("--keep", "3"), ("--call",), ("--mode", "640")):
            result = lib.run_tool("watch", os.getpid(), "--when", "rss>1M", "--exec", "true", *words)
            self.assert_failed(result, USAGE, "require -o DIR")
        result = lib.run_tool("watch", os.getpid(), "--when", "rss>1M")
        self.assert_failed(result, USAGE, "--exec COMMAND")


class State(WatchTest):
    """Messages about profiling, and the state in which it is left."""

    def active(self, pid):
        return json.loads(self.assert_ran(lib.run_tool("status", pid, "--json")).text)["prof.active"]

    def test_not_enabled(self):
        grower = self.grower(conf="prof:false")
        watch = self.watch(grower.pid, "--when", "rss>1M")
        self.assertEqual(watch.code(), PROFILING_OFF)
        self.assertIn("opt.prof is false", watch.said())
        self.assertEqual(watch.files(), [])

    def test_not_active(self):
        grower = self.grower(active=False)
        watch = self.watch(grower.pid, "--when", "rss>20M")
        self.assertFalse(watch.started()["prof.active"])
        self.assertIn("--on", watch.said())
        grower.grow(30)
        self.assertTrue(watch.wait_for("profile")[0]["empty"])
        self.assert_complete(watch)

    def test_switched_on_and_back(self):
        grower = self.grower(active=False)
        watch = self.watch(grower.pid, "--when", "rss>20M", "--on")
        self.assertTrue(watch.started()["switched_on"])
        self.assertIs(self.active(grower.pid), True)
        grower.grow(30)
        self.assertFalse(watch.wait_for("profile")[0]["empty"])
        self.assertEqual(watch.end(signal.SIGINT), INTERRUPTED)
        self.assertIs(self.active(grower.pid), False)
        watch = self.watch(grower.pid, "--when", "rss>20M", "--on", "--once")
        self.assertEqual(watch.code(), OK)
        self.assertIs(self.active(grower.pid), False)

    def test_memory_is_locked(self):
        grower = self.grower()
        watch = self.watch(grower.pid, "--when", "rss>9G")
        start = watch.started()
        locked = int(lib.status_fields(watch.pid)["VmLck"].split()[0]) * 1024
        self.assertEqual(start["own_locked"], locked)
        if os.environ.get("ASAN_OPTIONS"):
            self.skipTest("the sanitizers lock nothing")
        if not lib.capability(CAP_IPC_LOCK):
            self.skipTest("needs CAP_IPC_LOCK")
        self.assertGreater(locked, 2 * MIB)
        self.assertLess(start["own_rss"], 16 * MIB)


class Ends(WatchTest, allocators.TestCase):
    def test_name_comes_back(self):
        program = self.program()
        grower = self.grower(program=program)
        watch = self.watch("-n", os.path.basename(program), "--when", "rss>20M", "--count", 1)
        for i in range(2):
            self.watched(watch, grower, i + 1)
            grower.grow(30)
            event = watch.wait_for("profile", i + 1)[-1]
            self.assertEqual(event["pid"], grower.pid)
            watch.wait_for("waiting", i + 1)
            grower.end()
            grower = self.grower(program=program)
        self.watched(watch, grower, 3)
        self.assertEqual(watch.end(), INTERRUPTED)
        self.assertEqual(len(self.assert_complete(watch)), 2)

    def test_goes_on_after_the_terminal(self):
        grower = self.grower()
        watch = self.watch(
            grower.pid, "--when", "rss>20M",
            prepare=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # like nohup
        watch.started()
        watch.process.send_signal(signal.SIGHUP)
        grower.grow(30)
        watch.wait_for("profile")
        self.assertEqual(watch.end(), INTERRUPTED)

    def test_target_ends(self):
        grower = self.grower()
        watch = self.watch(grower.pid, "--when", "rss>9G")
        watch.started()
        grower.end()
        self.assertEqual(watch.code(), GONE)
        self.assertEqual([e.get("event") for e in watch.events()], ["watching", "ended"])

    def test_named_thread_ends(self):
        """No more profiles, but the process is watched; at the end another thread restores it."""
        allocator = self.allocator("5.3.0", words=("--threads", 1))
        tid = allocator.workers()["worker-0"]
        watch = self.watch(allocator.pid, "--thread", tid, "--when", "rss>1M", "--on",
                           "--cooldown", "1ms", "--count", 100000)
        watch.wait_for("profile")
        allocator.ask("leave")
        event = watch.wait_for("failed")[0]
        self.assertIn("no thread %d" % tid, event["cause"])
        self.assertEqual(watch.events("ended"), [])
        self.assertEqual(watch.end(), INTERRUPTED, watch.said())
        result = self.assert_ran(lib.run_tool("mallctl", allocator.pid, "prof.active"))
        self.assertEqual(result.text, "prof.active = false\n")
        self.assertTrue(allocator.alive())

    def test_full_disk(self):
        lib.require_root()
        directory = self.directory()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4k", "none", directory], capture_output=True)
        if mounted.returncode:
            self.skipTest("no file system can be mounted: %s" % mounted.stderr.decode().strip())
        self.addCleanup(subprocess.run, ["umount", "-l", directory])
        victim = self.victim(conf="prof:true,lg_prof_sample:12")
        watch = self.watch(victim.pid, "--when", "rss>1M", directory=directory)
        self.assertEqual(watch.code(), OUTPUT_FAILED)
        self.assertIn("no space", watch.said().lower())
        self.assertEqual(os.listdir(directory), [])
        self.assertEqual(watch.events("profile"), [])
        self.assert_unharmed(victim, slow=True)

    def test_signals_at_any_moment(self):
        victim = self.victim(conf="prof:true,prof_active:false,lg_prof_sample:12")
        directory = self.directory()
        chance = random.Random(11)
        files = 0
        for i in range(10):
            words = ["--on"] if i % 2 else []
            watch = self.watch(
                victim.pid, "--when", "rss>1M", "--count", 100000, "--keep", 1000000,
                "--cooldown", "1ms", *words, directory=directory)
            if i > 2:  # the first signals arrive before any work is done
                watch.started()
                lib.wait_until(lambda: len(watch.events("profile")) > i % 4, PATIENCE)
            lib.wait_until(lambda: False, chance.uniform(0, 0.05), 0.001)
            # Before its handlers are installed, SIGINT may be ignored, as shells do for background
            # jobs.
            number = chance.choice((signal.SIGTERM, signal.SIGINT)) if i > 2 else signal.SIGTERM
            code = watch.end(number)
            self.assertIn(code, (INTERRUPTED, -signal.SIGTERM), watch.said())
            if code < 0:  # even before its handlers were installed
                self.assertEqual(watch.events(), [])
            told = [os.path.basename(event["path"]) for event in watch.events("profile")]
            files += len(told)
            self.assertEqual(len(watch.files()), files, watch.said())
            for name in told:
                with open(os.path.join(directory, name), "rb") as file:
                    self.assert_profile(file.read(), stacks=0)
            self.assertEqual(lib.tracer_of(victim.pid), 0)
        self.assertGreater(files, 5)
        status = json.loads(self.assert_ran(lib.run_tool("status", victim.pid, "--json")).text)
        self.assertIs(status["prof.active"], False)
        self.assert_unharmed(victim, slow=True)


if __name__ == "__main__":
    lib.main()
