package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
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
			dir, err := rundir.Root(dir)
			if err != nil {
				return err
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
	found := false
	_, err := rundir.Walk(dir, func(path string, d fs.DirEntry) error {
		switch d.Name() {
		case "failed_rollouts.log":
			return eachTextLine(path, func(line string) error {
				if e, ok := failedRollout(line); ok {
					entries = append(entries, e)
				}
				return nil
			})
		case rundir.Metrics:
			found = true
			records, err := monitor.ReadFile(path)
			for _, r := range records {
				if text := selected(r.Metrics, match); text != "" {
					at := r.Time.Local().Format(time.DateTime)
					entries = append(entries, entry{r.Time, fmt.Sprintf("%s %s step %d%s", at, r.Role, r.Step, text)})
				}
			}
			return err
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s has no %s: is it the directory of a run that has begun?", dir, rundir.Metrics)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.time.Compare(b.time) })
	return entries, err
}

// eachTextLine reads the complete lines of a file. It skips a line that a running or killed process
// has left incomplete.
func eachTextLine(path string, do func(string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
}

// failedRollout reads the line of failed_rollouts.log that begins an entry: a time and a reason. The
// further lines of a reason, such as the stack of a panic, are only in the file.
func failedRollout(line string) (entry, bool) {
	stamp, _, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339, stamp)
	return entry{at, "failed: " + line}, err == nil
}

// selected returns the metrics whose names match, with four digits.
func selected(m trinity.Metrics, match *regexp.Regexp) (text string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if match.MatchString(name) {
			text += fmt.Sprintf("  %s=%.4g", name, m[name])
		}
	}
	return text
}
