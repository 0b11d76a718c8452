package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
)

func logCommand() *cobra.Command {
	var flags configFlags
	var dir, pattern string
	var last int
	cmd := &cobra.Command{
		Use:   "log (--config FILE | --dir JOB_DIR)",
		Short: "Print the metrics and failed rollouts of a run",
		Long:  "Print a run's records, one a line, and what is in its log directory. --pattern picks metrics by a regular expression on their names.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (flags.path == "") == (dir == "") {
				return errors.New("give one of --config and --dir")
			}
			if flags.path != "" {
				cfg, err := flags.load(args)
				if err != nil {
					return err
				}
				dir = cfg.CheckpointJobDir
			}
			if last < 0 {
				return fmt.Errorf("--last-n-lines is %d: want 0 (all) or more", last)
			}
			if _, err := os.Stat(dir); err != nil {
				return fmt.Errorf("there is no run in %s: %w", dir, err)
			}
			match, err := regexp.Compile(pattern)
			if err != nil {
				return fmt.Errorf("--pattern: %w", err)
			}
			lines, err := logLines(dir, match)
			if err != nil {
				return err
			}
			if last > 0 && len(lines) > last {
				lines = lines[len(lines)-last:]
			}
			for _, l := range lines {
				fmt.Fprintln(cmd.OutOrStdout(), l)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&flags.path, "config", "c", "", "configuration file (YAML)")
	cmd.Flags().StringVarP(&dir, "dir", "d", "", "directory of the run")
	cmd.Flags().StringVarP(&pattern, "pattern", "p", "reward|loss|failed", "metrics to print")
	cmd.Flags().IntVarP(&last, "last-n-lines", "n", 0, "only the last lines; 0 is all")
	return cmd
}

// logLines collects failed rollouts and records of a run and of its stages.
func logLines(dir string, match *regexp.Regexp) ([]string, error) {
	var lines []string
	found := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch d.Name() {
		case "failed_rollouts.log":
			return eachTextLine(path, func(line string) error { lines = append(lines, "failed: "+line); return nil })
		case "metrics.jsonl":
			found = true
			return eachTextLine(path, func(line string) error {
				text, err := recordLine(line, match)
				if text != "" {
					lines = append(lines, text)
				}
				return err
			})
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s has no metrics.jsonl: is it the directory of a run with the jsonl monitor?", dir)
	}
	return lines, err
}

func eachTextLine(path string, do func(string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; sc.Scan(); n++ {
		if err := do(sc.Text()); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return sc.Err()
}

// recordLine is one record with the metrics that match; "" when none does.
func recordLine(line string, match *regexp.Regexp) (string, error) {
	var r struct {
		Step    int64              `json:"step"`
		Role    string             `json:"role"`
		Time    string             `json:"time"`
		Metrics map[string]float64 `json:"metrics"`
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return "", err
	}
	var names []string
	for name := range r.Metrics {
		if match.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	text := fmt.Sprintf("%s %s step %d", r.Time, r.Role, r.Step)
	for _, name := range names {
		text += fmt.Sprintf("  %s=%.4g", name, r.Metrics[name])
	}
	return text, nil
}
