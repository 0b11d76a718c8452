package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/wait"
)

// sized writes the files and returns the configuration. With --minutes it sets the number of steps by the estimate
// of trinity check.
func (b *beginning) sized(cmd *cobra.Command, files map[string][]byte) ([]byte, error) {
	for path := range files {
		if err := b.isFree(path); err != nil {
			return nil, err
		}
	}
	for path, rows := range files {
		if err := durable.WriteFile(path, rows); err != nil {
			return nil, err
		}
	}
	text, err := b.fit()
	if err != nil {
		for path := range files {
			err = errors.Join(err, os.Remove(path))
		}
		return nil, err
	}
	for _, line := range b.notes {
		fmt.Fprintln(cmd.OutOrStdout(), line)
	}
	switch {
	case len(files) == 0:
	case b.Test == "":
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, which has the answers of %s as texts\n", b.Train, b.Data)
	default:
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s (%d rows to learn from) and %s (%d that only evaluations use)\n",
			b.Train, bytes.Count(files[b.Train], []byte("\n")), b.Test, bytes.Count(files[b.Test], []byte("\n")))
	}
	return text, err
}

// fit returns the configuration, with as many steps as fit into the minutes.
func (b *beginning) fit() ([]byte, error) {
	text, err := b.render()
	if err != nil {
		return nil, err
	}
	if b.Minutes == 0 {
		b.sayTime(text)
		return text, nil
	}
	const rounds = 3 // an evaluation more or less changes the time
	var took float64
	for range rounds {
		if took, err = b.scale(text); err != nil {
			return nil, err
		}
		if text, err = b.render(); err != nil {
			return nil, err
		}
	}
	if most := 1.1 * 60 * b.Minutes; took > most {
		return nil, fmt.Errorf("--minutes %g is too short: the smallest run takes about %s on this machine; a smaller --model is faster",
			b.Minutes, wait.Text(wait.Seconds(took)))
	}
	b.sayTime(text)
	return text, nil
}

// sayTime notes how long the run takes, or that trinity check says it later.
func (b *beginning) sayTime(text []byte) {
	_, took, err := b.estimate(text)
	if err != nil {
		b.note("how long the run takes is not known yet: once model and data are here, trinity check --config %s says it", shellWord(b.File))
		return
	}
	line := "the run takes about " + wait.Text(wait.Seconds(took)) + " on this machine"
	switch {
	case b.Script != "":
		line += fmt.Sprintf(" if an episode has one reply of %d tokens", b.ReplyTokens)
	case b.Minutes == 0 && took > 60*longRun:
		line += fmt.Sprintf("; with --minutes %d, trinity init writes a shorter one", longRun)
	}
	b.note("%s", line)
}

// estimate returns the plan of a configuration, and the seconds that it takes.
func (b *beginning) estimate(text []byte) (plan *config.Plan, took float64, err error) {
	cfg, err := config.Parse(b.File, text, config.Options{})
	if err != nil {
		return nil, 0, err
	}
	if plan, err = cfg.PlanStages(settle.Facts); err != nil {
		return nil, 0, err
	}
	for _, s := range plan.Stages {
		if s.Seconds == 0 {
			return nil, 0, fmt.Errorf("--minutes: the time of a step is not known: %s",
				cmp.Or(s.TimeWhy, "the model or the data is not on this machine"))
		}
		took += s.Seconds
	}
	return plan, took, nil
}

// scale changes the numbers of steps such that a configuration takes the minutes, and returns the seconds that it
// takes with its present ones.
func (b *beginning) scale(text []byte) (took float64, err error) {
	plan, took, err := b.estimate(text)
	if err != nil {
		return 0, err
	}
	left := 60 * b.Minutes
	if b.Warms {
		warm, steps := plan.Stages[0].Seconds, plan.Stages[0].TrainSteps
		share := left
		if !b.SFT() {
			share /= 2
		}
		if b.SFT() || warm > share {
			b.scaleWarm(int(steps), share/warm)
		}
		left -= warm
	}
	if !b.SFT() {
		s := plan.Stages[len(plan.Stages)-1]
		evaluation := s.EvalTime / (2 + float64(b.Steps)/10) // at the start, at the end, and every ten steps
		step := (s.Seconds-s.EvalTime)/float64(b.Steps) + evaluation/10
		b.Steps = min(1000, max(2, int((left-2*evaluation)/step)))
	}
	return took, nil
}

// scaleWarm changes the passes over the demonstrations, which are a number of steps, by a factor. If less
// than one pass is left, the configuration counts steps.
func (b *beginning) scaleWarm(steps int, factor float64) {
	if passes := float64(b.Epochs) * factor; b.WarmSteps == 0 && passes >= 1 {
		b.Epochs = min(20, int(passes))
		return
	}
	b.WarmSteps = max(1, int(float64(steps)*factor))
}
