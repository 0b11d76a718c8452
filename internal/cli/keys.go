package cli

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/serve/tinker"
)

// keysCommand has the keys of a service. The service reads the file again when it changes.
func keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Add, list and remove the keys of trinity service",
		Long: "Keys of the clients of `trinity service`, in its --dir. What a key makes is its own: sessions, models,\n" +
			"checkpoints. A service without keys answers this machine alone.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var dir string
	cmd.PersistentFlags().StringVar(&dir, "dir", "service", "directory of the service")
	cmd.AddCommand(keysAddCommand(&dir), keysListCommand(&dir), &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a key: its next call is refused, and its checkpoints stay",
		Args:  wantArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return tinker.RemoveKey(cmd.Context(), dir, args[0]) },
	})
	return cmd
}

func keysAddCommand(dir *string) *cobra.Command {
	var k tinker.Key
	var disk float64
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a key and print it, once: the file keeps its hash",
		Args:  wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if k.TokensPerHour < 0 || k.Models < 0 || !(disk >= 0 && disk < 1<<20) {
				return errors.New("--tokens-per-hour, --disk, --models: want 0 or more")
			}
			k.Name, k.Disk = args[0], int64(disk*(1<<30))
			secret, err := tinker.AddKey(cmd.Context(), *dir, k)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), secret)
			}
			return err
		},
	}
	cmd.Flags().Int64Var(&k.TokensPerHour, "tokens-per-hour", 0, "tokens that it may train and sample in an hour; 0 means any number")
	cmd.Flags().Float64Var(&disk, "disk", 0, "GiB of checkpoints and models in sessions that it may have; 0 means any number")
	cmd.Flags().IntVar(&k.Models, "models", 0, "models that it may have in memory at once; 0 means any number")
	return cmd
}

func keysListCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the keys with their limits, and the disk that they take",
		Args:  wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := tinker.ReadKeys(*dir)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return fmt.Errorf("no keys in %s: trinity keys add NAME --dir %[1]s adds one", *dir)
			}
			const gib = 1 << 30
			used := tinker.DiskUsed(*dir)
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(out, "name\tadded\ttokens per hour\tdisk (GiB)\tmodels")
			for _, k := range all {
				tokens, disk, models := "any", "any", "any"
				if k.TokensPerHour > 0 {
					tokens = fmt.Sprint(k.TokensPerHour)
				}
				if k.Disk > 0 {
					disk = fmt.Sprintf("%.3g", float64(k.Disk)/gib)
				}
				if k.Models > 0 {
					models = fmt.Sprint(k.Models)
				}
				fmt.Fprintf(out, "%s\t%s\t%s\t%.3f of %s\t%s\n",
					k.Name, k.Made.Format(time.DateOnly), tokens, float64(used[k.Name])/gib, disk, models)
			}
			return out.Flush()
		},
	}
}
