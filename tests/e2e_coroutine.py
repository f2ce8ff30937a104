"""A coroutine whose stack is an array on its thread's own stack (tests/victims/coroutine.c).

The bytes below the array belong to the function that has called the coroutine. The frames of a call
must fit where those of a signal fit, or what they replace must be put back; and a call that needs
more of the own stack is not made there.
"""

import os

import lib

SPARE = (0, 256, 512, 768, 4096)  # bytes free besides those that a signal needs


class Coroutine(lib.TestCase):
    def coroutine(self, spare, *arguments):
        victim = lib.Victim(str(spare), self.directory(), ms=50, program="coroutine",
                            arguments=arguments)
        self.addCleanup(victim.stop)
        self.assertTrue(victim.wait_rounds(1), victim.said())
        return victim

    def verbs(self, victim):
        sink = os.path.join(victim.directory, "stream")
        return (["stats", "--full"], ["on", "--call"], ["dump"],
                ["dump", "--call", "--force", "-o", sink], ["off", "--call"])

    def test_every_verb(self):
        for spare in SPARE:
            victim = self.coroutine(spare)
            for words in self.verbs(victim):
                self.assert_ran(lib.run_tool(*words, victim.pid))
                self.assert_unharmed(victim, rounds=1)

    def test_deaths(self):
        """The frames of an orphaned thread stay where they are."""
        victim = self.coroutine(0)
        for variable in "JEATTACH_DIE_AT", "JEATTACH_DIE_AFTER":
            point, result = 1, None
            while not result or result.code != lib.OK:
                result = lib.run_tool("on", "--call", victim.pid, env={variable: str(point)})
                self.assert_unharmed(victim)
                point += 1 if lib.LONG else 3


if __name__ == "__main__":
    lib.main()
