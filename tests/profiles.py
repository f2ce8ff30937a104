"""Heap profiles as text (heap_v2), for the tests that compare them."""

import re
from collections import namedtuple

# threads: {uid: (counts, name)}; stacks: {backtrace: {uid: counts}}, with their sum under "*".
Profile = namedtuple("Profile", "period threads total stacks")

COUNTS = re.compile(r"^  t(\*|\d+): (\d+): (\d+) \[(\d+): (\d+)\](?: (.*))?$")


def head(data):
    """Returns what stands before the mappings."""
    text, title, _ = data.partition(b"\nMAPPED_LIBRARIES:\n")
    if not title:
        raise AssertionError("no MAPPED_LIBRARIES: %r" % data[-100:])
    return text


def parse(data):
    lines = head(data).decode(errors="surrogateescape").split("\n")
    period = re.match(r"heap_v2/(\d+)$", lines.pop(0))
    if not period:
        raise AssertionError("not a profile: %r" % data[:64])
    threads, stacks, current = {}, {}, None
    for line in lines:
        found = COUNTS.match(line)
        if line.startswith("@"):
            current = stacks.setdefault(line, {})
        elif found and current is None:
            threads[found[1]] = (tuple(int(found[i]) for i in (2, 3, 4, 5)), found[6] or "")
        elif found:
            current[found[1]] = tuple(int(found[i]) for i in (2, 3, 4, 5))
        elif line:
            raise AssertionError("not a line of a profile: %r" % line)
    return Profile(int(period[1]), threads, threads.pop("*")[0], stacks)


def differences(left, right, most=8):
    """Describes how two profiles differ, for the message of a failed test."""
    a, b = parse(left), parse(right)
    found = []
    if a.period != b.period:
        found.append("period %d, %d" % (a.period, b.period))
    if a.total != b.total:
        found.append("total %s, %s" % (a.total, b.total))
    for what, x, y in (("thread", a.threads, b.threads), ("stack", a.stacks, b.stacks)):
        keys = [key for key in {**x, **y} if x.get(key) != y.get(key)]
        found += ["%s %s: %s, %s" % (what, key, x.get(key), y.get(key)) for key in keys[:most]]
        if keys:
            found.append("%d of %d and %d %ss differ" % (len(keys), len(x), len(y), what))
        elif list(x) != list(y):
            found.append("another order of %ss" % what)
    return "\n".join(found) or "only the order or the form differs"
