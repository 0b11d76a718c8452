package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

func syncCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "sync JOB_DIR --to MONITOR [argument=value…]",
		Short: "Send the metrics of a run to a service such as MLflow",
		Long: "Send a service the records of a run that it has not got: of a run that ended while the service\n" +
			"was away, or that had no such monitor. Stages and explorers of the run are runs there. The\n" +
			"arguments are those of the monitor (trinity explain monitor MONITOR); the run's own are the\n" +
			"defaults, except secrets.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("give the directory of a run: trinity %s", cmd.Use)
			}
			given, err := arguments(args[1:])
			if err != nil {
				return err
			}
			dirs, err := monitorDirs(args[0])
			if err != nil {
				return err
			}
			var errs []error
			for _, dir := range dirs {
				n, err := monitor.Sync(cmd.Context(), dir, to, given, func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) })
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: sent %d records\n", dir, n)
				} else if !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
					errs = append(errs, err) // a service that is away is the same error for each stage
				}
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "monitor that gets the records: trinity list monitor")
	_ = cmd.MarkFlagRequired("to") // the flag is there
	return cmd
}

// arguments returns a plug-in's arguments, which are written as name=value.
func arguments(texts []string) (map[string]any, error) {
	args := map[string]any{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want argument=value", text)
		}
		var v any = value
		_ = json.Unmarshal([]byte(value), &v) // else it is text
		args[name] = v
	}
	return args, nil
}

// monitorDirs returns the directories below dir that have a metrics.jsonl.
func monitorDirs(dir string) (dirs []string, err error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	for _, s := range run.Stages {
		dirs = append(dirs, s.Monitors...)
	}
	slices.Sort(dirs)
	_, err = run.Newest()
	return dirs, err
}
