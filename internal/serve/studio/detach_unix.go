//go:build unix

package studio

import (
	"os/exec"
	"syscall"
)

// detach gives a process a session of its own, which the terminal's signals do not reach.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
