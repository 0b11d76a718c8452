package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/internal/view"
)

func replayCommand() *cobra.Command {
	var o run.ReplayOptions
	cmd := &cobra.Command{
		Use:   "replay JOB_DIR --step N [key=value …]",
		Short: "Train a step of a run again, and compare every bit",
		Long: "Load the checkpoint before a train step, take the batch of the step from the run's buffer or dataset, and\n" +
			"train it again. The command compares the metrics, and every stream and derivative of every token that the\n" +
			"trace has. It says that the step has the same bits, or names the first difference. With settings, such as\n" +
			"algorithm.policy_loss_fn_args.clip_range=0.1, it also prints what the step would have done otherwise.\n" +
			"The command changes nothing in the run's directory.",
		RunE: func(cmd *cobra.Command, args []string) error {
			bridge.Allow(sayTo(cmd.ErrOrStderr()))
			if len(args) == 0 {
				return fmt.Errorf("give the directory of a run: trinity %s", cmd.Use)
			}
			if o.Step < 1 {
				return errors.New("--step takes the number of a train step, from 1 on")
			}
			o.Overrides, o.Say = args[1:], func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			ctx, cancel := interruptible(cmd.Context())
			defer cancel()
			dir, err := run.TrainedLast(args[0])
			if err != nil {
				return err
			}
			record, err := view.ReadRecord(dir, o.Step)
			if err != nil {
				return err
			}
			replayed, err := run.Replay(ctx, dir, o)
			if err != nil {
				return orInterrupted(ctx, err)
			}
			return compareReplay(cmd, record, replayed, o.Overrides)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&o.Step, "step", 0, "train step")
	f.StringVarP(&o.Config, "config", "c", "", "configuration of the run; if not given, what the run keeps of it in monitor/config.yaml")
	return cmd
}

// compareReplay prints how a train step that was made again differs from the recorded one. A difference
// is the error.
func compareReplay(cmd *cobra.Command, record *view.Record, replayed *run.Replayed, overrides []string) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "train step %d of %s, from %s\n", record.Step, replayed.Dir, run.Beginning(replayed.From))
	again := trace.Rows(replayed.Again.Trained)
	first, err := record.Compare(out, replayed.Again.Metrics, again)
	if err != nil {
		return err
	}
	if first == nil {
		fmt.Fprintln(out, "the step has the same bits")
	}
	if other := replayed.Otherwise; other != nil {
		err = view.PrintOtherwise(out, strings.Join(overrides, " "), replayed.Again.Metrics, other.Metrics, again, trace.Rows(other.Trained))
	}
	if first != nil {
		err = errors.Join(err, fmt.Errorf("train step %d has other bits: %s", record.Step, first))
	}
	return err
}
