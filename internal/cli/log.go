package cli

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

func logCommand() *cobra.Command {
	var flags configFlags
	var dir, pattern string
	var last int
	var experiences bool
	cmd := &cobra.Command{
		Use:   "log (FILE | --config FILE | --dir JOB_DIR)",
		Short: "Print the metrics and failed rollouts of a run",
		Long: "Print a run's records, one per line, and its failed rollouts. --pattern selects metrics\n" +
			"by a regular expression on their names. --experiences says what became of the\n" +
			"experiences instead: explored, dropped and by whom, trained on and how often.",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case dir != "" && flags.path != "":
				return errors.New("--dir names the run: --config is one name too many")
			case dir != "" && len(args) > 0:
				return fmt.Errorf("--dir names the run: %s is one name too many", args[0])
			case dir == "":
				cfg, err := flags.load(args)
				if err != nil {
					return err
				}
				dir = cfg.CheckpointJobDir
			}
			if last < 0 {
				return fmt.Errorf("--last-n-lines is %d: want 0 (all) or more", last)
			}
			if experiences {
				return printAccounts(cmd.OutOrStdout(), dir)
			}
			match, err := regexp.Compile(pattern)
			if err != nil {
				return fmt.Errorf("--pattern: %w", err)
			}
			entries, err := logEntries(dir, match)
			if err != nil {
				return err
			}
			if last > 0 && len(entries) > last {
				entries = entries[len(entries)-last:]
			}
			for _, e := range entries {
				fmt.Fprintln(cmd.OutOrStdout(), e.text)
			}
			return nil
		},
	}
	flags.command = cmd.Name()
	cmd.Flags().StringVarP(&flags.path, "config", "c", "", "configuration file (YAML); it may also be the first argument")
	cmd.Flags().StringVarP(&dir, "dir", "d", "", "directory of the run")
	cmd.Flags().StringVarP(&pattern, "pattern", "p", `^(rollout|eval).*/(reward|accuracy)/mean|^actor/.*loss`,
		"regular expression for the metrics to print")
	cmd.Flags().IntVarP(&last, "last-n-lines", "n", 0, "print only the last lines; 0 means all")
	cmd.Flags().BoolVarP(&experiences, "experiences", "e", false, "print what became of the experiences of the run")
	return cmd
}

// entry is one line of the log.
type entry struct {
	time time.Time
	text string
}

// logEntries returns the failed rollouts and the records of a run and its stages, in order of time.
func logEntries(dir string, match *regexp.Regexp) ([]entry, error) {
	var entries []entry
	run, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	if _, err := run.Newest(); err != nil {
		return nil, err
	}
	for _, path := range run.Failed {
		failed, err := failedRollouts(path)
		if err != nil {
			return nil, err
		}
		entries = append(entries, failed...)
	}
	for _, s := range run.Stages {
		for _, home := range s.Monitors {
			table, err := rundir.ReadTable(home, match.MatchString)
			if err != nil {
				return nil, err
			}
			for r := range table.Records() {
				if text := selected(r.Metrics); text != "" {
					at := r.Time.Local().Format(time.DateTime)
					entries = append(entries, entry{r.Time, fmt.Sprintf("%s %s step %d%s", at, r.Role, r.Step, text)})
				}
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.time.Compare(b.time) })
	return entries, nil
}

// failedRollouts reads the complete lines of a failed_rollouts.log. It skips a line that a running or killed process
// has left incomplete.
func failedRollouts(path string) (all []entry, err error) {
	f, size, err := durable.OpenWithin(filepath.Split(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = rundir.EachLine(f, 0, size, func(line []byte, _ int64) {
		if e, ok := failedRollout(strings.TrimSuffix(string(line), "\n")); ok {
			all = append(all, e)
		}
	})
	return all, err
}

// failedRollout reads the line of failed_rollouts.log that begins an entry: a time and a reason. The
// further lines of a reason, such as the stack of a panic, are only in the file.
func failedRollout(line string) (entry, bool) {
	stamp, _, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339, stamp)
	return entry{at, "failed: " + line}, err == nil
}

// selected returns metrics with four digits.
func selected(m trinity.Metrics) (text string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		text += fmt.Sprintf("  %s=%.4g", name, m[name])
	}
	return text
}
