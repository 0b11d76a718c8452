//go:build unix

package operator

import (
	"os/exec"
	"syscall"
)

// killWhole makes the end of the context kill the program with all that it started.
func killWhole(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
