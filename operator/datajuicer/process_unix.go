//go:build unix

package datajuicer

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the process its own process group: a signal to the group reaches its child
// processes, and signals of the terminal do not reach it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// interrupt asks the process group to end. An error means that the group has ended.
func interrupt(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func kill(cmd *exec.Cmd)      { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
