package process

import (
	"context"
	"os/exec"
)

// command returns a command that is killed alone.
func (p *Program) command(ctx context.Context, path string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Env, cmd.Dir = p.Command, p.environment(), p.Dir
	return cmd
}

func killGroup(*exec.Cmd) {}
