package studio

import (
	"os/exec"
	"syscall"
)

// detach gives a process a group of its own, which the console's Ctrl-C does not reach.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
