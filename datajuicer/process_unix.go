//go:build unix

package datajuicer

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the process the first of a group, so that a signal reaches all that it starts, and the terminal's do not reach it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// The group may be gone by then, which is what is wanted.
func interrupt(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func kill(cmd *exec.Cmd)      { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
