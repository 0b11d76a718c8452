package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/view"
)

func perfCommand() *cobra.Command {
	var chrome string
	var step int64
	cmd := &cobra.Command{
		Use:   "perf JOB_DIR",
		Short: "Show where the time of a run went, and who waited for whom",
		Long: "Show from the spans that a run keeps (monitor.trace.spans) what explorer and trainer did and how long,\n" +
			"for whom each waited, what bounded the run, how many tokens a second each phase had, and the slowest\n" +
			"rollouts, tasks and rewards.",
		Args: wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			perf, err := view.ReadPerf(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("step") {
				if err := perf.Only(step); err != nil {
					return fmt.Errorf("--step: %w", err)
				}
			}
			if chrome == "" {
				return perf.Print(cmd.OutOrStdout())
			}
			if info, err := os.Lstat(chrome); err == nil && !info.Mode().IsRegular() {
				return fmt.Errorf("--chrome %s: is no regular file: give another name", chrome)
			}
			if err := durable.Replace(chrome, func(w io.Writer) error { return perf.Chrome(w) }); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), chrome)
			return err
		},
	}
	cmd.Flags().StringVar(&chrome, "chrome", "", "write the spans to this file instead, as trace events, which Perfetto and Chrome open")
	cmd.Flags().Int64Var(&step, "step", 0, "only this train step: from the end of the one before to its own end")
	return cmd
}
