"""What join does between a program and the driver."""

import os
import sys
import threading

from trinity_worker.join import MOST, Program


def test_output_that_is_left_out_is_counted() -> None:
    program = Program([sys.executable, "-c", f"print('x' * {MOST}); print('end')"], dict(os.environ), threading.Event())
    program.process.wait(60)
    text = program.output()
    program.stop()
    head, rest = text.split("\n", 1)
    assert head == "… 5 characters left out …" and len(rest) == MOST and rest.endswith("x\nend\n")
    assert program.output() == ""
