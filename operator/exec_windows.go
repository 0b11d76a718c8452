package operator

import (
	"io"
	"os"
	"os/exec"
)

// asGroup does nothing: the end of the context kills the program alone.
func asGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}

// drain does nothing: pipes have no deadlines on Windows and are read to their ends.
func drain(io.Writer, *os.File) error { return nil }
