//go:build unix && !linux

package process

import (
	"context"
	"os/exec"
	"syscall"
)

// command returns a command whose process has its own process group.
func command(ctx context.Context, path string, argv []string, _ int64) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = argv
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// killRest kills the processes that an exited program left in its group. The system does not reuse
// the group's number while it has members.
func killRest(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
