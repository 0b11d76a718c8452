package cli

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/view"
)

func compareCommand() *cobra.Command {
	var asked report.Asked
	var asJSON, asMarkdown, answers bool
	var choice view.Choice
	cmd := &cobra.Command{
		Use:   "compare JOB_DIR…",
		Short: "Compare runs: settings, final metrics, confidence over seeds",
		Long: "Print the settings in which runs differ, and their metrics, evaluations first. Runs whose settings differ\n" +
			"in seeds alone are one group: its values are means over seeds with a 95 % confidence interval (Student's t).\n" +
			"The last column is the difference to the first group, by seed where both have the seed; of two single runs over the\n" +
			"held-out rows that both answered, if their traces keep them. A sentence says which single run is best at any step,\n" +
			"by how much, whether chance explains it, and where its weights are.\n\n" +
			"With --answers, show the answers of two evaluations to the same held-out rows side by side: first those that\n" +
			"have become wrong, then those that have become right. Each place is RUN for its newest evaluation, RUN@STEP, or\n" +
			"a file that trinity eval --output has written. A single place is compared with the evaluation before it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && asMarkdown {
				return errors.New("--json and --markdown: give one of them")
			}
			if answers {
				if len(args) == 0 || len(args) > 2 || asked.Metric != "" || asked.AtBest || asked.Alone || asMarkdown {
					return errors.New("--answers takes two places, RUN, RUN@STEP or a file of answers, and no --metric, --at-best, --alone or " +
						"--markdown; of one place it shows what has changed since the evaluation before")
				}
				return compareAnswers(cmd.OutOrStdout(), args, choice, asJSON)
			}
			if choice != (view.Choice{}) {
				return errors.New("--all, --wrong and --search go with --answers")
			}
			dirs, err := jobDirs(args)
			if err != nil {
				return err
			}
			c, err := asked.Compare(dirs...)
			switch out := cmd.OutOrStdout(); {
			case err != nil:
				return err
			case asJSON:
				return json.NewEncoder(out).Encode(c)
			case asMarkdown:
				return c.Markdown(out)
			default:
				return c.Print(out)
			}
		},
	}
	cmd.Flags().StringVar(&asked.Metric, "metric", "", "sort by the final value of this metric of metrics.jsonl, best first")
	cmd.Flags().BoolVar(&asked.AtBest, "at-best", false, "sort and compare evaluations at the best step of each run")
	cmd.Flags().BoolVar(&asked.Alone, "alone", false, "compare every run alone: seeds are not grouped")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print tables of Markdown")
	cmd.Flags().BoolVar(&answers, "answers", false, "compare answers to held-out rows: JOB_DIR@STEP JOB_DIR@STEP")
	cmd.Flags().BoolVar(&choice.All, "all", false, "with --answers: also those that have not changed")
	cmd.Flags().BoolVar(&choice.Wrong, "wrong", false, "with --answers: all that are wrong in the second evaluation")
	cmd.Flags().StringVar(&choice.Search, "search", "", "with --answers: those whose question, right answer or text has this text")
	return cmd
}
