package cli

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/report"
)

func exportCommand() *cobra.Command {
	var output string
	var asCSV bool
	var metrics []string
	cmd := &cobra.Command{
		Use:   "export --csv DIR…",
		Short: "Write the metrics of runs as a table for other programs",
		Long: "Write the metrics of runs as CSV: a line for each step of a run, with the columns run, step and a column for\n" +
			"each metric. DIR is the directory of a run, or one that has runs below it, such as that of a sweep. A run is\n" +
			"called by its path from DIR, and a stage is a run. A metric that a step lacks is an empty field; a value that is\n" +
			"no number is NaN. Of several explorers the values are means.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !asCSV {
				return errors.New("say in which form: --csv")
			}
			dirs, err := jobDirs(args)
			if err != nil {
				return err
			}
			if output == "" {
				return report.WriteCSV(cmd.OutOrStdout(), metrics, dirs...)
			}
			var table bytes.Buffer
			if err := report.WriteCSV(&table, metrics, dirs...); err != nil {
				return err
			}
			return durable.WriteFile(output, table.Bytes())
		},
	}
	cmd.Flags().BoolVar(&asCSV, "csv", false, "write CSV (RFC 4180)")
	cmd.Flags().StringArrayVar(&metrics, "metric", nil, "a metric of metrics.jsonl; repeat it for several; if not given, all")
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write; if not given, standard output")
	return cmd
}
