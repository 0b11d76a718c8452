//go:build unix

package operator

import (
	"os/exec"
	"syscall"
)

// asGroup gives the program a process group of its own, which the end of the context kills with all that is in it.
func asGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killGroup kills what a program that has ended left running. Its number is not given to another process while the group has members.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
