"""Whether this machine permits what jeattach grow needs: asked of the kernel, not of the tool.

A container's seccomp filter, Debian's perf_event_paranoid 3, a kernel without perf events: then
the tests of sampled page faults have nothing to sample.
"""

import contextlib
import ctypes
import errno
import os
import platform
import struct
import unittest

import lib

PARANOID = "/proc/sys/kernel/perf_event_paranoid"
NUMBERS = {"x86_64": 298, "aarch64": 241}
# Of linux/perf_event.h: a software event, page faults, in user mode.
SOFTWARE, PAGE_FAULTS, SIZE, CLOSE_ON_EXEC = 1, 2, 128, 8
EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6


def open_event(pid, cpu):
    """Opens an event; returns 0 or the error number. (0, -1): of the calling process."""
    words = (SOFTWARE, SIZE, PAGE_FAULTS, 1, 0, 0, EXCLUDE_KERNEL_AND_HYPERVISOR)
    attr = struct.pack("<IIQQQQQ", *words).ljust(SIZE, b"\0")
    call = ctypes.CDLL(None, use_errno=True).syscall
    fd = call(NUMBERS[platform.machine()], attr, pid, cpu, -1, ctypes.c_ulong(CLOSE_ON_EXEC))
    if fd < 0:
        return ctypes.get_errno()
    os.close(fd)
    return 0


def refusal(user=None):
    """Returns the error number of an event that a user opens for an own process, or 0."""
    pid = os.fork()
    if pid == 0:
        code = 255
        with contextlib.suppress(Exception):
            if user:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            code = open_event(0, -1)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def require():
    """Skips the test where perf_event_open is refused also to this program."""
    if not os.path.exists(PARANOID):
        raise unittest.SkipTest("this kernel has no perf events")
    number = refusal()
    if number:
        raise unittest.SkipTest(
            "perf_event_open is refused here: %s" % errno.errorcode.get(number, number)
        )


def require_cpus():
    """Skips the test where the events of a CPU, of all processes, are refused."""
    require()
    number = open_event(-1, min(os.sched_getaffinity(0)))
    if number:
        raise unittest.SkipTest("perf_event_open for a CPU is refused here: %s"
                                % errno.errorcode.get(number, number))


def paranoid():
    return int(lib.read_text(PARANOID))
