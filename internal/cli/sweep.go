package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/sweep"
)

func sweepCommand() *cobra.Command {
	var flags configFlags
	var o sweep.Options
	cmd := &cobra.Command{
		Use:   "sweep (FILE | --config FILE) 'key=[value,value]' … [key=value …]",
		Short: "Run a configuration with many settings, and say which is best",
		Long: "Run a configuration with all combinations of the values of lists, each with several seeds, and compare the\n" +
			"runs, best first. Each run is a process of its own with the directory NAME_KEY_VALUE_seedN; sweep.log in it\n" +
			"has what it printed. The same command goes on after Ctrl-C or a kill: it does not repeat finished runs. It\n" +
			"goes on after a failed run, too, and ends with exit code 1. A list of one value, key=[[a,b]], is a setting of\n" +
			"all runs; random search also takes ranges, key=1e-6..1e-3, from which it draws log-uniformly.",
		RunE: func(cmd *cobra.Command, args []string) error {
			bridge.Allow(sayTo(cmd.ErrOrStderr()))
			return runSweep(cmd, &flags, o, args)
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.IntVar(&o.Seeds, "seeds", 1, "runs of each combination, with seeds from the configuration's on")
	f.StringVar(&o.Search, "search", sweep.Grid,
		"grid: all combinations; random: --max-runs of them, drawn by the seed; halving: all for a few steps, the best for more")
	f.StringVar(&o.Metric, "metric", "", "metric that says which is best; if not given, the first evaluation, the reward or the loss")
	f.IntVar(&o.MaxRuns, "max-runs", 0, "refuse to begin more runs than this; random search makes so many; 0 is no bound")
	f.IntVar(&o.Parallel, "parallel", 1, "runs at once, which share the cores")
	f.IntVar(&o.Eta, "eta", 3, "halving: each rung keeps the best 1/ETA of the combinations and gives them ETA times the steps")
	return cmd
}

// runSweep runs a sweep and prints the comparison of its runs.
func runSweep(cmd *cobra.Command, flags *configFlags, o sweep.Options, args []string) error {
	for _, f := range []struct {
		name     string
		n, least int
	}{{"seeds", o.Seeds, 1}, {"parallel", o.Parallel, 1}, {"eta", o.Eta, 2}, {"max-runs", o.MaxRuns, 0}} {
		if f.n < f.least {
			return fmt.Errorf("--%s is %d: want %d or more", f.name, f.n, f.least)
		}
	}
	if ways := []string{sweep.Grid, sweep.Random, sweep.Halving}; !slices.Contains(ways, o.Search) {
		return fmt.Errorf("--search is %q: want %s", o.Search, strings.Join(ways, ", "))
	}
	path, args, err := flags.file(args)
	if err != nil {
		return err
	}
	if o.Varied, o.Settings, err = sweep.Vary(args); err != nil {
		return err
	}
	o.Settings = flags.settings(o.Settings)
	o.Load = func(settings []string) (*config.Config, error) {
		return config.Load(path, config.Options{Overrides: settings, Engine: flags.engine})
	}
	o.Command = []string{"run", "--config", path}
	if flags.engine != "" {
		o.Command = append(o.Command, "--engine", flags.engine)
	}
	o.Say = sayTo(cmd.ErrOrStderr())
	stop, cancel := interruptible(cmd.Context())
	defer cancel()
	result, err := sweep.Run(stop, o)
	if err != nil {
		err = orInterrupted(stop, err)
		if err == errInterrupted {
			o.Say("interrupted: the same command goes on from the checkpoints of its runs")
		}
		return err
	}
	if result.Failed < len(result.Dirs) {
		c, err := report.Compare(result.Metric, result.Dirs...)
		if err != nil {
			return err
		}
		if err := c.Print(cmd.OutOrStdout()); err != nil {
			return err
		}
		talkTo(cmd.OutOrStdout(), c)
	}
	if result.Failed > 0 {
		return fmt.Errorf("%d of %d runs failed; the same command tries them again", result.Failed, len(result.Dirs))
	}
	return nil
}

// talkTo writes the command that talks to the best single run of a comparison, which has said which that is; without
// evaluations, to a run of the best settings.
func talkTo(w io.Writer, c *report.Comparison) {
	best := c.Groups[0]
	switch {
	case len(c.Best) > 0 && c.Best[0].Weights != "":
		fmt.Fprintf(w, "\ntalk to it:  %s chat --model %s\n", invocation(), shellWord(c.Best[0].Weights))
	case len(best.Runs) > 0:
		fmt.Fprintf(w, "\nbest: %s\ntalk to its model:  %s chat --model %s\n", best.Name, invocation(), shellWord(best.Runs[0].Dir))
	}
}
