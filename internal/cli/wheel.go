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

func wheelCommand() *cobra.Command {
	var binary, platform, dir string
	cmd := &cobra.Command{
		Use:   "wheel [--binary FILE] [--platform NAME] [--output DIR]",
		Short: "Write a Python wheel that installs this program",
		Long: "Write a Python wheel that installs a binary of this program for pip, with the Python packages\n" +
			"trinity_go and trinity_worker, and print its path. Its version and its platform are those of\n" +
			"the binary. Equal binaries give equal bytes.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if binary == "" {
				if binary, err = os.Executable(); err != nil {
					return err
				}
			}
			name, data, err := python.ProgramWheel(binary, platform)
			if err != nil {
				return err
			}
			return writeWheel(cmd, dir, name, data)
		},
	}
	cmd.Flags().StringVar(&binary, "binary", "", "program to install (default: this one)")
	cmd.Flags().StringVar(&platform, "platform", "", "check that the program is for this platform, such as linux_amd64")
	cmd.Flags().StringVarP(&dir, "output", "o", ".", "directory to write to")
	return cmd
}

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
			return writeWheel(cmd, dir, name, data)
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", ".", "directory to write to")
	return cmd
}

// writeWheel writes a wheel into a directory, and prints its path.
func writeWheel(cmd *cobra.Command, dir, name string, data []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	if err := durable.WriteFile(path, data); err != nil {
		return err
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), path)
	return err
}
