"""Reads what ctest wrote with --output-junit: one line a test, `RESULT<TAB>NAME<TAB>REASON`.

  tally.py FILE PREFIX
"""

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
        # A program that is missing is no reason to skip; nor is 77 alone, which may mean anything.
        if "RETURN_CODE" not in reason:
            return "failed", reason
        told = skip_reason(case)
        return ("skipped", told) if told else ("failed", "skipped without a reason")
    if case.get("status") != "run":
        return "failed", "not run: %s" % case.get("status")
    return "passed", ""


def main():
    path, prefix = sys.argv[1:]
    for case in tree.parse(path).getroot().iter("testcase"):
        print("%s\t%s%s\t%s" % ((outcome(case)[0], prefix, case.get("name"), outcome(case)[1])))


if __name__ == "__main__":
    main()
