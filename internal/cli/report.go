package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/report"
)

func reportCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "report JOB_DIR…",
		Short: "Write a page about one or several runs",
		Long: "Write one HTML file with the curves, evaluations, answers, times and settings of a run. The page of\n" +
			"several runs has the mean of each curve and a band of one standard deviation.",
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if len(dirs) == 0 {
				return fmt.Errorf("give the directory of a run, which trinity run names at its end, or of several runs")
			}
			if output == "" {
				output = filepath.Join(dirs[0], report.File)
				if len(dirs) > 1 {
					output = report.File
				}
			}
			if err := report.WriteFile(output, dirs...); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), output)
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"file to write; if not given, report.html in the run's directory, or here for several runs")
	return cmd
}
