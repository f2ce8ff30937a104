"""Rules about the codes of faults, found by reading the sources.

Each code is declared once, in the lowest layer that uses it (or in base/, if layers that do not
include each other use it), and has one row in cli/fault_table.c.
"""

import collections
import os
import re
import unittest

import lib
import rules

ORDER = ("base", "host", "attach", "elf", "inject", "jemalloc", "profile", "perf", "contents",
         "run", "cli")
CODE = re.compile(r"\bFAULT_[A-Z_]+\b")
FORMATS = "printf|fprintf|snprintf|dprintf|vsnprintf|vfprintf|asprintf|sscanf|strftime".split("|")
CONVERSION = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[zjtL])?[diouxXeEfFgGaAcspn]")
TOKEN = re.compile(r"\"((?:\\.|[^\"\\])*)\"|'(?:\\.|[^'\\])*'|([A-Za-z_]\w*)|([(){};])", re.S)


def functions_with_format(texts):
    """Those whose format the compiler checks, and macros, which pass theirs on to one."""
    found = set(FORMATS)
    for text in texts:
        found.update(re.findall(r"format\(printf,[^)]*\)\)\)\s*[^;{]*?(\w+)\(", text))
        found.update(re.findall(r"#define (\w+)\((?:fmt|[^)]*\.\.\.)", text))
    return found


def stray_conversions(text, formats):
    """Yields line and text of strings with a conversion that no function of the set takes."""
    callers, last = [], None
    for match in TOKEN.finditer(rules.without_comments(text)):
        string, word, mark = match.groups()
        if mark == "(":
            callers.append(last)
        elif mark == ")" and callers:
            callers.pop()
        elif mark in (";", "}"):
            callers.clear()
        elif string and CONVERSION.search(string) and callers and not formats & set(callers):
            if callers[0] not in ("__asm__", "volatile"):
                yield text.count("\n", 0, match.start()) + 1, string
        last = word


def codes():
    """The layer that declares each code, and the layers that use it."""
    declared, used = {}, collections.defaultdict(set)
    texts = {path: rules.without_comments(text) for path, text in rules.sources()}
    for path, text in texts.items():
        if path == "base/fault.h" or path.endswith("/faults.h"):
            for name in re.findall(r"^\s+(FAULT_(?!CLASS_|IN_)[A-Z_]+)(?=,|\s*=\s*FAULT_FIRST)", text, re.M):
                declared.setdefault(name, []).append(path.split("/")[0])
    for path, text in texts.items():
        if not path.endswith(("/fault.h", "/faults.h")) and path != "cli/fault_table.c":
            for name in CODE.findall(text):
                used[name].add(path.split("/")[0])
    return declared, used


class Faults(unittest.TestCase):
    def test_declared_once_where_used(self):
        declared, used = codes()
        self.assertGreater(len(declared), 60)
        for name, layers in declared.items():
            self.assertEqual(len(layers), 1, name)
            users = sorted(used[name], key=ORDER.index)
            self.assertTrue(users, name + " is never set")
            if {"jemalloc", "profile"} <= set(users) or name == "FAULT_INTERNAL":
                users = ["base"]
            self.assertEqual(layers[0], users[0], name)

    def test_each_has_a_row(self):
        declared, _ = codes()
        text = dict(rules.sources())["cli/fault_table.c"]
        rows = re.findall(r"^    \{(FAULT_[A-Z_]+),", text, re.M)
        self.assertEqual(sorted(rows), sorted(declared))

    def test_no_stray_conversion(self):
        """A "%s" reaches only functions that fill it in: elsewhere it would be part of a message."""
        texts = dict(rules.sources())
        formats = functions_with_format(texts.values())
        self.assertLess({"fault_set", "message"}, formats)
        self.assertEqual([(path, *stray) for path, text in texts.items()
                          for stray in stray_conversions(text, formats)], [])
        wrong = 'return refuse(fault, WHY, "%s",\n              "it changed");'
        self.assertEqual(list(stray_conversions(wrong, formats)), [(1, "%s")])
        for right in ('fault_set(fault, 0, why(a), "%s", a);', '{CODE, "%W of %d"},', 'f("50 %");'):
            self.assertEqual(list(stray_conversions(right, formats)), [])

    def test_exit_codes_are_documented(self):
        manual = lib.read_text(os.path.join(rules.ROOT, "docs/jeattach.1"))
        names = dict(re.findall(r"^    (EXIT_[A-Z_]+) = (\d+),", dict(rules.sources())["cli/message.h"], re.M))
        listed = re.findall(r"^\.It (\d+)$", manual.split(".Sh EXIT STATUS")[1].split("\n.Sh")[0], re.M)
        rows = re.findall(r"^    \{FAULT_[A-Z_]+, \"(\w+)\",\s*(EXIT_[A-Z_]+),",
                          dict(rules.sources())["cli/fault_table.c"], re.M)
        self.assertGreater(len(rows), 60)
        for name, code in rows:
            self.assertIn(names[code], listed, name)


if __name__ == "__main__":
    lib.main()
