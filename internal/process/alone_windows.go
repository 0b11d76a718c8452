package process

import (
	"context"
	"os/exec"
)

// command returns a command that is killed alone.
func command(ctx context.Context, path string, argv []string, _ int64) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = argv
	return cmd
}

func killRest(*exec.Cmd) {}
