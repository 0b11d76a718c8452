package explorer

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
)

// isEqual reports whether there are several values, which are all equal.
func isEqual(v []float64) bool { return len(v) > 1 && slices.Min(v) == slices.Max(v) }

// compared returns the sets of rewards that the algorithm compares: one set for each task with
// several rewards, or one set with all rewards of the step.
func (e *Explorer) compared(outcomes []*outcome) (sets [][]float64) {
	var all []float64
	for _, o := range outcomes {
		rewards := runRewards(o.group)
		all = append(all, rewards...)
		if len(rewards) > 1 && e.opts.Learns == InGroup {
			sets = append(sets, rewards)
		}
	}
	if len(all) > 1 && e.opts.Learns == InStep {
		sets = append(sets, all)
	}
	return sets
}

// loudAfter is the number of consecutive steps with equal rewards after which the explorer reports
// that the run does not learn, once for each that many steps.
const loudAfter = 5

// reportEqual reports a step in which the algorithm cannot tell good answers from bad ones, because
// all rewards that it compares are equal.
func (e *Explorer) reportEqual(outcomes []*outcome, r trinity.Record) {
	sets := e.compared(outcomes)
	if len(sets) == 0 {
		return
	}
	if slices.ContainsFunc(sets, func(v []float64) bool { return !isEqual(v) }) {
		e.equalSteps = 0
		return
	}
	e.equalSteps++
	answers := ""
	for _, s := range r.Samples {
		answers += fmt.Sprintf("; an answer with reward %.4g: %s", s.Reward, quoted(s.Response))
	}
	which := "all rewards are equal"
	if e.opts.Learns == InGroup {
		which = "all rewards of each task are equal"
	}
	lost := "so the policy learns nothing from "
	if e.opts.Experts {
		lost = "so only the data of experts teach the policy in "
	}
	switch {
	case e.equalSteps%loudAfter == 0:
		e.opts.Recorder.Say(fmt.Sprintf("WARNING: explorer step %d: %s, as in the %d steps before, %sthem. "+
			"If the rewards are high, the tasks are too easy; if not, compare the answers with what the reward function expects, "+
			"and look at model.max_response_tokens and the temperature%s", r.Step, which, e.equalSteps-1, lost, answers))
	case e.equalSteps < loudAfter:
		e.opts.Recorder.Say(fmt.Sprintf("explorer step %d: %s, %sthis step%s", r.Step, which, lost, answers))
	}
}

// quoted returns a text in one printable line, cut if it is long.
func quoted(text string) string {
	const most = 80 // characters
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "…"
	}
	return strconv.Quote(text)
}
