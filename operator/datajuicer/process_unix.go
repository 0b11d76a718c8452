//go:build unix

package datajuicer

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the process its own process group: a signal to the group reaches its child processes, and
// signals of the terminal do not reach it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// The group may be gone by then, which is what is wanted.
func interrupt(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func kill(cmd *exec.Cmd)      { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
