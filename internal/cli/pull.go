package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/hub"
	"github.com/trinity-go/trinity/run"
)

func pullCommand() *cobra.Command {
	var opts hub.Options
	cmd := &cobra.Command{
		Use:   "pull NAME",
		Short: "Fetch a model or dataset of a hub into the local cache",
		Long:  "Fetch org/name into the cache of huggingface_hub and print its directory. HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE are obeyed;\na dataset is hf://datasets/org/name; modelscope://org/name asks ModelScope.",
		Args:  wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := interruptible(cmd.Context())
			defer cancel()
			opts.Progress = run.Progress(func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) })
			dir, err := hub.Pull(ctx, args[0], opts)
			if err != nil {
				return orInterrupted(ctx, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.Revision, "revision", "", "branch, tag or commit; main if left out")
	return cmd
}
