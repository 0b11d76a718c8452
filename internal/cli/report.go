package cli

import (
	"errors"
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
		Long: "Write one HTML file with the curves, evaluations, answers, times and settings of a run. Of several runs,\n" +
			"those whose settings differ in seeds alone are one curve, their mean with a band of one standard deviation;\n" +
			"trinity compare prints their numbers. The command ignores arguments that end in .html, which are pages\n" +
			"that a pattern such as runs/* has matched.",
		RunE: func(cmd *cobra.Command, args []string) error {
			dirs, err := jobDirs(args)
			if err != nil {
				return err
			}
			if output == "" {
				output = filepath.Join(dirs[0], report.File)
				if len(dirs) > 1 {
					output = report.File
				}
			}
			page, err := report.Read(dirs...)
			if err != nil {
				return err
			}
			if err := page.WriteFile(output); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), output)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"file to write; if not given, report.html in the run's directory, or here for several runs")
	return cmd
}

// jobDirs returns the directories of runs among arguments. A page that a pattern such as runs/* has
// matched is none.
func jobDirs(args []string) (dirs []string, err error) {
	for _, arg := range args {
		if filepath.Ext(arg) != ".html" {
			dirs = append(dirs, arg)
		}
	}
	if dirs == nil {
		err = errors.New("give the directory of a run, which trinity run names at its end, or of several runs")
	}
	return dirs, err
}
