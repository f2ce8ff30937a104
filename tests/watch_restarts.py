"""watch: processes that start, end and exec other programs, by name and by container."""

import os
import random
import subprocess

import lib
from lib import INTERRUPTED, OK, USAGE
from watching import CONF, MIB, WatchTest


class Restarts(WatchTest):
    def test_name_that_is_not_there_yet(self):
        program = self.program()
        watch = self.watch("-n", os.path.basename(program), "--when", "rss>20M", "--once", "--on")
        watch.wait_for("waiting")
        grower = self.grower(program=program, active=False)
        self.watched(watch, grower, 1)
        grower.end()
        self.assertEqual(watch.wait_for("ended")[0]["profiles"], 0)
        grower = self.grower(program=program, active=False)
        self.watched(watch, grower, 2)
        grower.grow(30)
        self.assertEqual(watch.code(), OK)
        self.assertFalse(watch.events("profile")[0]["empty"])

    def test_successor_that_cannot_profile(self):
        program = self.program()
        grower = self.grower(program=program)
        watch = self.watch("-n", os.path.basename(program), "--when", "rss>20M")
        watch.started()
        grower.end()
        watch.wait_for("ended")
        grower = self.grower(program=program, conf="prof:false")
        self.assertIn("opt.prof is false", watch.wait_for("failed")[0]["cause"])
        grower.end()
        grower = self.grower(program=program)
        self.watched(watch, grower, 2)
        self.assertEqual(watch.end(), INTERRUPTED)

    def test_two_of_a_name(self):
        program = self.program()
        self.grower(program=program)
        self.grower(program=program)
        watch = self.watch("-n", os.path.basename(program), "--when", "rss>20M")
        self.assertEqual(watch.code(), USAGE)
        self.assertIn("matches 2 processes", watch.said())

    def test_container(self):
        identity = "%064x" % random.getrandbits(255)
        group = self.group(name="docker/" + identity)
        grower = self.grower(group=group)
        watch = self.watch("--container", identity[:12], "--when", "rss>20M")
        self.watched(watch, grower, 1)
        grower.end()
        watch.wait_for("waiting")
        grower = self.grower(group=group)
        self.watched(watch, grower, 2)
        grower.grow(30)
        self.assertEqual(watch.wait_for("profile")[0]["pid"], grower.pid)
        self.assertEqual(watch.end(), INTERRUPTED)

    def test_keep_of_another_container(self):
        """A container's process pushes no profile of one with its name in another one out."""
        program, directory = self.program(), self.directory()
        seen = []
        for _ in range(2):
            identity = "%064x" % random.getrandbits(255)
            group = self.group(name="docker/" + identity)
            grower = self.grower(program=program, group=group)
            for _ in range(2):
                watch = self.watch(grower.pid, "--when", "rss>1K", "--once", "--keep", 1,
                                   directory=directory)
                self.assertEqual(watch.code(), OK)
            seen.append((identity[:12], grower.pid))
        files = os.listdir(directory)
        self.assertEqual(len(files), 2, files)
        for words in seen:
            self.assertTrue(any("@%s-%d-" % words in name for name in files), files)

    def test_other_program(self):
        library = next(
            (m.path for m in lib.mappings(self.grower().pid) if "libjemalloc" in m.path), None)
        env = dict(lib.tool_environment(), MALLOC_CONF=CONF % "true", LD_PRELOAD=library)
        process = self.process(
            ["sh", "-c", "echo up; read line; exec %s" % os.path.join(lib.VICTIMS, "grower")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)
        self.assertEqual(process.stdout.readline(), "up\n")
        watch = self.watch(process.pid, "--when", "rss>20M", "--once")
        watch.started()
        process.stdin.write("go\ngrow %d\n" % (30 * MIB))
        process.stdin.flush()
        self.assertEqual(watch.code(), OK)
        self.assertEqual(watch.events("watching")[-1]["name"], "grower")
        self.assertIn("grower-%d" % process.pid, self.assert_complete(watch)[0])


if __name__ == "__main__":
    lib.main()
