"""Rules of the layers, the functions and the names of files, checked by reading the sources.

layers     a folder includes headers of itself and of the folders below it; only cli/ uses
           `struct options`; no word of jemalloc below jemalloc/
functions  none has more than 120 lines; those above 80 are printed
files      a file of the tree that a text names exists

Each rule is a function of {path: text} that returns the violations, and is tested with sources that
violate it.
"""

import collections
import fnmatch
import os
import re
import unittest

import rules
from rules import ROOT, without_comments

BELOW = {
    "base": (),
    "host": ("base",),
    "attach": ("host",),
    "elf": ("attach",),
    "inject": ("elf",),
    "jemalloc": ("inject",),
    "profile/names": ("elf",),
    "profile/symbols": ("profile/names",),
    "profile": ("profile/symbols",),
    "profile/views": ("profile",),
    "perf": ("elf",),
    "contents": ("profile/symbols",),
    "run": ("jemalloc", "profile/views", "perf", "contents"),
    "cli": ("run",),
}
BELOW_JEMALLOC = ("base", "host", "attach", "elf", "inject", "perf", "contents")
ALLOCATOR = re.compile(r"[^\n]*(?:jemalloc|mallctl|\bprof\.|\bje_)[^\n]*", re.I)
ALLOCATOR_LAYER = ("base/fault.h", "FAULT_IN_JEMALLOC,")  # the folder, in the list of layers
LONG_LINES, MOST_LINES = 80, 120  # from the line of the return type to the closing brace

FUNCTION = re.compile(r"^([A-Za-z_][^;{}=#]*?\b(\w+)\([^;{}]*\)[^;{}()]*)\n\{\n(.*?)^\}",
                      re.M | re.S)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)[ \n]*")
Function = collections.namedtuple("Function", "name path lines")


def below(folder):
    """Returns the folder and all below it."""
    found = {folder}
    for each in BELOW[folder]:
        found |= below(each)
    return found


def folder_of(path):
    folders = path.split("/")
    inner = "/".join(folders[:2])
    return inner if inner in BELOW else folders[0]


def upward_includes(sources):
    for path, text in sources.items():
        for header in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            if "/" in header and folder_of(header) not in below(folder_of(path)):
                yield path, header


def users_of_options(sources):
    for path, text in sources.items():
        if folder_of(path) != "cli" and re.search(r"\bstruct options\b", without_comments(text)):
            yield path


def allocator_lines(sources):
    """Yields path and line. Comments count: such a layer has no reason to mention an allocator."""
    for path, text in sources.items():
        if folder_of(path) in BELOW_JEMALLOC:
            for match in ALLOCATOR.finditer(text):
                yield path, match.group(0).strip()


def code_of(text):
    """Returns the text without comments and attributes."""
    return ATTRIBUTE.sub("", without_comments(text))


def functions(sources):
    """Yields the functions with a body. As clang-format writes them, they start at the start of a
    line, and their braces are alone there."""
    for path, text in sources.items():
        code = code_of(text)
        for match in FUNCTION.finditer(code):
            yield Function(match.group(2), path, match.group(0).count("\n") + 1)


def unread_bodies(sources):
    """Yields files with a body that `functions` does not find: a brace alone on a line."""
    for path, text in sources.items():
        code = code_of(text)
        if len(re.findall(r"^\{$", code, re.M)) != len(FUNCTION.findall(code)):
            yield path


def long_functions(sources, lines):
    return ["%s: %s() has %d lines" % (f.path, f.name, f.lines)
            for f in functions(sources) if f.lines > lines]


FOLDERS_NAMED = (*rules.FOLDERS, "tests", "bench", "docs", "packaging")
# A path from the root of the tree; a character before it would make it another path.
PATH = re.compile(r'(?<![\w/.:~<$@>*"%%-])((?:%s)/[\w.{},*/+@-]*)' % "|".join(FOLDERS_NAMED))
PLACEHOLDER = re.compile(r"\b[A-Z]{4,}\b|(?<=_)[A-Z]{4,}\b")  # NAME, ARCH
ELSEWHERE = {
    "elf/dl-lookup.c": "of glibc",
    "jemalloc/jemalloc.h": "of libjemalloc-dev",
    "tests/victims/victim": "in the build directory",
}


def expand(path):
    """a/{b,c}.h: a/b.h and a/c.h"""
    match = re.fullmatch(r"(.*)\{([^{}]*)\}(.*)", path)
    if not match:
        return [path]
    return [each for part in match[2].split(",") for each in expand(match[1] + part + match[3])]


def missing_files(texts, files):
    """Yields paths in texts, {path: text}, that are neither a file nor a folder of the tree. A
    placeholder (NAME) or a * matches any name, and one must exist."""
    known = set(files)
    for path in files:
        while "/" in path:
            path = path.rpartition("/")[0]
            known.add(path)
    for path, text in texts.items():
        for named in (each for match in PATH.findall(text) for each in expand(match)):
            named = named.rstrip(".,-/@{}")
            pattern = PLACEHOLDER.sub("*", named)
            exists = named in known or "*" in pattern and fnmatch.filter(known, pattern)
            if not exists and named not in ELSEWHERE:
                yield "%s names %s" % (path, named)


def all_files():
    """Yields the paths of the tree, without build directories."""
    for folder in (*FOLDERS_NAMED, "."):
        for at, folders, names in os.walk(os.path.join(ROOT, folder)):
            if folder == ".":
                folders.clear()
            for name in names:
                yield os.path.relpath(os.path.join(at, name), ROOT)


def all_texts(files):
    for path in files:
        if path == "tests/rules_tree.py":
            continue  # names absent files
        if path.endswith((".c", ".h", ".S", ".py", ".md", ".sh", ".txt", ".1")) or "/" not in path:
            with open(os.path.join(ROOT, path), errors="replace") as file:
                yield path, file.read()


class Rule(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.sources = dict(rules.sources())


class Layers(Rule):
    def test_arrows(self):
        self.assertEqual(list(upward_includes(self.sources)), [], "includes point downwards: BELOW")

    def test_options(self):
        self.assertEqual(list(users_of_options(self.sources)), [], "options belong to cli/")

    def test_no_allocator(self):
        self.assertEqual(list(allocator_lines(self.sources)), [ALLOCATOR_LAYER])

    def test_layers_can_fail(self):
        found = list(upward_includes({
            "host/a.c": '#include "host/b.h"\n#include "base/c.h"\n#include <elf/x.h>\n',
            "host/d.h": '#  include "elf/modules.h"\n',
            "profile/e.c": '#include "elf/modules.h"\n#include "inject/call.h"\n',
            "profile/f.h": '#include "profile/symbols/a.h"\n#include "profile/views/b.h"\n',
            "run/f.c": '#include "profile/heap.h"\n#include "cli/verbs.h"\n',
        }))
        self.assertEqual(found, [("host/d.h", "elf/modules.h"), ("profile/e.c", "inject/call.h"),
                                 ("profile/f.h", "profile/views/b.h"), ("run/f.c", "cli/verbs.h")])
        self.assertEqual(list(users_of_options({
            "run/a.h": "int f(const struct options *o);", "run/b.h": "/* struct options */",
            "run/c.h": "struct options_of_it x;", "cli/d.h": "struct options;"})), ["run/a.h"])
        self.assertEqual(list(allocator_lines({
            "attach/a.c": '  x("prof.active");\n', "elf/b.h": "/* as Jemalloc does */\n",
            "host/c.c": "profile.a = 1; prof_a(); project();\n", "inject/d.c": "int je_malloc;\n",
            "jemalloc/e.c": "mallctl();"})),
            [("attach/a.c", 'x("prof.active");'), ("elf/b.h", "/* as Jemalloc does */"),
             ("inject/d.c", "int je_malloc;")])


class Functions(Rule):
    def test_every_body_is_read(self):
        self.assertEqual(list(unread_bodies(self.sources)), [])

    def test_lengths(self):
        print("\n".join(long_functions(self.sources, LONG_LINES)))
        self.assertEqual(long_functions(self.sources, MOST_LINES), [])

    def test_functions_can_fail(self):
        two = "static bool run(int a)\n{\n    return a; /* { */\n}\n\nint f(void)\n{\n}\n"
        sources = {
            "a.c": "struct x {\n    int run;\n};\n\n" + two,
            "b.c": "static const struct x *\nrun(void (*g)(int),\n    int b)\n{\n    g(b);\n}\n",
            "c.c": "int long_one(void)\n{\n%s}\n" % ("    f();\n" * 118) + "int run;\n",
            "e.c": "__attribute__((format(printf, 1, 0))) static int at(int c)\n{\n}\n",
            "d.c": "int at_most(void)\n{\n%s}\n" % ("    f();\n" * 117),
        }
        self.assertEqual([tuple(function) for function in functions(sources)],
                         [("run", "a.c", 4), ("f", "a.c", 3), ("run", "b.c", 6),
                          ("long_one", "c.c", 121), ("at", "e.c", 3), ("at_most", "d.c", 120)])
        self.assertEqual(long_functions(sources, 120), ["c.c: long_one() has 121 lines"])
        self.assertEqual(list(unread_bodies({"a.c": two, "b.c": "MACRO\n{\n}\n"})), ["b.c"])


class Files(Rule):
    def test_named_files_exist(self):
        files = list(all_files())
        self.assertEqual(sorted(set(missing_files(dict(all_texts(files)), files))), [])

    def test_files_can_fail(self):
        files = ["host/parse.c", "host/parse.h", "docs/a@.service", "tests/fuzz/fuzz_heap.c"]
        good = "host/parse.c, (host/parse.{c,h}), host/, `tests/fuzz/fuzz_NAME.c`. docs/a@.service"
        good += " /proc/1/host/x https://x.org/host/y glibc's elf/dl-lookup.c host/parse.c."
        self.assertEqual(list(missing_files({"a": good}, files)), [])
        for bad in ("host/gone.c", "host/parse.{c,py}", "tests/fuzz/NAME.py", "host/none/"):
            with self.subTest(bad):
                self.assertEqual(len(list(missing_files({"a": "x %s: y" % bad}, files))), 1)


if __name__ == "__main__":
    unittest.main()
