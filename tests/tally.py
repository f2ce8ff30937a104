"""Reads the results that ctest writes with --output-junit.

  tally.py FILE PREFIX [AGAIN]   one line a test, `RESULT<TAB>PREFIX+NAME<TAB>REASON`
  tally.py --failed FILE         a regular expression of ctest for the tests that failed, or nothing

AGAIN has the tests that were repeated, if any: a test that failed in FILE and passed there is
`unsteady`. A test that was not repeated stays failed.
"""

import os
import re
import sys
import xml.etree.ElementTree as tree


def output_of(case):
    return (case.findtext("system-out") or "").splitlines()


def skip_reason(case):
    for line in output_of(case):
        before, mark, reason = line.partition("SKIP:")
        if mark:
            return reason.strip()
    return ""


def outcome(case):
    if case.find("failure") is not None:
        return "failed", case.find("failure").get("message") or ""
    if case.find("skipped") is not None:
        reason = case.find("skipped").get("message") or ""
        # A missing program is no reason to skip; nor is 77 alone, which may mean anything.
        if "RETURN_CODE" not in reason:
            return "failed", reason
        told = skip_reason(case)
        return ("skipped", told) if told else ("failed", "skipped without a reason")
    if case.get("status") != "run":
        return "failed", "not run: %s" % case.get("status")
    return "passed", ""


def outcomes(path):
    """Returns {name: (result, reason)} of one file."""
    return {case.get("name"): outcome(case) for case in tree.parse(path).getroot().iter("testcase")}


def judged(first, again):
    """Returns the result of a test from its first run and from the second, if there was one."""
    if first[0] != "failed" or not again:
        return first
    if again[0] == "passed":
        return "unsteady", "%s, passed when repeated" % (first[1] or "failed")
    return "failed", "%s, and when repeated: %s" % (first[1], again[1] or again[0])


def failed_pattern(path):
    names = [re.escape(name) for name, (result, _) in outcomes(path).items() if result == "failed"]
    # ctest has no escaped hyphen.
    return "^(%s)$" % "|".join(names).replace("\\-", "-") if names else ""


def main():
    if sys.argv[1] == "--failed":
        print(failed_pattern(sys.argv[2]))
        return
    path, prefix = sys.argv[1:3]
    again = sys.argv[3] if len(sys.argv) > 3 else None
    repeated = outcomes(again) if again and os.path.exists(again) else {}
    for name, first in outcomes(path).items():
        result, reason = judged(first, repeated.get(name))
        print("%s\t%s%s\t%s" % (result, prefix, name, reason))


if __name__ == "__main__":
    main()
