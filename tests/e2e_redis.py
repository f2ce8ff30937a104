"""Debian's redis-server, idle and under load."""

import json
import os
import re

import lib

ROUNDS = 20


class RedisServer(lib.TestCase):
    def redis(self, load):
        redis = lib.Redis(self.directory())
        self.addCleanup(redis.stop)
        if load:
            redis.start_load()
            lib.wait_until(lambda: redis.commands_done() > 1000)
        else:
            redis.cli("debug", "populate", "20000")
        return redis

    def use_all(self, redis, sink):
        self.assertIn(" -> true", self.assert_ran(lib.run_tool("on", redis.pid)).text)
        path = self.assert_ran(lib.run_tool("dump", redis.pid)).text.rstrip("\n")
        self.assertEqual(os.path.dirname(path), redis.directory)
        with open(path, "rb") as file:
            self.assert_profile(file.read(), 0)
        os.unlink(path)
        self.assert_ran(lib.run_tool("dump", redis.pid, "--force", "-o", sink))
        with open(sink, "rb") as file:
            self.assert_profile(file.read(), 0)
        self.assertIn(" -> false", self.assert_ran(lib.run_tool("off", redis.pid)).text)

    def exercise(self, redis):
        sink = os.path.join(self.directory(), "redis.heap")
        text = lib.text_hashes(redis.pid)
        before = lib.snapshot(redis.pid)
        files = sorted(os.listdir(redis.directory))
        for _ in range(ROUNDS):
            done = redis.commands_done()
            self.use_all(redis, sink)
            self.assertTrue(redis.ping(), "no PONG")
            self.assertGreater(redis.commands_done(), done)
        after = lib.snapshot(redis.pid)
        self.assertEqual(lib.text_hashes(redis.pid), text)
        self.assertEqual(after.masks, before.masks)
        self.assertEqual(after.threads, before.threads)
        self.assertEqual(sorted(os.listdir(redis.directory)), files)
        self.assertIsNone(redis.process.poll())

    def test_idle(self):
        redis = self.redis(False)
        self.exercise(redis)

    def test_under_load(self):
        redis = self.redis(True)
        self.exercise(redis)
        self.assertIsNone(redis.load.poll(), "redis-benchmark gave up")

    def test_samples_of_the_load(self):
        """Between on and off redis allocates: the profile has stacks."""
        redis = self.redis(True)
        self.assert_ran(lib.run_tool("on", redis.pid))
        done = redis.commands_done()
        lib.wait_until(lambda: redis.commands_done() > done + 20000)
        result = self.assert_ran(lib.run_tool("dump", redis.pid, "-o", "-"))
        self.assert_profile(result.out, 3)
        self.assertTrue(redis.ping())

    def test_status(self):
        redis = self.redis(False)
        result = self.assert_ran(lib.run_tool("status", redis.pid))
        self.assertIn("opt.prof", result.text)
        # redis writes its title over the environment that it was started with.
        self.assertIn("MALLOC_CONF='prof:true,prof_active:false,", result.text)
        self.assertIn("the process has overwritten its initial environment", result.text)
        self.assertTrue(redis.ping())

    def test_stats(self):
        """The rows of a filled server: they add up, and its data is among them."""
        for load in (False, True):
            with self.subTest(load=load):
                redis = self.redis(load)
                text = self.assert_ran(lib.run_tool("stats", "--prometheus", redis.pid)).text
                found = dict(re.findall(r"(?m)^jemalloc_(\w+)_bytes\{.*\} (-?\d+)$", text))
                used = int(found["allocated"])
                self.assertGreater(used, 1 << 20)
                self.assertLess(used, int(found["process_resident"]))
                own = int(re.search(r"allocator_allocated:(\d+)", redis.cli("info", "memory"))[1])
                if not load:
                    self.assertLess(abs(own - used), own / 10 + (1 << 20))
                report = json.loads(self.assert_ran(lib.run_tool("stats", "--full", "--json", redis.pid)).text)
                self.assertGreater(report["jemalloc"]["stats"]["allocated"], 1 << 20)
                self.assertTrue(redis.ping())


if __name__ == "__main__":
    lib.main()
