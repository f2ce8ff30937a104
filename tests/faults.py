"""Rules about the codes of faults, found by reading the sources.

Each code is declared once, in the lowest layer that uses it (or in base/, if layers that do not
include each other use it), and has one row in cli/fault_table.c.
"""

import collections
import re
import unittest

import lib
import rules

ORDER = ("base", "host", "attach", "elf", "inject", "jemalloc", "profile", "perf", "contents",
         "run", "cli")
CODE = re.compile(r"\bFAULT_[A-Z_]+\b")


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


if __name__ == "__main__":
    lib.main()
