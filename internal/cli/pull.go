package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/model/hub"
)

func pullCommand() *cobra.Command {
	var opts hub.Options
	cmd := &cobra.Command{
		Use:   "pull NAME",
		Short: "Download a model or dataset from a hub into the local cache",
		Long: "Download org/name into the cache of huggingface_hub and print its directory. It honours\n" +
			"HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE. A dataset is\n" +
			"hf://datasets/org/name; modelscope://org/name downloads from ModelScope.",
		Args: wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := interruptible(cmd.Context())
			defer cancel()
			opts.Say = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			dir, err := hub.Pull(ctx, args[0], opts)
			if err != nil {
				return orInterrupted(ctx, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.Revision, "revision", "", "branch, tag or commit; the default is main")
	return cmd
}
