"""A thread in each kind of system call, in a loop without one, and in the allocator: after every
verb it continues as if it had never been stopped.
"""

import os

import lib

TURNS = 6


RESTORER_CODE = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05"  # mov $SYS_rt_sigreturn, %rax; syscall


def read(pid, mapping):
    with open("/proc/%d/mem" % pid, "rb") as memory:
        memory.seek(mapping.start)
        return memory.read(mapping.end - mapping.start)


def stack_of(pid):
    """The words on the stack of the first thread, live or stale."""
    return read(pid, next(m for m in lib.mappings(pid) if m.path == "[stack]"))


def restorer_of(pid):
    """The return address of a signal handler, as it is in a frame."""
    code = next(m for m in lib.mappings(pid) if m.perms == "r-xp" and "libc.so" in m.path)
    return (code.start + read(pid, code).index(RESTORER_CODE)).to_bytes(8, "little")


class Modes(lib.TestCase):
    def use(self, victim):
        """A whole round after each use: a call that is restarted from its beginning must end."""
        self.switch(victim, "on", "--call")
        self.assertTrue(victim.wait_rounds(2), "hangs after on")
        self.assert_profile(self.assert_ran(lib.run_tool("dump", "--call", victim.pid, "-o", "-")).out)
        self.assertTrue(victim.wait_rounds(2), "hangs after a streamed dump")
        self.switch(victim, "off", "--call")
        self.assertTrue(victim.wait_rounds(2), "hangs after off")
        path = self.assert_ran(lib.run_tool("dump", victim.pid)).text.rstrip("\n")
        self.assertTrue(os.path.exists(path), path)
        self.assertTrue(victim.wait_rounds(2), "hangs after dump")

    def exercise(self, mode, *arguments):
        victim = self.victim(mode, ms=30, arguments=arguments)
        before = lib.snapshot(victim.pid)
        for _ in range(TURNS):
            self.use(victim)
        differing = lib.snapshot_differences(victim.pid, before)
        # Memory allocated between the two is the victim's own.
        self.assertEqual([name for name in differing if (mode, name) != ("malloc", "maps")], [])
        self.assert_unharmed(victim)

    def test_spin(self):
        self.exercise("spin")

    def test_nanosleep(self):
        self.exercise("nanosleep")

    def test_clock_nanosleep_abs(self):
        self.exercise("clock_nanosleep_abs")

    def test_epoll_wait(self):
        self.exercise("epoll_wait")

    def test_epoll_pwait(self):
        self.exercise("epoll_pwait")

    def test_poll(self):
        self.exercise("poll")

    def test_ppoll(self):
        self.exercise("ppoll")

    def test_select(self):
        self.exercise("select")

    def test_futex(self):
        self.exercise("futex")

    def test_read(self):
        self.exercise("read")

    def test_recv(self):
        self.exercise("recv")

    def test_sigtimedwait(self):
        self.exercise("sigtimedwait")

    def test_getppid(self):
        self.exercise("getppid")

    def test_malloc(self):
        self.exercise("malloc")

    def test_with_stale_words_on_the_stack(self):
        """Return addresses of old calls into the allocator, above the frame that sleeps."""
        self.exercise("nanosleep", "--stale")

    def test_no_frame_is_left_on_the_stack(self):
        """A later function may not overwrite it, and would seem to be called by a signal handler.
        """
        for arguments in ((), ("--filter", "kill")):
            victim = self.victim("nanosleep", ms=30, arguments=arguments)
            restorer = restorer_of(victim.pid)
            victim.wait_rounds(2)  # words of its own calls
            before = stack_of(victim.pid).count(restorer)
            self.use(victim)
            with self.subTest(arguments=arguments):
                self.assertEqual(stack_of(victim.pid).count(restorer), before)

    def test_no_mode_is_forgotten(self):
        tested = {name[len("test_") :] for name in dir(self) if name.startswith("test_")}
        self.assertEqual(set(lib.victim_names("--modes")) - tested, set())


if __name__ == "__main__":
    lib.main()
