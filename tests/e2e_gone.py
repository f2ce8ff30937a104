"""What is left of a process that ends while record, leak or watch are at work on it."""

import gzip
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import time

import e2e_record
import lib
from watching import MIB, Grower, WatchTest

PIECE = 64 << 10
SEEDED = 512  # pieces, each a sampled object
EXACT = "prof:true,prof_active:false,lg_prof_sample:0"
MOMENTS = 6 * (10 if lib.LONG else 1)


class Ending(Grower):
    """A grower that ends in some way."""

    def die(self, how):
        if how == "exit":
            self.process.stdin.close()
        elif how == "exec":
            self.order("exec " + shutil.which("sleep"))
        else:
            os.kill(self.pid, {"kill": signal.SIGKILL, "crash": signal.SIGSEGV}[how])

    def seed(self):
        self.grow(SEEDED * PIECE // MIB)


class TestCase(e2e_record.TestCase):
    def grower(self, **options):
        return Ending(self, **dict({"conf": EXACT}, **options))

    def begin(self, verb, process, *words, **options):
        """Returns when it waits."""
        return self.start_again(verb, process.pid, "-d", "1h", "-v", *words, **options)

    def wait_kept(self, tool, count=2):
        """Until that many more are kept: of two, the second was begun after this call."""
        while select.select([tool.stderr], [], [], 0)[0]:
            data = os.read(tool.stderr.fileno(), 1 << 16)
            self.first_lines += data
            self.assertTrue(data, self.first_lines)
        while count:
            line = tool.stderr.readline()
            self.first_lines += line
            self.assertTrue(line, self.first_lines)
            count -= b" is kept, to be written if the process ends" in line

    def seed(self, tool, process):
        process.seed()
        self.wait_kept(tool)

    def ended(self, tool, said="cut short: the profile was read "):
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.GONE, err)
        self.assertIn(said, err)
        self.assertNotIn("cannot restore", err)
        return out.decode(), err

    def in_use(self, path, function):
        """Bytes and objects of the stacks with this function."""
        result = self.assert_ran(self.tool("report", "-q", "--rows", "0", "--json", path))
        found = [stack for stack in json.loads(result.out)["largest_stacks"]
                 if any(call["function"] == function for call in stack["calls"])]
        return sum(stack["amount"] for stack in found), sum(stack["objects"] for stack in found)

    def assert_seeded(self, path):
        """Exactly what the process has allocated."""
        data = self.read(path)
        self.assert_profile(data)
        self.assertIn(b"/grower\n", data.partition(b"\nMAPPED_LIBRARIES:\n")[2])
        self.assertEqual(self.in_use(path, "take"), (SEEDED * PIECE, SEEDED))


class Record(TestCase):
    def test_every_end(self):
        for how in ("kill", "crash", "exit", "exec"):
            with self.subTest(how=how):
                process, place = self.grower(), self.directory()
                tool = self.begin("record", process, directory=place)
                self.seed(tool, process)
                process.die(how)
                out, err = self.ended(tool)
                self.assertEqual(os.listdir(place), [out.rstrip("\n")])
                self.assertRegex(out, r"\Agrower-%d-\d{8}T\d{6}Z-\d\dMiB-cut-short\.heap\n\Z"
                                 % process.pid)
                self.assert_seeded(os.path.join(place, out.rstrip("\n")))
                self.assertIn("replaced itself" if how == "exec" else "has ended", err)

    def test_json(self):
        """A name that was given stays; the time is that of the read."""
        process, place = self.grower(), self.directory()
        path = os.path.join(place, "x.heap")
        tool = self.begin("record", process, "--json", "-o", path)
        self.seed(tool, process)
        after = time.time_ns()
        process.die("kill")
        told, error = [json.loads(line) for line in self.ended(tool)[0].splitlines()]
        [profile] = told["profiles"]
        self.assertEqual((profile["path"], profile["reason"]), (path, "gone"))
        self.assertIs(profile["cut_short"], True)
        self.assertLess(profile["time_ns"], after)
        self.assertGreater(profile["time_ns"] + profile["age_ns"], after)
        self.assertGreater(profile["rss"], SEEDED * PIECE)
        self.assertEqual(error["error"]["exit"], lib.GONE)
        self.assert_seeded(path)
        self.assertEqual(os.listdir(place), ["x.heap"])

    def test_stdout(self):
        process, place = self.grower(), self.directory()
        tool = self.begin("record", process, "-o", "-")
        self.seed(tool, process)
        process.die("kill")
        path = os.path.join(place, "x.heap")
        with open(path, "w") as file:
            file.write(self.ended(tool)[0])
        self.assert_seeded(path)

    def test_formats(self):
        """The names come from files that stay open: the program itself is removed before."""
        for name in ("x.pb.gz", "x.html", "x.txt", "x.folded"):
            with self.subTest(name=name):
                place = self.directory()
                program = shutil.copy(os.path.join(lib.VICTIMS, "grower"), place)
                process = self.grower(program=program)
                path = os.path.join(place, name)
                tool = self.begin("record", process, "-o", path)
                self.wait_kept(tool, 1)
                os.unlink(program)
                self.seed(tool, process)
                process.end()
                self.ended(tool)
                data = self.read(path)
                if name.endswith(".gz"):
                    data = gzip.decompress(data)
                    self.assertIn(b"cut short", data)
                self.assertIn(b"take", data)

    def test_existing_file(self):
        """It is taken meanwhile: a number is added, nothing is overwritten."""
        process, place = self.grower(), self.directory()
        path = os.path.join(place, "x.heap")
        tool = self.begin("record", process, "-o", path)
        self.seed(tool, process)
        with open(path, "w") as file:
            file.write("theirs")
        process.die("kill")
        out, _ = self.ended(tool)
        self.assertEqual(out, os.path.join(place, "x-1.heap") + "\n")
        self.assertEqual(self.read(path), b"theirs")
        self.assert_seeded(out.rstrip("\n"))

    def test_by_calls(self):
        """What is kept is read from memory all the same: no call more than without it."""
        process, place = self.grower(), self.directory()
        tool = self.begin("record", process, "--call", "--json", "-o", os.path.join(place, "x.heap"))
        self.seed(tool, process)
        process.die("kill")
        told = json.loads(self.ended(tool)[0].splitlines()[0])
        self.assertEqual((told["holds"], told["way"]), (2, "call"))
        self.assert_seeded(os.path.join(place, "x.heap"))

    def test_series(self):
        """Only what is newer than the last file of the series is written."""
        process, place = self.grower(), self.directory()
        tool = self.begin("record", process, "--every-bytes", "32M", "-o", place)
        process.seed()
        first = tool.stdout.readline().decode().rstrip("\n")
        self.assertNotIn("cut-short", first)
        process.seed()
        second = tool.stdout.readline().decode().rstrip("\n")
        process.tell("drop")
        process.seed()
        third = tool.stdout.readline().decode().rstrip("\n")
        self.wait_kept(tool)
        process.die("kill")
        last = self.ended(tool)[0].rstrip("\n")
        self.assertTrue(last.endswith("-cut-short.heap"), last)
        names = sorted(os.path.basename(path) for path in (first, second, third, last))
        self.assertEqual(sorted(os.listdir(place)), names)
        self.assert_seeded(last)

    def test_at_any_moment(self):
        """Also while a profile is read, which takes long here: what is left is complete."""
        chance, former = random.Random(7), None
        for i in range(MOMENTS):
            place = self.directory()
            path = os.path.join(place, "x.heap")
            process = self.process(
                [os.path.join(lib.VICTIMS, "sites"), "30000"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=lib.tool_environment({"MALLOC_CONF": "prof:true,lg_prof_sample:0"}))
            self.assertEqual(process.stdout.readline(), b"ready\n")
            tool = self.begin("record", process, "-o", path)
            self.wait_kept(tool, 1)
            time.sleep(chance.uniform(0, 0.5))
            process.kill()
            self.ended(tool)
            self.assertEqual(os.listdir(place), ["x.heap"])
            data = self.read(path)
            self.assert_profile(data, 30000)
            objects = [int(line.split()[1].rstrip(b":"))
                       for line in re.findall(rb"(?m)^ *t\*: \d+: .*", data)]
            self.assertEqual(sum(objects[1:]), objects[0])  # by stack, and in all
            self.assertEqual(objects[0], former or objects[0], i)  # it stands still
            former = objects[0]

    def test_too_large(self):
        """A tool that shares a small limit keeps nothing that could bring it to that limit."""
        process = self.process(
            [os.path.join(lib.VICTIMS, "sites"), "30000"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=lib.tool_environment({"MALLOC_CONF": "prof:true,lg_prof_sample:0"}))
        self.assertEqual(process.stdout.readline(), b"ready\n")
        if os.environ.get("ASAN_OPTIONS"):
            self.skipTest("with the sanitizers the tool needs more than the limit")
        group = WatchTest.group(self, 20 * MIB)
        place = self.directory()
        tool = self.begin("record", process, directory=place, preexec_fn=group.enter)
        line = b""
        while b"if the process ends before" not in line:
            line = tool.stderr.readline()
            self.assertTrue(line)
            self.assertNotIn(b" is kept", line)
        self.assertIn(b"no profile is left: it is larger than the limit of ", line)
        process.kill()
        out, _ = self.ended(tool, "are lost")
        self.assertEqual((out, os.listdir(place)), ("", []))


class OutOfMemory(TestCase):
    LIMIT = 48 * MIB

    def test_record(self):
        """The OOM killer ends it: the profile has what was in memory when it was read."""
        process = self.grower(group=WatchTest.group(self, self.LIMIT))
        path = os.path.join(self.directory(), "x.heap")
        tool = self.begin("record", process, "--json", "-o", path)
        before, looks = process.rss(), []
        process.order("leak %d %d" % (4 * self.LIMIT, 20 * MIB))
        while process.process.poll() is None:
            looks.append((time.time_ns(), self.rss(process)))
            time.sleep(0.01)
        self.assertEqual(process.process.wait(), -signal.SIGKILL)
        told = json.loads(self.ended(tool)[0].splitlines()[0])
        [profile] = told["profiles"]
        taken = self.in_use(path, "take")[0]
        least = max([rss for at, rss in looks if at < profile["time_ns"]], default=0) - before
        self.assertGreaterEqual(taken, 0.9 * least)  # jemalloc's own data grows, too
        self.assertLess(taken, self.LIMIT)
        self.assertGreater(taken, 0)

    def rss(self, process):
        try:
            return process.rss()
        except (OSError, IndexError):
            return 0


class Leak(TestCase):
    def test_leaking(self):
        for how in ("kill", "exit", "exec"):
            with self.subTest(how=how):
                process = self.grower()
                path = os.path.join(self.directory(), "x.txt")
                tool = self.begin("leak", process, "--json", "--rows", "0", "-o", path)
                self.wait_kept(tool, 1)  # after the first profile, which is not to have the seed
                self.seed(tool, process)
                process.die(how)
                told = json.loads(self.ended(tool)[0].splitlines()[0])
                self.assertIs(told["cut_short"], True)
                self.assertGreater(told["age_ns"], 0)
                rows = [row for row in told["rows"] if row["stack"][0]["function"] == "take"]
                self.assertEqual(sum(row["bytes"] for row in rows), SEEDED * PIECE)
                self.assertEqual(sum(row["objects"] for row in rows), SEEDED)
                self.assertIn(b"take", self.read(path))


class Watch(WatchTest, TestCase):
    def seeded_watch(self, process, *words):
        watch = self.watch(process.pid, "-v", "--when", "rss>9G", *words)
        watch.started()
        process.seed()
        kept = self.count_kept(watch)
        self.assertTrue(lib.wait_until(lambda: self.count_kept(watch) > kept + 1, 60))
        return watch

    def count_kept(self, watch):
        return watch.said().count(" is kept, to be written if the process ends")

    def assert_cut_short(self, watch, process):
        [event] = watch.wait_for("profile")
        self.assertEqual((event["rules"], event["cut_short"]), ([], True))
        self.assertGreater(event["age_ns"], 0)
        self.assertEqual(self.assert_complete(watch), [os.path.basename(event["path"])])
        self.assertRegex(event["path"], r"/grower(@[^/]+)?-%d-\d+T\d+Z-\d+MiB-cut-short\.watch\.heap\Z"
                         % process.pid)
        self.assert_seeded(event["path"])

    def grower(self, **options):
        return Ending(self, conf="prof:true,lg_prof_sample:0")

    def test_every_end_of_watched(self):
        for how in ("kill", "crash", "exit"):
            with self.subTest(how=how):
                process = self.grower()
                watch = self.seeded_watch(process)
                process.die(how)
                self.assertEqual(watch.code(), lib.GONE)
                self.assert_cut_short(watch, process)
                self.assertEqual(watch.events("ended")[0]["profiles"], 1)

    def test_exec(self):
        process = self.grower()
        watch = self.seeded_watch(process)
        process.die("exec")
        self.assert_cut_short(watch, process)

    def test_newer_than_the_last(self):
        """A profile that a rule has caused is not written again, if nothing newer is kept."""
        process = self.grower()
        watch = self.watch(process.pid, "-v", "--when", "rss>20M")
        watch.started()
        process.seed()
        watch.wait_for("profile")
        kept = self.count_kept(watch)
        process.die("kill")
        self.assertEqual(watch.code(), lib.GONE)
        count = 1 if self.count_kept(watch) == kept else 2
        self.assertLessEqual(len(watch.events("profile")), count)
        self.assertEqual(len(self.assert_complete(watch)), len(watch.events("profile")))

    def test_without_samples(self):
        """No file that would take the place of another."""
        process = Ending(self, conf="prof:true,prof_active:false")
        watch = self.seeded_watch(process)
        process.die("kill")
        self.assertEqual(watch.code(), lib.GONE)
        self.assertEqual(watch.files(), [])


if __name__ == "__main__":
    lib.main()
