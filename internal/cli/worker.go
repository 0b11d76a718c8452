package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/python"
)

func workerCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "worker [--output DIR]",
		Short: "Write the PyTorch worker, which is in this program, as a Python wheel",
		Long: "Write the Python package trinity_worker as a wheel and print its path. A run on this machine\n" +
			"needs none: it takes the package from the program. Install the wheel with pip where the\n" +
			"program is not: in the environment of a worker on another machine, or of a vLLM server.\n" +
			"Its version is that of the protocol, a plus sign, and that of this program.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			name, data, err := python.Wheel(origin(info))
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			path := filepath.Join(dir, name)
			if err := durable.WriteFile(path, data); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", ".", "directory to write to")
	return cmd
}
