//go:build unix && !linux

package sweep

import (
	"os"
	"os/exec"
	"syscall"
)

// apart keeps the terminal's signals from the child, which stop sends.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func stop(cmd *exec.Cmd) { _ = cmd.Process.Signal(os.Interrupt) } // it may have ended
