package cli

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/report"
)

func compareCommand() *cobra.Command {
	var metric string
	var asJSON, asMarkdown bool
	cmd := &cobra.Command{
		Use:   "compare JOB_DIR…",
		Short: "Compare runs: settings, final metrics, confidence over seeds",
		Long: "Print the settings in which runs differ, and their metrics, evaluations first. Runs whose settings differ\n" +
			"in seeds alone are one group: its values are means over seeds with a 95 % confidence interval (Student's t).\n" +
			"The last column is the difference to the first group, by seed where both have the seed.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && asMarkdown {
				return errors.New("--json and --markdown: give one of them")
			}
			dirs, err := jobDirs(args)
			if err != nil {
				return err
			}
			c, err := report.Compare(metric, dirs...)
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
	cmd.Flags().StringVar(&metric, "metric", "", "sort by the final value of this metric of metrics.jsonl, best first")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print tables of Markdown")
	return cmd
}
