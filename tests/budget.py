"""The budget of the sources: tests/budget.txt, which only falls.

folders    lines of the .c and .h files of each folder: the figure is the count
commands   files and functions that a command executes, on a small process under jemalloc. They
           differ by a few from one machine to another: SLACK more of them are no rise. What a
           child of the tool executes that ends by _exit(2), as the reader of symbols, is not counted.

Who needs more raises a figure by hand, in a commit of its own that says what for.

  budget.py --lower           writes the lines that have fallen into budget.txt
  budget.py --lower-commands  the same for what commands execute
  budget.py [NAME]...         prints what each command, or those of these names, executes
  budget.py test_folders      runs a test, as do test_commands and test_it_can_fail
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import rules

ROOT = rules.ROOT
PATH = os.path.join(ROOT, "tests", "budget.txt")
SLACK = 1.03
ALL = "all"
VICTIM = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *slot[4096];
static __attribute__((noinline)) void put(unsigned i)
{
    free(slot[i]);
    slot[i] = malloc(900);
    memset(slot[i], 1, 900);
}
static __attribute__((noinline)) void keep(void)
{
    volatile char *p = malloc(500);
    p[0] = 1;
}
int main(void)
{
    prctl(PR_SET_PDEATHSIG, 9);
    for (unsigned n = 0;; n++) {
        put((unsigned)rand() % 4096);
        if (n % 16 == 0)
            keep();
        if (n == 4096 && write(1, "ready\n", 6) < 0)
            return 1;
        if (n % 64 == 0)
            usleep(1000);
    }
}
"""


def commands(pid, work):
    heap = os.path.join(work, "a.heap")
    return {
        "dump -o": ["dump", pid, "-o", heap, "--force"],
        "on": ["on", pid],
        "off": ["off", pid],
        "on --call": ["on", pid, "--call"],
        "status": ["status", pid],
        "stats": ["stats", pid],
        "explain": ["explain", pid],
        "leak -d 3s": ["leak", pid, "-d", "3s"],
        "frag": ["frag", pid],
        "top --once": ["top", pid, "--once"],
        "report": ["report", heap],
        "mallctl NAME": ["mallctl", pid, "opt.lg_prof_sample"],
    }


# ---- the figures of this tree ----


def lines_of_folders(sources):
    """Returns {folder: lines of code files}, and that of all."""
    lines = {}
    for path, text in sources:
        folder = path.split("/")[0]
        lines[folder] = lines.get(folder, 0) + text.count("\n")
    lines[ALL] = sum(lines.values())
    return lines


def run(*words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode:
        raise AssertionError("%s\n%s" % (" ".join(words), done.stdout.decode(errors="replace")[-3000:]))


def build_with_coverage(work):
    build = os.path.join(work, "build")
    run("cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Debug", "-DJEATTACH_TESTS=OFF",
        "-DJEATTACH_WERROR=OFF", "-DCMAKE_C_FLAGS=-O0 --coverage -fprofile-abs-path",
        "-DCMAKE_EXE_LINKER_FLAGS=--coverage")
    run("cmake", "--build", build, "-j%d" % os.cpu_count())
    return build


def files_below(folder, ending):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
            if name.endswith(ending)]


def executed(build):
    """Returns the files, and the functions of them, that have run since the counts were removed."""
    text = subprocess.run(["gcov", "-j", "-t", *files_below(build, ".gcda")], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True, cwd=build).stdout
    found = set()
    for line in filter(str.strip, text.decode().splitlines()):
        for file in json.loads(line)["files"]:
            path = os.path.relpath(os.path.join(build, file["file"]), ROOT)
            if path.startswith("..") or not path.endswith(".c"):
                continue
            found |= {(path, function["name"]) for function in file["functions"]
                      if function["execution_count"]}
    return len({path for path, _ in found}), len(found)


@contextlib.contextmanager
def victim(work):
    with open(os.path.join(work, "victim.c"), "w") as file:
        file.write(VICTIM)
    program = os.path.join(work, "victim")
    run("gcc", "-g", "-O1", "-w", "-o", program, program + ".c")
    env = dict(os.environ, LD_PRELOAD="libjemalloc.so.2", MALLOC_CONF="prof:true,lg_prof_sample:12")
    with subprocess.Popen([program], env=env, stdout=subprocess.PIPE) as process:
        try:
            if process.stdout.readline() != b"ready\n":
                raise AssertionError("the process does not start")
            yield str(process.pid)
        finally:
            process.kill()


def executed_by_commands(names=()):
    """Yields the name of each command, and what it executes. report needs the file of dump -o."""
    with tempfile.TemporaryDirectory(prefix="jeattach-test.") as work:
        build = build_with_coverage(work)
        with victim(work) as pid:
            for name, words in commands(pid, work).items():
                if names and name not in names and name != "dump -o":
                    continue
                for file in files_below(build, ".gcda"):
                    os.unlink(file)
                run(os.path.join(build, "jeattach"), *words, stdin=subprocess.DEVNULL, timeout=120)
                yield name, executed(build)


# ---- the budget ----


def read_budget(text):
    """Returns {folder: lines}, {command: (files, functions)}."""
    folders, of_commands = {}, {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+)/? +(\d+)", line)
        if match:
            folders[match[1]] = int(match[2])
        match = re.fullmatch(r'"(.+)" +(\d+) +(\d+)', line)
        if match:
            of_commands[match[1]] = int(match[2]), int(match[3])
    return folders, of_commands


def lowered(text, folders, of_commands):
    """Returns the text with the lower ones of its figures and these."""
    def line_for(line):
        match = re.fullmatch(r"(\w+)(/?)( +)(\d+)", line)
        if match and folders.get(match[1], 1 << 40) < int(match[4]):
            return "%s%s%s%*d" % (*match.groups()[:3], len(match[4]), folders[match[1]])
        match = re.fullmatch(r'"(.+)"( +)(\d+)( +)(\d+)', line)
        if match and match[1] in of_commands:
            files, functions = of_commands[match[1]]
            return '"%s"%s%*d%s%*d' % (
                match[1], match[2], len(match[3]), min(files, int(match[3])),
                match[4], len(match[5]), min(functions, int(match[5])))
        return line
    return "\n".join(map(line_for, text.splitlines())) + "\n"


def wrong_folders(budget, counted):
    for folder in sorted(set(budget) | set(counted)):
        have, may = counted.get(folder, 0), budget.get(folder, 0)
        if have > may:
            yield "%s: %d lines, the budget has %d" % (folder, have, may)
        elif have < may:
            yield "%s: %d lines, fewer than %d: tests/budget.py --lower" % (folder, have, may)


def wrong_command(name, budget, counted):
    for what, may, have in zip(("files", "functions"), budget[name], counted):
        if have > may * SLACK:
            yield "%s executes %d %s, the budget has %d" % (name, have, what, may)


def budget_text():
    with open(PATH) as file:
        return file.read()


class Budget(unittest.TestCase):
    maxDiff = None

    def test_folders(self):
        folders, _ = read_budget(budget_text())
        self.assertEqual(list(wrong_folders(folders, lines_of_folders(rules.sources()))), [])

    def test_commands(self):
        _, budget = read_budget(budget_text())
        self.assertEqual(list(budget), list(commands("", "")))
        wrong = []
        for name, counted in executed_by_commands():
            print("%-14s %4d files %5d functions" % (name, *counted), flush=True)
            wrong += wrong_command(name, budget, counted)
        self.assertEqual(wrong, [])

    def test_it_can_fail(self):
        text = '# Lines.\nbase/  10\nhost/   5\nall    15\n\n"a -o"   3  100\n"b"      9    9\n'
        folders, budget = read_budget(text)
        self.assertEqual((folders, budget), ({"base": 10, "host": 5, "all": 15},
                                             {"a -o": (3, 100), "b": (9, 9)}))
        counted = lines_of_folders([("base/a.c", "a\n" * 4), ("base/b.h", "b\n" * 4),
                                    ("host/c.c", "c\n" * 6), ("new/d.c", "d\n")])
        self.assertEqual(counted, {"base": 8, "host": 6, "new": 1, "all": 15})
        self.assertEqual(list(wrong_folders(folders, counted)), [
            "base: 8 lines, fewer than 10: tests/budget.py --lower",
            "host: 6 lines, the budget has 5", "new: 1 lines, the budget has 0"])
        self.assertEqual(list(wrong_command("a -o", budget, (3, 103))), [])
        self.assertEqual(list(wrong_command("a -o", budget, (4, 104))), [
            "a -o executes 4 files, the budget has 3",
            "a -o executes 104 functions, the budget has 100"])
        self.assertEqual(lowered(text, counted, {"a -o": (4, 90)}), text.replace(
            "base/  10", "base/   8").replace("3  100", "3   90"))


def main():
    words = sys.argv[1:]
    if any(word.startswith("test_") for word in words):
        unittest.main(argv=[sys.argv[0], *("Budget." + word for word in words)])
    if words in (["--lower"], ["--lower-commands"]):
        of_commands = dict(executed_by_commands()) if words == ["--lower-commands"] else {}
        text = lowered(budget_text(), lines_of_folders(rules.sources()), of_commands)
        with open(PATH, "w") as file:
            file.write(text)
    else:
        for name, counted in executed_by_commands(words):
            print("%-14s %4d files %5d functions" % (name, *counted), flush=True)


if __name__ == "__main__":
    main()
