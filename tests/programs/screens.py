#!/usr/bin/env python3
"""The screens in docs/explain.md, of real programs: they are made here, and checked.

    screens.py NAME...           the screen of each program has the shape of that in the page
    screens.py --list            prints their names
    screens.py --write NAME...   writes the screens into the page; without a name, all

In the page the block of a program begins with ```text NAME. What a test compares is the first
clause and the wording of the rows, not a number and not which of the small rows are there.
"""

import os
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import programs  # noqa: E402
from programs import lib  # noqa: E402

PAGE = os.path.join(lib.ROOT, "docs", "explain.md")
CGROUPS = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
LIMIT_FILES = "memory.limit_in_bytes", "memory.max"
WARM_UP = 3
GIB = 1 << 30


class Script(programs.Server):
    """A program that needs no load: it has filled its memory when it says so, or after a while."""

    conf, preload, words = "", False, []

    def command(self):
        return self.words

    def ready(self):
        return True

    def load(self, seconds):
        time.sleep(seconds)


class Redis(programs.Redis):
    conf = ""

    def filled(self, count):
        text = "for i = 1, %d do redis.call('set', 'key:' .. i, string.rep('x', 100)) end"
        self.cli("eval", text % count, "0")

    def cli(self, *words):
        subprocess.run([programs.program("redis-cli"), "-s", "socket", *words], check=True,
                       cwd=self.directory, stdout=subprocess.DEVNULL)


class RedisFilled(Redis):
    limit = GIB

    def load(self, seconds):
        words = "-q -t set -d 200 -n 100000000 -r 100000000 -c 20 -P 16 -s socket".split()
        load = subprocess.Popen([programs.program("redis-benchmark")] + words, cwd=self.directory,
                                stdout=subprocess.DEVNULL)
        time.sleep(seconds)
        lib.end_process(load)


class RedisDeleted(Redis):
    def start(self):
        super().start()
        self.filled(1000000)
        text = "for i = 1, 1000000 do if i % 5 > 0 then redis.call('del', 'key:' .. i) end end"
        self.cli("eval", text, "0")

    def load(self, seconds):
        time.sleep(seconds)


class Mariadb(programs.Mariadb):
    conf = "prof:true,lg_prof_sample:17"


class Memcached(programs.Memcached):
    conf = "prof:true,prof_active:false"


class Postgres(programs.Postgres):
    preload, conf = False, ""


class Nginx(programs.Nginx):
    preload, conf = False, ""


class Node(Script):
    def command(self):
        return [programs.program("node"), "-e", """const kept = []; setInterval(() => {
            for (let i = 0; i < 20000; i++) kept.push({i, text: 'x' + i}) }, 50)"""]


class Python(Script):
    def command(self):
        return ["/usr/bin/python3", "-c", """import time
kept = {i: 'value %d' % i for i in range(1000000)}
time.sleep(1000)"""]


class Java(Script):
    def prepare(self):
        text = """class Batches { public static void main(String[] a) throws Exception {
            java.util.List<byte[]> kept = new java.util.ArrayList<>();
            for (;;) { kept.add(new byte[1 << 20]); if (kept.size() == 150) kept.clear();
                       Thread.sleep(20); } } }"""
        with open(os.path.join(self.directory, "Batches.java"), "w") as file:
            file.write(text)
        subprocess.run([programs.program("javac"), "Batches.java"], cwd=self.directory, check=True)

    def command(self):
        return [programs.program("java"), "-Xmx512m", "-cp", self.directory, "Batches"]


class Go(Script):
    def prepare(self):
        text = """package main
            import "time"
            type session struct { name string; data [4000]byte }
            func main() { var kept []*session
              for { kept = append(kept, &session{name: "x"}); time.Sleep(100 * time.Microsecond) } }"""
        with open(os.path.join(self.directory, "sessions.go"), "w") as file:
            file.write(text)
        settings = dict(os.environ, GOCACHE=os.path.join(self.directory, "cache"), GOFLAGS="",
                        GOPATH=os.path.join(self.directory, "path"), GO111MODULE="off")
        subprocess.run([programs.program("go"), "build", "-o", "sessions", "sessions.go"],
                       cwd=self.directory, env=settings, check=True)

    def command(self):
        return [os.path.join(self.directory, "sessions")]


class Clang(Script):
    preload = True

    def prepare(self):
        text = "int f%d(int a, int b) { for (int i = 0; i < b; i++) a += i * a ^ b; return a; }"
        with open(os.path.join(self.directory, "big.c"), "w") as file:
            file.write("\n".join(text % i for i in range(60000)))

    def command(self):
        return [programs.program("clang"), "-O2", "-fintegrated-cc1", "-c", "big.c"]


SCENES = {
    "redis-filled": RedisFilled, "redis-deleted": RedisDeleted, "mariadb": Mariadb,
    "postgres": Postgres, "nginx": Nginx, "memcached": Memcached, "node": Node, "python": Python,
    "java": Java, "go": Go, "clang": Clang,
}


class Cgroup:
    """A memory cgroup with a limit for one process, where the machine lets us make one."""

    def __init__(self, pid, limit):
        self.path = None
        for root, name in zip(CGROUPS, LIMIT_FILES):
            path = os.path.join(root, "jeattach-screens-%d" % pid)
            try:
                os.mkdir(path)
                for file, text in ((name, limit), ("cgroup.procs", pid)):
                    with open(os.path.join(path, file), "w") as out:
                        out.write(str(text))
                self.path = path
                return
            except OSError:
                if os.path.isdir(path):
                    os.rmdir(path)

    def remove(self):
        if self.path:
            lib.wait_until(lambda: not lib.read_text(os.path.join(self.path, "cgroup.procs")))
            os.rmdir(self.path)


def screen_of(name, directory):
    """Returns the command and what it prints, after the program has run for a while."""
    server = SCENES[name](directory)
    cgroup = None
    try:
        server.start()
        if hasattr(server, "limit"):
            cgroup = Cgroup(server.process.pid, server.limit)
        load = threading.Thread(target=server.load, args=(WARM_UP + 5,), daemon=True)
        load.start()
        time.sleep(WARM_UP)
        targets = server.targets()
        result = lib.run_tool(targets[0], env={"LC_ALL": "C.UTF-8"})
        load.join()
    finally:
        server.stop()
        if cgroup:
            cgroup.remove()
    if result.code != lib.OK:
        raise AssertionError(str(result))
    return ["$ jeattach %d" % targets[0]] + result.text.splitlines()


# ---- the page ------------------------------------------------------------------------------


def block_of(name):
    return re.compile(r"(?ms)^```text %s\n(.*?)^```$" % re.escape(name))


def write_screen(name, lines):
    page = lib.read_text(PAGE)
    text = "```text %s\n%s\n```" % (name, "\n".join(lines))
    page, count = block_of(name).subn(lambda match: text, page)
    if count != 1:
        raise AssertionError("%s: %d blocks in %s" % (name, count, PAGE))
    with open(PAGE, "w", encoding="utf-8") as out:
        out.write(page)


# What no two runs have in common, in the order in which it is replaced.
VARYING = ((r"[▁-█]+ ", ""), (r"\([^()]*\)", "()"), (r"(?:[-+<] ?)?\d[\d.]*(?: (?:[KMG]i)?B)?", "#"),
           (r"# (?:us|ms|s|min|h|days)\b", "#"), (r"\s+", " "))


def shape(text):
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text)
    return text.strip()


def rows_of(lines):
    """Label -> shape of the rows below the first sentence; a row of a site or a size has none."""
    rows, label = {}, None
    for line in lines[1:]:
        found = re.match(r"(?:  )?([a-z\[][\w\]]*(?: [a-z]\w*)?)(?:  +|: )(?=\S)", line, re.I)
        if found:
            label = found[1]
            rows[label] = line[found.end():]
        elif label and re.match(r" {6,}[^\d ]", line):
            rows[label] += " " + line.strip()
        else:
            label = None
    return {label: shape(text) for label, text in rows.items()}


# Rows that any process of that kind has; what else is there depends on the moment.
ALWAYS = ("limit", "RSS", "jemalloc", "allocator", "profile", "next")
# Their text is a sentence on what was found, which may be another one in the next run.
SENTENCES = ("limit", "pressure", "own memory", "own+shared", "RSS", "next")


def differences(page, now):
    """What two screens of a program do not have in common, but should."""
    shown, seen = rows_of(page), rows_of(now)
    found = ["row %s: only %s" % (label, "in the page" if label in shown else "in the answer")
             for label in ALWAYS if (label in shown) != (label in seen)]
    found += ["row %s: %r in the page, %r in the answer" % (label, shown[label], seen[label])
              for label in sorted(shown.keys() & seen.keys())
              if label not in SENTENCES and shown[label] != seen[label]]
    found += ["first line: %r" % screen[1] for screen in (page, now)
              if not re.match(r"\S+\[#\] (?:uses #|grows by #|is near)", shape(screen[1]))]
    return found


class Screens(lib.TestCase):
    def test_faults(self):
        """Another wording of a row, and a row that only one of them has, are seen."""
        page = ["$ jeattach 1", "a[1] uses 3 MiB: none", "limit        1 GiB (machine): 2 MiB used",
                "RSS          3 MiB: 2 MiB anonymous", "  in use       2 MiB   60.0 %  by it", "next: x"]
        now = [line.replace("2 MiB", "900 B").replace("60.0", "7.1") for line in page]
        self.assertEqual(differences(page, now), [])
        self.assertTrue(differences(page, now[:3] + now[4:]))
        self.assertTrue(differences(page, now[:4] + [now[4].replace("by", "of")] + now[5:]))
        self.assertTrue(differences(page, [now[0], now[1].replace("uses", "has")] + now[2:]))

    def check(self, name):
        page = block_of(name).search(lib.read_text(PAGE))
        self.assertTrue(page, "docs/explain.md has no block for %s" % name)
        now = screen_of(name, self.directory())
        self.assertEqual(differences(page[1].splitlines(), now), [], "\n".join(now))
        self.assertEqual([line for line in now if len(line) > 80], [])


def add_methods():
    for name in SCENES:
        setattr(Screens, "test_" + name, lambda self, name=name: self.check(name))


def write_all(names):
    for name in names or SCENES:
        case = Screens()
        try:
            write_screen(name, screen_of(name, case.directory()))
            print("%s: written" % name, flush=True)
        except programs.unittest.SkipTest as skip:
            print("%s: not written: %s" % (name, skip), flush=True)
        finally:
            case.doCleanups()


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(["faults", *SCENES]))
    elif sys.argv[1:2] == ["--write"]:
        write_all(sys.argv[2:])
    else:
        sys.argv[1:] = ["test_" + name for name in sys.argv[1:]]
        lib.main()


add_methods()

if __name__ == "__main__":
    main()
