"""Programs without call frame information: calls where they are safe, and none inside the
allocator."""

import lib
import opaque


class WithoutFrames(opaque.TestCase):
    def test_program(self):
        self.check(opaque.no_frames())

    def test_everything(self):
        self.check(opaque.no_frames_at_all())


if __name__ == "__main__":
    lib.main()
