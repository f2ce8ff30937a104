"""jeattach on, with every release: afterwards every thread that allocates is sampled.

In 5.2.1 threads that allocated while profiling was inactive never sample again by themselves.
"""

import json
import os
import signal

import allocators
import lib

THREADS = 12
FAULTY = ("5.2.1",)


class Activate(allocators.TestCase):
    def warm(self, version, link="shared", words=(), **options):
        """All threads have allocated much while profiling was inactive."""
        allocator = self.allocator(
            version, link, words=("--threads", THREADS) + tuple(words), **options
        )
        if "--busy" not in words:
            allocator.ask("work 1000")
        return allocator

    def on(self, allocator, *words):
        return json.loads(self.assert_ran(lib.run_tool("on", "--json", *words, allocator.pid)).text)

    def assert_all_sample(self, allocator):
        """Each worker allocates 1 MB in blocks of 1 KB, with a sample every 4 KiB."""
        allocator.ask("clear")
        allocator.ask("work 1000")
        self.assertEqual(allocator.sampling_threads(), THREADS, allocator.name)

    def test_the_fault_is_there(self):
        """Without the tool the defect is present; else the other tests show nothing."""
        allocator = self.warm("5.2.1")
        allocator.ask("active 1")
        allocator.ask("work 1000")
        self.assertEqual(allocator.sampling_threads(), 0)

    def test_every_thread_samples(self):
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.warm(version, link)
                told = self.on(allocator)
                self.assertEqual(told["threads"], THREADS + 1)
                self.assertEqual((told["threads_sampling"], told["threads_unknown"]),
                                 (THREADS + 1, 0))
                self.assertFalse(told["did_reset"])
                if version in FAULTY:
                    self.assertGreaterEqual(told["threads_woken"], THREADS)
                else:
                    self.assertEqual(told["threads_stopped"], 0)
                self.assert_all_sample(allocator)
                self.assert_well(allocator)

    def test_named_threads(self):
        """They have thread data before they ever sample (thread.prof.name)."""
        allocator = self.warm("5.2.1", words=("--named",))
        self.on(allocator)
        self.assert_all_sample(allocator)
        profile = self.assert_ran(lib.run_tool("dump", "-o", "-", allocator.pid)).out.decode(
            errors="replace"
        )
        head = profile.partition("\n@")[0]
        for i in range(THREADS):
            self.assertRegex(head, r"(?m)^  t\d+: [1-9]\d*: .* worker-%d$" % i)

    def test_after_off(self):
        """off and on again: threads stop and start to sample, and no sample is lost."""
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.warm(version)
                for _ in range(3):
                    self.on(allocator)
                    self.assert_all_sample(allocator)
                    self.assert_ran(lib.run_tool("off", allocator.pid))
                    self.assertEqual(allocator.sampling_threads(), THREADS)  # kept
                    allocator.ask("clear")
                    allocator.ask("work 3000")
                    self.assertEqual(allocator.sampling_threads(), 0)
                self.assert_well(allocator)

    def test_activated_by_the_program(self):
        """prof.active is already true: on still has to visit the threads."""
        allocator = self.warm("5.2.1")
        allocator.ask("active 1")
        result = self.assert_ran(lib.run_tool("on", allocator.pid))
        self.assertRegex(
            result.text,
            r"\Aprof\.active: true \(unchanged\)\nthreads: 13 of 13 sample; 1[23] had stopped",
        )
        self.assert_all_sample(allocator)
        again = self.assert_ran(lib.run_tool("on", allocator.pid))
        self.assertEqual(again.text, "prof.active: true (unchanged)\nthreads: 13 of 13 sample\n")

    def test_busy_threads(self):
        """Each is stopped outside of the allocator, where it spends most of its time."""
        for version in FAULTY:
            allocator = self.warm(version, words=("--busy",))
            told = self.on(allocator)
            self.assertEqual(told["threads_sampling"], THREADS + 1, told)
            self.assertTrue(
                lib.wait_until(lambda: allocator.sampling_threads() == THREADS, 20, 0.2)
            )
            self.assertTrue(allocator.alive())

    def test_the_period_is_kept(self):
        """The sample period is kept: about 4 KiB between samples, not all at once."""
        allocator = self.warm("5.2.1")
        self.on(allocator)
        allocator.ask("clear")
        allocator.ask("work 64")
        profile = self.assert_ran(lib.run_tool("dump", "-o", "-", allocator.pid)).out.decode(
            errors="replace"
        )
        samples = int(profile.split("t*: ")[1].split(":")[0])
        wanted = THREADS * 64 * 1000 / 4096 * 0.9
        self.assertTrue(wanted / 2 < samples < wanted * 2, (samples, wanted))

    def test_one_thread(self):
        allocator = self.warm("5.2.1")
        tid = allocator.workers()["worker-3"]
        told = self.on(allocator, "--thread", tid)
        self.assertEqual((told["threads"], told["threads_woken"], told["thread"]), (1, 1, tid))
        allocator.ask("work 1000")
        self.assertEqual(allocator.sampling_threads(), 1)

    def test_a_thread_that_cannot_be_reached(self):
        """The thread is named with the reason, the others sample, and the exit code shows it."""
        allocator = self.warm("5.2.1")
        tid = allocator.workers()["worker-5"]
        holder = self.process([os.path.join(lib.VICTIMS, "hold"), str(tid)])
        self.assertTrue(lib.wait_until(lambda: lib.tracer_of_thread(allocator.pid, tid), 5))
        result = lib.run_tool("on", "--timeout", "2s", allocator.pid)
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertIn("threads: 12 of 13 sample", result.text)
        self.assertRegex(result.err, r"thread %d \(worker-5\) does not sample yet: " % tid)
        self.assertIn("traced by %d" % holder.pid, result.err)
        lib.end_process(holder)
        self.assert_ran(lib.run_tool("on", allocator.pid))
        self.assert_all_sample(allocator)

    def test_target_is_as_it_was(self):
        allocator = self.warm("5.2.1")
        self.on(allocator)
        self.assert_ran(lib.run_tool("off", allocator.pid))
        before = lib.snapshot(allocator.pid)
        self.on(allocator)
        self.on(allocator)
        self.assertEqual(lib.snapshot_differences(allocator.pid, before), [])
        self.assert_well(allocator)

    def test_period_of_nothing_and_of_much(self):
        for sample in (0, 19):
            conf = "prof:true,prof_active:false,lg_prof_sample:%d" % sample
            with self.subTest(sample=sample):
                allocator = self.warm("5.2.1", conf=conf)
                self.on(allocator)
                allocator.ask("work %d" % (100 if sample == 0 else 20000))
                self.assert_ran(lib.run_tool("dump", "-o", "-", allocator.pid))
                if sample == 0:
                    self.assertEqual(allocator.sampling_threads(), THREADS)
                self.assert_well(allocator)

    def test_background_threads_are_left_alone(self):
        conf = allocators.CONF + ",background_thread:true"
        allocator = self.warm("5.2.1", conf=conf)
        # It sets its name when it first runs.
        self.assertTrue(lib.wait_until(lambda: "jemalloc_bg_thd" in [
            lib.read_text("/proc/%d/task/%d/comm" % (allocator.pid, tid)).strip()
            for tid in lib.threads(allocator.pid)]), "no background thread")
        told = self.on(allocator)
        self.assertEqual(told["threads"], THREADS + 1)
        self.assert_all_sample(allocator)

    def test_interrupted(self):
        """Ctrl-C in the middle: the result lists the threads done, the others are unchanged, and
        all continue."""
        allocator = self.warm("5.2.1", words=("--threads", 300))
        codes = []
        for k in (100, 5, 40, 300, 1000, 2000):  # calls of the tool into the target
            tool = lib.run_tool("on", allocator.pid, env={
                "JEATTACH_DIE_AT": str(k), "JEATTACH_DIE_SIGNAL": str(int(signal.SIGINT))})
            codes.append(tool.code)
            if tool.code == lib.INTERRUPTED and "prof.active" in tool.text:
                self.assertRegex(tool.text, r"threads: .*\b\d+ of 301\b")
                self.assertIn("interrupted before its turn", tool.err)
                self.assertNotIn("not changed", tool.err)
            elif tool.code == lib.INTERRUPTED:
                self.assertIn("the target was not changed", tool.err)
        print(codes, flush=True)
        self.assertEqual(codes[0], lib.INTERRUPTED, "with hundreds of threads to visit")
        self.assertLessEqual(set(codes), {lib.OK, lib.INTERRUPTED})
        self.assertEqual(self.on(allocator)["threads_sampling"], 301)
        self.assert_well(allocator)

    # ---- threads that were born while prof.thread_active_init was false ----

    def repair(self, allocator, *words):
        return self.on(allocator, "--repair", *words)

    def assert_repaired(self, allocator, off):
        """`off` of the workers do not sample; after the repair all do, and it changes nothing
        more."""
        status = json.loads(self.assert_ran(lib.run_tool("status", "--json", allocator.pid)).text)
        self.assertEqual(status["threads_off"], off)
        self.assertEqual(status["next"], "jeattach on --repair %d" % allocator.pid)
        told = self.on(allocator)
        self.assertEqual((told["threads_sampling"], told["threads_off"]), (THREADS + 1 - off, off))
        allocator.ask("clear")
        allocator.ask("work 1000")
        self.assertEqual(allocator.sampling_threads(), THREADS - off, "the threads are not off")
        told = self.repair(allocator, "--no-call")
        self.assertEqual((told["threads"], told["threads_sampling"], told["threads_off"]),
                         (THREADS + 1, THREADS + 1, 0), told)
        self.assertEqual((told["threads_switched_on"], told["threads_stopped"], told["calls"]),
                         (off, off, 0))
        self.assertFalse(told["thread_active_init_repaired"])
        self.assert_all_sample(allocator)
        again = self.repair(allocator)
        self.assertEqual((again["threads_sampling"], again["threads_switched_on"]),
                         (THREADS + 1, 0))
        self.assert_well(allocator)

    def test_threads_that_are_off(self):
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.warm(version, link, words=("--off", 5))
                self.assert_repaired(allocator, 5)
                allocator.stop()

    def test_repair_beside_a_wrapper(self):
        """What is written into a stopped thread calls none of the functions that are wrapped."""
        library = "%s/libinterposer.so libjemalloc.so.2" % lib.VICTIMS
        allocator = self.warm("5.3.0", words=("--off", 1), library=library)
        told = self.repair(allocator)
        self.assertEqual((told["threads_switched_on"], told["threads_stopped"], told["calls"]),
                         (1, 1, 0), told)
        self.assert_all_sample(allocator)

    def test_the_words_of_a_repair(self):
        allocator = self.warm("5.3.0", words=("--off", 1))
        result = self.assert_ran(lib.run_tool("on", "--repair", allocator.pid))
        self.assertIn("\nthreads: 13 of 13 sample; 1 was off (thread.prof.active)\n", result.text)
        self.assertRegex(result.err, "; 1 thread was stopped for ")
        again = self.assert_ran(lib.run_tool("on", "--repair", allocator.pid))
        self.assertEqual(again.text, "prof.active: true (unchanged)\nthreads: 13 of 13 sample\n")
        self.assertIn("no thread was stopped", again.err)

    def test_off_is_told(self):
        """Without --repair the threads stay as they are, and the remedy is named."""
        allocator = self.warm("5.3.0", words=("--off", 2))
        result = self.assert_ran(lib.run_tool("on", allocator.pid))
        self.assertIn("threads: 11 of 13 sample; 2 are off (thread.prof.active)\n", result.text)
        self.assertIn("jeattach on --repair %d switches them on" % allocator.pid, result.err)
        self.assertIn("no thread was stopped", result.err)
        status = self.assert_ran(lib.run_tool("status", allocator.pid)).text
        self.assertIn("\n  threads       11 of 13 sample; 2 are off (thread.prof.active)\n", status)
        self.assertIn("\nnext: jeattach on --repair %d\n" % allocator.pid, status)

    def test_new_threads_are_repaired(self):
        """prof.thread_active_init is false: a thread without data of its own obeys it, too."""
        for version, link in allocators.CELLS:
            for way in ("--call", "--verbose"):
                with self.subTest(version=version, link=link, way=way):
                    conf = allocators.CONF + ",prof_thread_active_init:false"
                    allocator = self.warm(version, link, conf=conf)
                    result = self.assert_ran(lib.run_tool("on", way, allocator.pid))
                    self.assertIn("prof.thread_active_init is false", result.err)
                    self.assertIn("jeattach on --repair %d" % allocator.pid, result.err)
                    told = self.repair(allocator, way)
                    self.assertTrue(told["thread_active_init_repaired"])
                    self.assertEqual(told["threads_sampling"], THREADS + 1)
                    self.assert_all_sample(allocator)
                    said = lib.run_tool("mallctl", allocator.pid, "prof.thread_active_init", "-q")
                    self.assertEqual(said.text, "prof.thread_active_init = true\n")
                    self.assertFalse(self.repair(allocator)["thread_active_init_repaired"])
                    self.assert_well(allocator)
                    allocator.stop()

    def test_repair_of_a_thread_that_cannot_be_reached(self):
        allocator = self.warm("5.3.0", words=("--off", 3))
        tid = allocator.workers()["worker-1"]
        holder = self.process([os.path.join(lib.VICTIMS, "hold"), str(tid)])
        self.assertTrue(lib.wait_until(lambda: lib.tracer_of_thread(allocator.pid, tid), 5))
        result = lib.run_tool("on", "--repair", "--timeout", "2s", allocator.pid)
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertRegex(result.err, r"thread %d \(worker-1\) does not sample yet: " % tid)
        self.assertIn("run jeattach on --repair %d again" % allocator.pid, result.err)
        lib.end_process(holder)
        self.assertEqual(self.repair(allocator)["threads_sampling"], THREADS + 1)
        self.assert_all_sample(allocator)


if __name__ == "__main__":
    lib.main()
