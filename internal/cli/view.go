package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/view"
)

func viewCommand() *cobra.Command {
	var o view.Options
	var asJSON, tokens bool
	var export string
	var evaluated, changed bool
	cmd := &cobra.Command{
		Use:   "view JOB_DIR",
		Short: "Show answers of a train step, and what the optimizer did to their tokens",
		Long: "Show the answers that a run keeps of a train step (monitor.trace), group by group. A blue token becomes\n" +
			"likelier, a yellow one less likely; a dim one was masked, clipped, or has no advantage. With --tokens, a\n" +
			"table has the numbers of every token: log-probabilities in nats and the derivative of the loss. --export\n" +
			"writes the report of the run with the answers of some steps, which a browser opens without a server.\n" +
			"If no train step is kept, the failed rollouts of the newest explorer step are shown.\n\n" +
			"With --evaluation, show the held-out answers of an evaluation instead, wrong ones first, each with the question\n" +
			"and the right answer; --changed leaves those that were right before and are wrong now, or the other way round.",
		Args: wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Step < 0 || o.Worst < 0 || o.Groups < 0 {
				return errors.New("--step, --worst and --worst-groups take numbers from 1 on")
			}
			choice := view.Choice{Wrong: o.Wrong, Search: o.Search, Worst: o.Worst}
			if evaluated || changed {
				if export != "" || tokens || o.Task != "" || o.Groups > 0 {
					return errors.New("--evaluation and --changed go with --step, --wrong, --worst, --search and --json alone")
				}
				place, step := args[0], ""
				if cmd.Flags().Changed("step") {
					step = fmt.Sprintf("@%d", o.Step)
				}
				return showAnswers(cmd.OutOrStdout(), place+step, changed, choice, asJSON)
			}
			if export != "" && (asJSON || tokens) {
				return errors.New("--export writes a page with every token: leave --json and --tokens out")
			}
			if export != "" {
				return exportView(cmd.OutOrStdout(), export, args[0], o)
			}
			page, err := view.Read(args[0], o)
			if err != nil {
				return err
			}
			if asJSON {
				return page.JSON(cmd.OutOrStdout())
			}
			return paged(cmd.OutOrStdout(), func(w io.Writer, coloured bool) error { return page.Print(w, coloured, tokens) })
		},
	}
	f := cmd.Flags()
	f.Int64Var(&o.Step, "step", 0, "train step; if not given, the newest that is kept")
	f.StringVar(&o.Task, "task", "", "only the answers to this task")
	f.IntVar(&o.Worst, "worst", 0, "only this many answers, those with the lowest rewards")
	f.IntVar(&o.Groups, "worst-groups", 0, "only this many groups, those with the lowest mean rewards, the worst first")
	f.BoolVar(&o.Wrong, "wrong", false, "only answers that are wrong or have no valid reward")
	f.StringVar(&o.Search, "search", "", "only answers whose question, right answer or text has this text")
	f.BoolVar(&evaluated, "evaluation", false, "answers of an evaluation: of --step, or of the newest")
	f.BoolVar(&changed, "changed", false, "answers of an evaluation that have become wrong or right since the one before")
	f.BoolVar(&tokens, "tokens", false, "add a table of every token")
	f.BoolVar(&asJSON, "json", false, "write one JSON object per answer, and one with the failures")
	f.StringVar(&export, "export", "", "write a page to this file: the run's curves and settings, and the answers of a few steps or of --step")
	return cmd
}

// showAnswers shows an evaluation, or what has changed in it since the one before.
func showAnswers(out io.Writer, place string, changed bool, choice view.Choice, asJSON bool) error {
	if changed {
		return compareAnswers(out, []string{place}, choice, asJSON)
	}
	e, err := view.ReadEvaluated(place, 0)
	switch {
	case err != nil:
		return err
	case asJSON:
		return e.JSON(out, choice)
	}
	return paged(out, func(w io.Writer, coloured bool) error { return e.Print(w, coloured, choice) })
}

// compareAnswers shows the answers of two evaluations side by side: of two places, or of one and the evaluation before it.
func compareAnswers(out io.Writer, places []string, choice view.Choice, asJSON bool) error {
	before := ""
	if len(places) == 2 {
		before = places[0]
	}
	c, err := view.Compare(before, places[len(places)-1])
	switch {
	case err != nil:
		return err
	case asJSON:
		return c.JSON(out, choice)
	}
	return paged(out, func(w io.Writer, coloured bool) error { return c.Print(w, coloured, choice) })
}

// exportView writes the report of a run with its answers.
func exportView(out io.Writer, path, dir string, o view.Options) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--export %s: is no regular file: give another name", path)
	}
	rollouts, damaged, err := view.Export(dir, o)
	if err != nil {
		return err
	}
	page, err := report.Read(dir)
	if err != nil {
		return err
	}
	page.Rollouts = rollouts
	if err := page.WriteFile(path); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, path)
	return errors.Join(err, damaged)
}

// paged writes to a pager if out is a terminal: $PAGER, or less. Text that fits on the screen is only
// printed.
func paged(out io.Writer, write func(w io.Writer, coloured bool) error) error {
	if columns(out) == 0 {
		return write(out, false)
	}
	pager := pagerCommand()
	pager.Stdout, pager.Stderr = out, os.Stderr
	in, err := pager.StdinPipe()
	if err != nil {
		return err
	}
	if err := pager.Start(); err != nil { // there is none
		return write(out, true)
	}
	err = write(in, true)
	if errors.Is(err, syscall.EPIPE) { // the reader has seen enough
		err = nil
	}
	return errors.Join(err, in.Close(), pager.Wait())
}

// pagerCommand returns the command of $PAGER, or less. less passes colours on, whatever $LESS says.
func pagerCommand() *exec.Cmd {
	words := strings.Fields(os.Getenv("PAGER"))
	if len(words) == 0 {
		words = []string{"less"}
	}
	if filepath.Base(words[0]) == "less" {
		words = slices.Insert(words, 1, "-R")
	}
	pager := exec.Command(words[0], words[1:]...)
	pager.Env = append(os.Environ(), "LESS="+cmp.Or(os.Getenv("LESS"), "FRX"))
	return pager
}
