"""Hostile processes and containers: their names, the files in their place, and when they end."""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import stat
import struct
import subprocess

import hostile
import lib
from hostile import MIB, WITHOUT_MAP_FILES, Opens, run_bounded
from e2e_ps import jemalloc_library

NASTY = b"\x1b]0;t\x07\n\x9b1m\"\\\xff"  # the longest name of a process
VERBS = (("status",), ("stats",), ("stats", "--full"), ("stats", "--prometheus"), ("on",), ("off",), ("mallctl", "prof.reset"),
         ("purge",), ("mallctl", "version"), ("mallctl", "version", "-v"), ("dump",),
         ("status", "-v"), ("on", "-v"),
         ("record", "-d", "50ms", "-o", "%n.heap"), ("record", "-d", "50ms", "-o", "%n.folded"),
         ("record", "--call", "-d", "50ms", "-o", "%n.heap"), ("dump", "-o", "%n.heap"),
         ("leak", "-d", "50ms", "--settle", "10ms"), ("top", "--once"),
         ("watch", "--when", "rss>1K", "--once", "-o", "."),
         ("watch", "--call", "--when", "rss>1K", "--once", "-o", "."))


def verb_words(verb, pid):
    return [verb[0], pid, *verb[1:]]


def both_name(processes):
    """Names as the kernel shows them."""
    with open("/proc/%d/comm" % processes[0].pid, "rb") as file:
        return os.fsdecode(file.read()[:-1])


class Names(hostile.TestCase):
    """Names set by the kernel, by jemalloc's configuration, and by the process itself."""

    def assert_json(self, result):
        self.assert_clean(result)
        return json.loads(result.out)

    def nasty(self, **env):
        directory = self.install("\x1b[2J\x9b d")
        program = os.path.join(directory, "hostile")
        words = {"program": program, "argv0": NASTY, "COMM": NASTY, "HOSTILE": "escapes"}
        return self.hostile(cwd=directory, **{**words, **env})

    def test_several(self):
        """All at once, selected by pid and by name, as text and as JSON."""
        both = [self.nasty(), self.nasty()]
        pids = [process.pid for process in both]
        for words in (("status", *pids), ("stats", *pids), ("on", *pids),
                      ("status", "-n", both_name(both), "--all"), ("status", "-n", both_name(both))):
            for json_too in ((), ("--json",)):
                with self.subTest(words=words, json=json_too):
                    result = run_bounded(*words, *json_too)
                    self.assert_bounded(result)

    def test_every_verb(self):
        process = self.nasty(MALLOC_CONF=b"\x1b]0;\x07\n\xff:1", X_MALLOC_CONF=b"\x1b[2J\n")
        for verb in VERBS:
            with self.subTest(verb=verb):
                result = run_bounded(*verb_words(verb, process.pid), cwd=self.path("."))
                self.assert_bounded(result)
                self.assertTrue(result.out or result.code, result)
        self.assert_untraced(process)

    def test_metrics(self):
        """Every line has the metrics format, and the name is within its quotes."""
        process = self.nasty(HOSTILE="")
        result = self.assert_bounded(run_bounded("stats", process.pid, "--prometheus"))
        self.assertEqual(result.code, lib.OK, result)
        samples = [line for line in result.out.decode().splitlines() if not line.startswith("# ")]
        self.assertGreater(len(samples), 3)
        for line in samples:
            self.assertRegex(line, r'\Ajemalloc_\w+\{pid="\d+",process="([^"\\]|\\[\\"n])*"\} -?\d+\Z')

    def test_every_json(self):
        process = self.nasty(MALLOC_CONF=b"\x1b]0;\x07\n\xff:1")
        for verb in VERBS:
            if "--prometheus" in verb:
                continue
            with self.subTest(verb=verb):
                result = run_bounded(*verb_words(verb, process.pid), "--json",
                                     cwd=self.path("."))
                self.assert_bounded(result)
                self.assertIn(result.code, (lib.OK, lib.REFUSED), result)
                for answer in self.json_objects(result.out):
                    if "name" not in answer:
                        continue
                    self.assertEqual(answer["name"], "\x1b]0;t\x07\n\ufffd1m\"\\\ufffd")
        self.assert_untraced(process)

    def test_ps(self):
        process = self.nasty()
        self.assert_bounded(run_bounded("ps"))
        answer = self.assert_json(run_bounded("ps", "--json"))
        found = [row for row in answer["processes"] if row["pid"] == process.pid]
        self.assertEqual(len(found), 1)
        self.assertIn("\x1b[2J", found[0]["module"])

    def test_titles(self):
        """In report formats a title may be any text but must not end its element."""
        process = self.nasty(HOSTILE="modules")
        for name in ("a.folded", "a.txt", "a.dot", "a.html", "a.pb.gz", "a.heap"):
            with self.subTest(name=name):
                out = self.path(name)
                result = self.assert_bounded(run_bounded("dump", process.pid, "-o", out))
                self.assertEqual(result.code, lib.OK, result)
                if name.endswith((".pb.gz", ".heap")):
                    continue
                with open(out, "rb") as file:
                    text = file.read()
                self.assertNotIn(b"\x1b", text)
                self.assertIsNone(hostile.CONTROLS.search(text))

    def test_name_of_the_interface(self):
        """A prefix that is not a C identifier is ignored: it would appear in messages and as a
        variable."""
        self.need_tools("cc")
        source, library = self.path("fake.c"), self.path("libfake.so")
        hidden, good, bad = '__attribute__((visibility("hidden"))) ', b"aaaaaaaaaa_", b"\x1b]0;title\x07_"
        with open(source, "w") as file:
            for name in ("mallctl", "malloc_stats_print"):
                file.write("%sint aaaaaaaaaa_%s(void) { return 0; }\n" % (hidden, name))
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
        with open(library, "rb") as file:
            data = file.read()
        self.assertEqual(data.count(good), 2)
        for prefix, expected in ((good, ["aaaaaaaaaa_", ""]), (bad, [""])):
            with open(library + ".new", "wb") as file:
                file.write(data.replace(good, prefix))
            os.rename(library + ".new", library)
            process = self.hostile(LD_PRELOAD=library)
            result = self.assert_bounded(run_bounded("status", process.pid, "--json"))
            found = [row["prefix"] for row in json.loads(result.out)["instances"]]
            self.assertEqual(sorted(found), sorted(expected))

    def need_tools(self, *names):
        for name in names:
            if not shutil.which(name):
                self.skipTest("%s is not installed" % name)

    def test_groups(self):
        """Its status is longer than two pages: fields after the groups are read as well."""
        lib.require_root()
        before = os.getgroups()
        os.setgroups(range(100000, 103000))
        try:
            victim = self.victim(arguments=("--filter", "kill"))
        finally:
            os.setgroups(before)
        self.assertGreater(len(lib.read_text("/proc/%d/status" % victim.pid)), 16384)
        self.assertEqual(lib.status_fields(victim.pid)["Seccomp"], "2")
        self.switch(victim, "on")  # an executable page would end the process
        self.assert_unharmed(victim, slow=True)


class Files(hostile.TestCase):
    """The target chooses the files in its root."""

    def setUp(self):
        lib.require_root()
        self.need_setpriv()
        self.root = self.install("root", "lib")
        self.program = os.path.join(self.root, "hostile")
        self.library = os.path.join(self.root, "libhostile_allocator.so")

    def start(self, *words, how="--container", **env):
        """In a root of its own: that of a mount namespace, or of chroot(2)."""
        root = (how, self.path("root")) if how else ()
        if how == "--container":
            self.install_libraries()
        return self.hostile(*root, *words, program=self.program, **env)

    def install_libraries(self):
        text = subprocess.run(["ldd", self.program], capture_output=True, text=True).stdout
        for path in re.findall(r"(/\S+) \(0x", text):
            place = "lib64" if "ld-linux" in path else "lib"
            if not path.startswith(self.root):
                shutil.copy(path, self.path("root", place, os.path.basename(path)))

    def look(self, process, *words, before=()):
        """The verbs that read its files, without map_files, which leads to the mapped file itself.
        """
        for verb in (("status", process.pid, "--json"), ("on", process.pid), ("ps", "--json"),
                     ("dump", process.pid, "-o", self.path("out.folded"))):
            result = run_bounded(*verb, *words, before=[*WITHOUT_MAP_FILES, *before])
            self.assert_bounded(result)
        self.assert_untraced(process)

    def need_setpriv(self):
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is not installed")

    def replace(self, make):
        """Under its own name, and under the name that maps shows for a deleted file."""
        for path in (self.library, self.library + " (deleted)"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            make(path)

    def test_link_to_the_host(self):
        """A link to the same library outside of its root, by a path that only the host has."""
        outside = self.path("outside.so")
        shutil.copy(self.library, outside)
        opens = Opens(outside)
        self.addCleanup(opens.close)
        for how in ("--container", "--root"):
            process = self.start(how=how)
            self.assertFalse(opens.seen())
            self.replace(lambda path: os.symlink(outside, path))
            self.look(process)
            self.assertFalse(opens.seen(), "the tool has opened a file of the host")
            self.replace(lambda path: shutil.copy(outside, path))
            self.assertTrue(opens.seen(), "an opening would not have been seen")

    def test_special_files(self):
        """None of them is opened, and the tool waits for none."""
        def node(kind, major, minor):
            return lambda path: os.mknod(path, kind | 0o666, os.makedev(major, minor))

        kinds = {
            "fifo": os.mkfifo,
            "zero": node(stat.S_IFCHR, 1, 5),
            "terminal": node(stat.S_IFCHR, 5, 0),
            "directory": os.mkdir,
            "log": lambda path: os.symlink("/proc/kmsg", path),
            "itself": lambda path: os.symlink(path, path),
        }
        process = self.start()
        for name, make in kinds.items():
            with self.subTest(name=name):
                try:
                    self.replace(make)
                except OSError as error:
                    self.skipTest("%s: %s" % (name, error))
                paths = (self.library, self.library + " (deleted)")
                opens = [Opens(path) for path in paths if not os.path.islink(path)]
                self.look(process)
                if name != "directory":
                    self.assertFalse(any(each.seen() for each in opens), "it was opened")
                for each in opens:
                    each.close()
                for path in paths:
                    (os.rmdir if name == "directory" else os.unlink)(path)

    def test_nothing_is_opened(self):
        """A reader of a FIFO, however short, releases the writer that waits there."""
        preload = self.path("root", "etc", "ld.so.preload")
        os.mkfifo(preload)
        process = self.start("--wait", "/etc/ld.so.preload", how="--root")
        self.look(process)
        self.look_with_root(process)
        with open(preload, "rb"):  # now a reader releases it
            self.assertEqual(process.stdout.readline(), b"opened\n")

    def look_with_root(self, process):
        os.set_blocking(process.stdout.fileno(), False)
        self.assert_bounded(run_bounded("ps"))
        self.assert_bounded(run_bounded("status", process.pid))
        self.assertIsNone(process.stdout.read(), "the tool has opened it")
        os.set_blocking(process.stdout.fileno(), True)

    def sections(self, data, size):
        """The library, its section headers those of a symbol table as large as the file."""
        at, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
        for i in range(count):
            kind = struct.unpack_from("<I", data, at + 64 * i + 4)[0]
            if kind in (2, 3):  # .symtab and its names
                struct.pack_into("<QQ", data, at + 64 * i + 24, 4096, size - 4096)
        return data

    def test_sparse(self):
        """A sparse file of a terabyte, all of it symbols."""
        process = self.start()
        with open(self.library, "rb") as file:
            library = file.read()
        for size in (1 << 40, 768 * MIB):
            data = self.sections(bytearray(library), size)
            os.unlink(self.library)
            with open(self.library, "wb") as file:
                file.write(data)
                try:
                    file.truncate(size)
                except OSError as error:
                    self.skipTest("no sparse file of that size: %s" % error)
            self.look(process)

    def test_many_sparse_files(self):
        """Each of them could be read: the memory for all of them together has a limit."""
        size, count = 900 * MIB, 5
        with open(self.library, "rb") as file:
            data = self.sections(bytearray(file.read()), size)
        names = [self.path("root", "lib", "sparse%d.so" % i) for i in range(count)]
        for name in names:
            with open(name, "wb") as file:
                file.write(data)
                file.truncate(size)
        process = self.start(how=None, HOSTILE="own", LD_PRELOAD=" ".join(names))
        out = self.path("out.txt")
        result = run_bounded("dump", process.pid, "-o", out)
        self.assert_bounded(result, 2560 * MIB)
        self.assertEqual(result.code, lib.OK, result)

    def test_truncated_while_read(self):
        """Its pages vanish: a reader that maps the file would end by SIGBUS."""
        process = self.start()
        with open(self.library, "rb") as file:
            data = file.read()
        script = (
            "import os, sys\nfd, data = os.open(sys.argv[1], os.O_RDWR), sys.stdin.buffer.read()\n"
            "print('ready', flush=True)\n"
            "while True:\n    for n in (0, 64, 4096, len(data) // 2, len(data)):\n"
            "        os.ftruncate(fd, n)\n        os.pwrite(fd, data[:n], 0)\n"
        )
        os.unlink(self.library)  # the mapped part stays
        with open(self.library, "wb") as file:
            file.write(data)
        writer = self.process(["python3", "-c", script, self.library],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        writer.stdin.write(data)
        writer.stdin.close()
        self.assertEqual(writer.stdout.readline(), b"ready\n")
        for _ in range(2):
            self.look(process)
        self.assertIsNone(writer.poll())

    def test_lies_about_its_build_id(self):
        """Another library with the same build-id: the calls use the addresses of the mapped one."""
        process = self.start()
        with open(self.library, "rb") as file:
            data = file.read()
        at, = struct.unpack_from("<Q", data, 40)
        os.unlink(self.library)
        with open(self.library, "wb") as file:  # the loaded part stays, the rest is noise
            file.write(data[:at] + bytes((i * 7) % 251 for i in range(len(data) - at)))
        self.look(process)
        result = run_bounded("mallctl", process.pid, "prof.active", before=WITHOUT_MAP_FILES)
        self.assertIn(b"true", result.out, result)

    def test_debug_link_upwards(self):
        """.gnu_debuglink names one part of a path; a path that leads elsewhere is ignored."""
        if not shutil.which("objcopy"):
            self.skipTest("objcopy is not installed")
        secret = self.path("root", "secret12")
        shutil.copy(self.library, secret)
        debug = self.path("aaaaaaaaaaa.so")
        shutil.copy(self.library, debug)
        subprocess.run(["objcopy", "--strip-all", "--remove-section=.note.gnu.build-id",
                        "--add-gnu-debuglink=" + debug, self.library], check=True)
        with open(self.library, "rb") as file:
            data = file.read()
        self.assertEqual(data.count(b"aaaaaaaaaaa.so"), 1)
        with open(self.library, "wb") as file:
            file.write(data.replace(b"aaaaaaaaaaa.so", b"../../secret12"[:14].ljust(14, b"\0")))
        process = self.start()
        opens = Opens(secret)
        self.addCleanup(opens.close)
        self.look(process)
        self.assertFalse(opens.seen())

    def test_without_openat2(self):
        """A kernel before 5.6, or a container whose seccomp profile does not know openat2."""
        outside = self.path("outside.so")
        shutil.copy(self.library, outside)
        fifo = self.path("root", "fifo")
        os.mkfifo(fifo)
        self.need_setpriv()
        for err in (38, 1):
            with self.subTest(errno=err):
                process = self.start()
                refuse = hostile.refuse_calls(err, hostile.OPENAT2)
                found = run_bounded("status", process.pid, "--json", preexec=refuse)
                self.assertEqual(self.assert_bounded(found).code, lib.OK, found)
                result = run_bounded("dump", process.pid, "--path", "/fifo", preexec=refuse)
                self.assertEqual(result.code, lib.REFUSED, result)
                self.assertIn("FIFO", result.err)
                self.replace(lambda path: os.symlink(outside, path))
                opens = Opens(outside)
                for words in (("status", process.pid), ("on", process.pid), ("ps",)):
                    result = run_bounded(*words, before=WITHOUT_MAP_FILES, preexec=refuse)
                    self.assert_bounded(result)
                self.assertFalse(opens.seen())
                opens.close()
                self.replace(lambda path: shutil.copy(outside, path))


class Kernel(hostile.TestCase):
    """Makes the kernel wait. Whoever lists processes then waits as well: the test runs alone
    (tests/CMakeLists.txt)."""

    def setUp(self):
        self.close_memory()

    def run_until_it_waits(self, words):
        """On a loaded machine the deadline may come before the page that never arrives."""
        for timeout in ("1s", "5s", "25s"):
            result = run_bounded(*words, "--timeout", timeout)
            if "do not respond" in result.err:
                break
        return result

    def test_memory_that_never_comes(self):
        """No signal ends this wait: the tool exits by itself and says why; `ps` lists the others."""
        other = self.hostile()
        process = self.hostile("--fault")
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            status, ps, search = pool.map(self.run_until_it_waits, (
                ("status", process.pid), ("ps", "--json"), ("on", "-s", process.pid)))
        for result, code in ((status, lib.NO_SAFE_MOMENT), (ps, lib.OK), (search, lib.NO_SAFE_MOMENT)):
            self.assert_bounded(result)
            self.assertEqual(result.code, code, result)
            self.assertIn("do not respond", result.err)
            self.assertRegex(result.err, r"process %d\b" % process.pid)
        self.assert_untraced(process)
        answer = json.loads(ps.out)
        self.assertGreater(answer["left_out"], 0)
        self.assertIn(process.pid, [row["pid"] for row in answer["left_out_processes"]])
        self.assertIn(other.pid, [row["pid"] for row in answer["processes"]])


    def test_memory_that_never_comes_at_a_stop(self):
        """The tool exits by itself as well if a thread is stopped, which is thereby resumed."""
        process = self.hostile("--hooks", LD_PRELOAD=jemalloc_library(),
                               MALLOC_CONF="narenas:1")
        result = self.run_until_it_waits(("purge", process.pid))
        self.assertEqual(result.code, lib.CALL_LATE, result)
        self.assertIn("do not respond", result.err)
        self.assert_untraced(process)
        self.assertIsNone(process.poll())


    def test_stopped_no_longer_than_the_timeout(self):
        """A stopped thread does not wait for the deadline if its memory does not come."""
        process = self.hostile("--hooks", LD_PRELOAD=jemalloc_library(), MALLOC_CONF="narenas:1")
        result = run_bounded("purge", process.pid, "--timeout", "12s")
        self.assertEqual(result.code, lib.CALL_LATE, result)
        self.assertIn("do not respond", result.err)
        self.assertLess(result.seconds, 12)
        self.assert_untraced(process)
        self.assertIsNone(process.poll())


class Ends(hostile.TestCase):
    """A target that ends, or becomes another program, at the worst moment."""

    ROUNDS = 25 if hostile.SANITIZED else 60
    WORDS = (("status",), ("on",), ("dump", "--call", "-o", "OUT"), ("stats", "--full"),
             ("stats", "--full", "--json"), ("mallctl", "prof.active"), ("dump", "-o", "OUT"), ("dump",),
             ("off",))

    def words(self, number, pid):
        verb = self.WORDS[number % len(self.WORDS)]
        out = self.path("out.folded")
        return [verb[0], pid, *(out if word == "OUT" else word for word in verb[1:]),
                "--timeout", "5s"]

    def storm(self, kind, rounds, process=None):
        codes = set()
        for number in range(rounds):
            ends = process is None
            if ends:
                target = subprocess.Popen([os.path.join(lib.VICTIMS, "hostile"), "--storm", kind],
                                          cwd=self.path("."), stdout=subprocess.DEVNULL)
            try:
                pid = target.pid if ends else process.pid
                result = run_bounded(*self.words(number, pid))
                self.assert_bounded(result)
                codes.add(result.code)
            finally:
                if ends:
                    lib.end_process(target)
        return codes

    def start(self, kind):
        process = self.process([os.path.join(lib.VICTIMS, "hostile"), "--storm", kind],
                               cwd=self.path("."), stdout=subprocess.DEVNULL)
        self.assertTrue(lib.wait_until(lambda: "hostile" in os.readlink("/proc/%d/exe" % process.pid)))
        return process

    def test_exit(self):
        codes = self.storm("exit", self.ROUNDS)
        self.assertIn(lib.GONE, codes)

    def test_exec(self):
        process = self.start("exec")
        self.storm("exec", self.ROUNDS, process)
        self.assert_untraced(process)

    def test_reuse(self):
        """Another process gets the same pid while the tool examines the first one."""
        lib.require_root()
        keeper = self.process([os.path.join(lib.VICTIMS, "hostile"), "--storm", "reuse"],
                              cwd=self.path("."), stdout=subprocess.PIPE)
        line = keeper.stdout.readline()
        if not line.startswith(b"ready "):
            self.skipTest(line.decode().strip())
        codes = set()
        for number in range(self.ROUNDS):
            result = run_bounded(*self.words(number, int(line.split()[1])))
            codes.add(self.assert_bounded(result).code)
        if keeper.poll() == lib.SKIPPED:
            self.skipTest(keeper.stdout.read().decode().strip())
        self.assertIn(lib.GONE, codes)

    def test_threads(self):
        process = self.start("threads")
        codes = self.storm("threads", self.ROUNDS // 2, process)
        self.assertIn(lib.OK, codes)
        self.assert_untraced(process)


if __name__ == "__main__":
    lib.main()
