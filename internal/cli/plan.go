package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/plan"
	"github.com/trinity-go/trinity/internal/simulation"
)

func planCommand() *cobra.Command {
	var flags configFlags
	var p plan.Planner
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan (FILE | --config FILE) [key=value …]",
		Short: "Find the settings with which explorer and trainer wait least for each other, by simulation",
		Long: "Simulate explorer, buffer and trainer at the speeds of an earlier run of the\n" +
			"configuration, or at given speeds, and recommend sync_style, sync_interval and\n" +
			"sync_offset within a bound on staleness.",
		RunE: func(cmd *cobra.Command, args []string) error {
			for name, n := range map[string]int{"max-staleness": p.MaxStaleness, "steps": p.Steps} {
				if n < 1 {
					return fmt.Errorf("--%s is %d: want 1 or more", name, n)
				}
			}
			p.Load = func(overrides ...string) (*config.Config, error) {
				return flags.load(append(args[:len(args):len(args)], overrides...))
			}
			plan, err := p.Plan()
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(plan)
			}
			printPlan(cmd.OutOrStdout(), plan, &p)
			return nil
		},
	}
	flags.add(cmd)
	f, r := cmd.Flags(), &p.Rates
	f.IntVar(&p.MaxStaleness, "max-staleness", 2, "largest staleness in train steps; 1 is on-policy")
	f.IntVar(&p.Steps, "steps", 100, "explore steps to simulate")
	f.Float64Var(&r.Explore, "rollout-seconds", 0, "seconds of an explore step while the trainer is idle; 0 means as measured")
	f.Float64Var(&r.Train, "train-seconds", 0, "seconds of a train step while the explorer is idle; 0 means as measured")
	f.Float64Var(&r.Sync, "sync-seconds", 0, "seconds to publish a version; 0 means as measured")
	f.Float64Var(&r.Lengths.Mean, "response-tokens", 0, "mean tokens of a response; 0 means as measured")
	f.Float64Var(&r.Lengths.Spread, "response-spread", 0, "standard deviation of the logarithm of response lengths; 0 means as measured")
	f.Float64Var(&r.Prompt, "prompt-tokens", 0, "mean tokens of a prompt; 0 means as measured")
	f.Float64Var(&r.Slowdown, "slowdown", 0,
		"factor by which explorer and trainer slow down while both are busy; 0 means 2 in one process, 1 in two")
	f.IntSliceVar(&p.Explorers, "explorers", nil,
		"numbers of explorers to try, such as 1,2,4, each on its own machine; default: the number in the run")
	f.BoolVar(&asJSON, "json", false, "print the plan as one JSON object")
	return cmd
}

// mostChoices is the number of choices to print.
const mostChoices = 12

func printPlan(out io.Writer, plan *plan.Planned, p *plan.Planner) {
	r, source := plan.Rates, "as given"
	if plan.Measured {
		source = "of " + plan.Metrics
		if p.Rates != (simulation.Rates{}) {
			source = "as given, otherwise " + source
		}
	}
	fmt.Fprintf(out, "rates %s: explore step %.3g s, train step %.3g s, sync %.3g s, slowdown %.3g while both are busy\n",
		source, r.Explore, r.Train, r.Sync, r.Slowdown)
	fmt.Fprintf(out, "responses: %.4g tokens, spread %.2g; prompts: %.4g tokens\n\n", r.Lengths.Mean, r.Lengths.Spread, r.Prompt)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\texplorers\tstyle\tinterval\toffset\trollouts/hour\tsteps/hour\texplorer idle\ttrainer "+
		"idle\tstaleness mean\tp50\tp95\tmax\tbuffer mean\tmax")
	printChoice(w, "now", plan.Current)
	for i, c := range plan.Choices[:min(mostChoices, len(plan.Choices))] {
		printChoice(w, fmt.Sprint(i+1), c)
	}
	w.Flush()
	if n := plan.Current.Report.Dropped; n > 0 {
		fmt.Fprintf(out, "\nthe current settings drop %d rollouts that are too old for the sample strategy\n", n)
	}
	fmt.Fprintf(out, "\nrecommended, with a staleness of at most %d:\n\n%s", p.MaxStaleness, plan.Advice.Settings)
	if n := plan.Recommended.Explorers; n > 1 {
		fmt.Fprintf(out, "\nThe trainer runs in mode train. %d more machines run mode explore, each with its own "+
			"explorer.name, and explorer.share 1/%d to %d/%d\n", n, n, n, n)
	}
	fmt.Fprintf(out, "\n%s", plan.Advice)
}

func printChoice(w io.Writer, name string, c plan.Choice) {
	r := c.Report
	fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%.0f\t%.4g\t%.0f%%\t%.0f%%\t%.2f\t%d\t%d\t%d\t%.3g\t%d\n", name, c.Explorers, c.Style,
		c.Interval, c.Offset, r.RolloutsPerHour, r.StepsPerHour,
		100*r.ExplorerIdle, 100*r.TrainerIdle, r.Staleness.Mean, r.Staleness.P50, r.Staleness.P95, r.Staleness.Max, r.BufferMean, r.BufferMax)
}
