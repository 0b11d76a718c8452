//go:build unix && !linux

package process

import (
	"context"
	"os/exec"
	"syscall"
)

// command returns a command whose process has its own process group.
func (p *Program) command(ctx context.Context, path string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Env, cmd.Dir, cmd.ExtraFiles = p.Command, p.environment(), p.Dir, p.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// killGroup kills the processes that an exited program left in its group. The system does not reuse
// the group's number while it has members.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
