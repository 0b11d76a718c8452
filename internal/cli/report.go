package cli

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/report"
)

func reportCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "report JOB_DIR…",
		Short: "Write a page about one or several runs",
		Long: "Write one HTML file with the curves, evaluations, answers, times and settings of a run. Given several\n" +
			"runs, the command compares them, also as a table in the terminal: runs whose settings differ in seeds\n" +
			"alone are one curve, their mean with a band of one standard deviation. It ignores arguments that end\n" +
			"in .html, which are pages that a pattern such as runs/* has matched.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var dirs []string
			for _, arg := range args {
				if filepath.Ext(arg) != ".html" {
					dirs = append(dirs, arg)
				}
			}
			if len(dirs) == 0 {
				return fmt.Errorf("give the directory of a run, which trinity run names at its end, or of several runs")
			}
			if output == "" {
				output = filepath.Join(dirs[0], report.File)
				if len(dirs) > 1 {
					output = report.File
				}
			}
			if err := writeReport(cmd.OutOrStdout(), output, dirs); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), output)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"file to write; if not given, report.html in the run's directory, or here for several runs")
	return cmd
}

// writeReport writes the page about the runs in dirs. Of several runs it also prints the first and
// last values.
func writeReport(out io.Writer, path string, dirs []string) error {
	page, err := report.Read(dirs...)
	if err != nil {
		return err
	}
	if err := page.WriteFile(path); err != nil || len(dirs) == 1 {
		return err
	}
	return page.Print(out)
}
