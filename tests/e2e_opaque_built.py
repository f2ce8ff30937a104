"""The same as e2e_opaque with a jemalloc that is built for it: with musl, and optimized together with
the program (LTO)."""

import lib
import opaque


class Built(opaque.TestCase):
    def test_musl_static(self):
        self.check(opaque.musl_static())

    def test_whole_program(self):
        """Of malloc_stats_print, only a copy for constant arguments remains: it is not called."""
        program = opaque.whole_program(strip=False)
        self.check_outside(program, stats=False)
        self.check_inside(program)
        self.check_busy(program)
        process = self.start(program, opaque.OUTSIDE[0])
        result = lib.run_tool("stats", "--full", "--json", process.pid)
        self.assert_failed(result, lib.REFUSED, "no malloc_stats_print that can be called")
        self.assert_ran(lib.run_tool("stats", "--full", process.pid))
        self.wake(process, opaque.OUTSIDE[0])

    def test_whole_program_stripped(self):
        """The compiler has put jemalloc's functions between those of the program, and into them:
        allocate() contains the first part of malloc. Without symbols nothing tells them apart."""
        program = opaque.whole_program(strip=True)
        self.check_inside(program)
        for where in opaque.OUTSIDE:
            process = self.start(program, where)
            result = lib.run_tool("on", "--call", "--timeout", "500ms", process.pid)
            self.assert_failed(result, lib.NO_SAFE_MOMENT)
            self.assert_ran(lib.run_tool("on", process.pid))
            self.wake(process, where)


if __name__ == "__main__":
    lib.main()
