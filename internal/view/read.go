// Package view shows the answers of a train step to people: whole groups, and their tokens with what
// the optimizer did to each.
package view

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

// Options choose what is shown.
type Options struct {
	Step   int64  // a train step; 0 is the newest that the trace has
	Task   string // only the answers to this task; "" is all
	Worst  int    // only this many answers, those with the lowest rewards; 0 is all
	Groups int    // only this many groups, those with the lowest mean rewards, the worst first; 0 is all, as they come
	Wrong  bool   // only answers that are wrong or have no valid reward
	Search string // only answers whose question, truth or text has this text, in upper or lower case
}

// Page is what is shown of one train step.
type Page struct {
	Trace    string  // the directory of the traces
	Step     int64   // 0: the trace has no train step
	Steps    []int64 // that the trace has
	Groups   []Group
	Failures []trace.Failure // of the explorer steps that the answers are from; without answers, of the newest one with failures

	Damaged error // what could not be read of the failures

	texts map[int32]string
}

// Group is the answers to one task, by their run and turn.
type Group struct {
	Task        string
	ExploreStep int64
	Answers     []*Answer
}

// Answer is an experience and what the optimizer steps of the train step did to it.
type Answer struct{ *trace.Answer }

// Read reads a train step from the directory of a run or of a stage. Of several stages it takes the
// one that has trained last. If none has, the page has the newest failures alone.
func Read(dir string, o Options) (*Page, error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	path, err := find(run, dir)
	if errors.As(err, new(noStep)) && o.Step == 0 {
		return readFailures(run, o.Task, err)
	}
	if err != nil {
		return nil, err
	}
	return readStep(path, o)
}

// readStep reads a train step from a directory of traces.
func readStep(path string, o Options) (*Page, error) {
	p := &Page{Trace: path}
	var err error
	if p.Steps, err = trace.Steps(p.Trace); err != nil {
		return nil, err
	}
	if p.Step = o.Step; p.Step == 0 {
		p.Step = p.Steps[len(p.Steps)-1]
	}
	if !slices.Contains(p.Steps, p.Step) {
		return nil, fmt.Errorf("%s has no train step %d: it has %s", p.Trace, p.Step, listed(p.Steps))
	}
	rows, err := trace.ReadStep(p.Trace, p.Step)
	if err != nil {
		return nil, err
	}
	p.Groups = grouped(rows)
	if p.texts, err = trace.ReadTexts(p.Trace); err != nil {
		return nil, err
	}
	var failures []trace.Failure
	failures, p.Damaged = trace.ReadFailures(p.Trace)
	if len(p.Groups) == 0 { // trinity debug keeps a group that failed whole as a train step without answers
		p.Failures = newestOf(failures, o.Task)
		return p, nil
	}
	if err := p.choose(o); err != nil {
		return nil, err
	}
	for _, f := range failures {
		if slices.ContainsFunc(p.Groups, func(g Group) bool { return g.ExploreStep == f.Step }) && (o.Task == "" || f.Task == o.Task) {
			p.Failures = append(p.Failures, f)
		}
	}
	return p, nil
}

// find returns the directory of traces of the newest stage that keeps a train step; dir is that of the run.
func find(run *rundir.Run, dir string) (string, error) {
	for _, path := range run.Traces {
		steps, err := trace.Steps(path)
		if len(steps) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	return "", noStep{fmt.Errorf("no train step is kept below %s: give the directory of a run that has trained with "+
		"monitor.trace.tokens sample or all", dir)}
}

// grouped returns the rows of a train step by task.
func grouped(rows []trace.Row) (groups []Group) {
	for _, a := range trace.Answers(rows) {
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Task == a.Task && g.ExploreStep == a.ExploreStep })
		if i < 0 {
			i = len(groups)
			groups = append(groups, Group{Task: a.Task, ExploreStep: a.ExploreStep})
		}
		groups[i].Answers = append(groups[i].Answers, &Answer{a})
	}
	for _, g := range groups {
		slices.SortStableFunc(g.Answers, func(a, b *Answer) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Turn, b.Turn)) })
	}
	return groups
}

// noTask is the error of a train step that lacks the task that is asked for.
type noTask struct{ error }

// choose leaves what the options ask for.
func (p *Page) choose(o Options) error {
	if o.Task != "" {
		var tasks []string
		for _, g := range p.Groups {
			tasks = append(tasks, safetext.Printable(g.Task))
		}
		p.Groups = slices.DeleteFunc(p.Groups, func(g Group) bool { return g.Task != o.Task })
		if len(p.Groups) == 0 {
			return noTask{fmt.Errorf("the trace of train step %d has no task %s: it has %s", p.Step, o.Task, listed(tasks))}
		}
	}
	p.Groups = o.ofGroups(p.Groups)
	if o.Worst <= 0 {
		return nil
	}
	var all []*Answer
	for _, g := range p.Groups {
		all = append(all, g.Answers...)
	}
	slices.SortStableFunc(all, func(a, b *Answer) int { return cmp.Compare(rewarded(a.Reward), rewarded(b.Reward)) })
	worst := all[:min(o.Worst, len(all))]
	for i := range p.Groups {
		g := &p.Groups[i]
		g.Answers = slices.DeleteFunc(g.Answers, func(a *Answer) bool { return !slices.Contains(worst, a) })
	}
	p.Groups = slices.DeleteFunc(p.Groups, func(g Group) bool { return len(g.Answers) == 0 })
	return nil
}

// ofGroups returns what the options want of the groups.
func (o *Options) ofGroups(groups []Group) []Group {
	if o.Groups > 0 {
		slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(a.mean(), b.mean()) })
		groups = groups[:min(o.Groups, len(groups))]
	}
	for i := range groups {
		groups[i].Answers = slices.DeleteFunc(groups[i].Answers, func(a *Answer) bool {
			text := strings.ToLower(a.Prompt + "\n" + a.Truth + "\n" + a.Response)
			return o.Wrong && !a.verdict().IsWrong() || !strings.Contains(text, strings.ToLower(o.Search))
		})
	}
	return slices.DeleteFunc(groups, func(g Group) bool { return len(g.Answers) == 0 })
}

// mean returns the mean of the rewards of a group; an answer without a valid one counts as 0.
func (g *Group) mean() (sum float64) {
	for _, a := range g.Answers {
		if a.Reward != nil {
			sum += *a.Reward / float64(len(g.Answers))
		}
	}
	return sum
}

func (a *Answer) verdict() trace.Verdict { return trace.VerdictOf(a.Reward, a.Parts, a.Reason) }

// rewarded returns the reward by which answers are sorted; those without one come first.
func rewarded(reward *float64) float64 {
	if reward == nil {
		return -1e308
	}
	return *reward
}

// listed writes a long list in short.
func listed[T any](all []T) string {
	if len(all) > 20 {
		return fmt.Sprintf("%d, from %v to %v", len(all), all[0], all[len(all)-1])
	}
	return strings.Trim(fmt.Sprint(all), "[]")
}
