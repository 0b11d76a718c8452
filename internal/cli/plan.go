package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/run"
	"github.com/trinity-go/trinity/simulation"
)

func planCommand() *cobra.Command {
	var flags configFlags
	var p run.Planner
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan --config FILE [key=value …]",
		Short: "Find how explorer and trainer wait least for one another: simulates a run, starts nothing",
		Long: "Simulate explorer, buffer and trainer with the speeds of an earlier run of the configuration, or those given, and recommend sync_style, sync_interval " +
			"and sync_offset within a bound on staleness.",
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
	f.IntVar(&p.MaxStaleness, "max-staleness", 2, "most train steps between the weights that sample and those that come of it; 1 is on-policy")
	f.IntVar(&p.Steps, "steps", 100, "explore steps to simulate")
	f.Float64Var(&r.Explore, "rollout-seconds", 0, "seconds of an explore step while the trainer is idle; 0 is as measured")
	f.Float64Var(&r.Train, "train-seconds", 0, "seconds of a train step while the explorer is idle; 0 is as measured")
	f.Float64Var(&r.Sync, "sync-seconds", 0, "seconds to publish a version; 0 is as measured")
	f.Float64Var(&r.Lengths.Mean, "response-tokens", 0, "mean length of a response; 0 is as measured")
	f.Float64Var(&r.Lengths.Spread, "response-spread", 0, "standard deviation of the logarithm of lengths; 0 is as measured")
	f.Float64Var(&r.Prompt, "prompt-tokens", 0, "mean length of a prompt; 0 is as measured")
	f.Float64Var(&r.Slowdown, "slowdown", 0, "how many times as long explorer and trainer take while both are busy; 0 is 2 in one process, 1 in two")
	f.IntSliceVar(&p.Explorers, "explorers", nil, "numbers of explorers to try, such as 1,2,4, which share the tasks of a step on machines of their own; as many as there were if left out")
	f.BoolVar(&asJSON, "json", false, "print the plan as one JSON object")
	return cmd
}

// mostChoices are printed.
const mostChoices = 12

func printPlan(out io.Writer, plan *run.Planned, p *run.Planner) {
	r, source := plan.Rates, "as given"
	if plan.Measured {
		source = "of " + plan.Metrics
		if p.Rates != (simulation.Rates{}) {
			source = "as given, else " + source
		}
	}
	fmt.Fprintf(out, "rates %s: explore step %.3g s, train step %.3g s, sync %.3g s, %.3g times as long while both are busy\n", source, r.Explore, r.Train, r.Sync, r.Slowdown)
	fmt.Fprintf(out, "responses: %.4g tokens, spread %.2g; prompts: %.4g tokens\n\n", r.Lengths.Mean, r.Lengths.Spread, r.Prompt)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\texplorers\tstyle\tinterval\toffset\trollouts/hour\tsteps/hour\texplorer idle\ttrainer idle\tstaleness mean\tp50\tp95\tmax\tbuffer mean\tmax")
	printChoice(w, "now", plan.Current)
	for i, c := range plan.Choices[:min(mostChoices, len(plan.Choices))] {
		printChoice(w, fmt.Sprint(i+1), c)
	}
	w.Flush()
	if n := plan.Current.Report.Dropped; n > 0 {
		fmt.Fprintf(out, "\nnow %d rollouts are dropped, too old for the sample strategy\n", n)
	}
	fmt.Fprintf(out, "\nrecommended, with staleness of at most %d:\n\n%s", p.MaxStaleness, settingLines(plan))
	if n := plan.Recommended.Explorers; n > 1 {
		fmt.Fprintf(out, "\nin mode train, and on %d machines mode explore with an explorer.name each and explorer.share 1/%d to %d/%d\n", n, n, n, n)
	}
}

func printChoice(w io.Writer, name string, c run.Choice) {
	r := c.Report
	fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%.0f\t%.4g\t%.0f%%\t%.0f%%\t%.2f\t%d\t%d\t%d\t%.3g\t%d\n", name, c.Explorers, c.Style, c.Interval, c.Offset, r.RolloutsPerHour, r.StepsPerHour,
		100*r.ExplorerIdle, 100*r.TrainerIdle, r.Staleness.Mean, r.Staleness.P50, r.Staleness.P95, r.Staleness.Max, r.BufferMean, r.BufferMax)
}

// settingLines are the recommended settings as lines of YAML.
func settingLines(plan *run.Planned) string {
	var b strings.Builder
	section := ""
	for _, set := range plan.Recommended.Set {
		key, value, _ := strings.Cut(set, "=")
		dot := strings.LastIndexByte(key, '.')
		if key[:dot] != section {
			section = key[:dot]
			name, of, _ := strings.Cut(section, ".")
			if name == "stages" {
				fmt.Fprintf(&b, "%s: # of stage %s\n", of[strings.LastIndexByte(of, '.')+1:], plan.Stage)
			} else {
				fmt.Fprintf(&b, "%s:\n", name)
			}
		}
		fmt.Fprintf(&b, "  %s: %s\n", key[dot+1:], value)
	}
	return b.String()
}
