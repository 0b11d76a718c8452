package plan

import (
	"fmt"

	"github.com/trinity-go/trinity/internal/config"
)

// subject is the stage that a plan is for.
type subject struct {
	*config.Settled
	whole *config.Config // the file
	index int            // of the stage; −1 if the file has none
}

// subjectOf returns the last stage in which an explorer and a trainer work together.
func subjectOf(cfg *config.Config) (subject, error) {
	settled := cfg.Settled()
	for i := len(settled) - 1; i >= 0; i-- {
		if s := settled[i]; s.Explores || s.Trains && !s.Offline {
			return subject{Settled: s, whole: cfg, index: min(i, len(cfg.Stages)-1)}, nil
		}
	}
	return subject{}, fmt.Errorf("%s: there is nothing to plan: no explorer works with a trainer (mode both, or explore and train)", cfg.File())
}

// name returns the name of the stage, or "".
func (s subject) name() string {
	if s.index < 0 {
		return ""
	}
	return s.whole.Stages[s.index].StageName
}

// section returns the dotted key of a section: the stage's, if the stage has one.
func (s subject) section(name string, own func(*config.Stage) bool) string {
	if s.index >= 0 && own(&s.whole.Stages[s.index]) {
		return fmt.Sprintf("stages.%d.%s", s.index, name)
	}
	return name
}

// choices returns the settings that may keep staleness within the bound, for each number of
// explorers. With sync_style fixed, a rollout is trained on at most interval + offset train steps
// after its weights, if an explore step feeds a train step. In the other styles the sample strategy
// staleness_control keeps the bound.
func (p *Planner) choices(s subject, explorers int) ([]Choice, error) {
	numbers := p.Explorers
	if len(numbers) == 0 {
		numbers = []int{explorers}
	}
	var all []Choice
	for _, n := range numbers {
		divide, err := s.divided(explorers, n)
		if err != nil {
			return nil, err
		}
		for _, c := range p.ways(s) {
			c.Explorers, c.Set = n, append(c.Set, divide...)
			all = append(all, c)
		}
	}
	return all, nil
}

// divided returns the settings with which n explorers share the tasks of a step, in place of the
// explorers that the run has now.
func (s subject) divided(explorers, n int) ([]string, error) {
	if n == explorers && (n == 1 || !s.Batch.CountsRollouts) {
		return nil, nil
	}
	tasks := s.Buffer.BatchSize * explorers
	if n < 1 || tasks%n != 0 {
		return nil, fmt.Errorf("--explorers: %d cannot share the %d tasks of a step", n, tasks)
	}
	section := s.section("buffer", func(stage *config.Stage) bool { return stage.Buffer != nil })
	set := []string{fmt.Sprint(section, ".batch_size=", tasks/n)}
	if s.Batch.CountsRollouts { // of one explorer
		set = append(set, fmt.Sprint(section, ".train_batch_size=", s.Batch.StepRollouts*explorers))
	}
	return set, nil
}

// ways returns the settings of the synchronizer to try.
func (p *Planner) ways(s subject) []Choice {
	var all []Choice
	for _, interval := range doubling(1, p.MaxStaleness) {
		for _, offset := range doubling(0, p.MaxStaleness-interval) {
			all = append(all, s.choice("fixed", interval, offset))
		}
	}
	if s.mixes() { // staleness_control cannot replace a strategy that mixes
		return all
	}
	section := s.section("algorithm", func(stage *config.Stage) bool { return stage.Algorithm != nil })
	for _, style := range []string{"explorer_driven", "trainer_driven", "fully_async"} {
		for _, interval := range doubling(1, p.MaxStaleness) {
			c := s.choice(style, interval, 0)
			c.Set = append(c.Set, section+".sample_strategy=staleness_control",
				fmt.Sprintf("%s.sample_strategy_args={max_staleness: %d}", section, p.MaxStaleness))
			all = append(all, c)
		}
	}
	return all
}

// mixes reports whether the sample strategy of the stage reads auxiliary buffers.
func (s subject) mixes() bool { return len(s.Method.Sample.Auxiliary) > 0 }

// choice returns a way to work together, with its settings.
func (s subject) choice(style string, interval, offset int) Choice {
	const section = "synchronizer."
	c := Choice{Style: style, Interval: interval, Offset: offset}
	c.Set = []string{section + "sync_style=" + style, fmt.Sprint(section, "sync_interval=", interval), fmt.Sprint(section, "sync_offset=", offset)}
	for _, key := range []string{section + "explorer_sync_interval", section + "trainer_sync_interval"} {
		if s.whole.IsSet(key) { // it would win over sync_interval
			c.Set = append(c.Set, fmt.Sprint(key, "=", interval))
		}
	}
	return c
}

// doubling returns from, and then 1, 2, 4, … up to last.
func doubling(from, last int) []int {
	var all []int
	for n := from; n <= last; n = max(1, 2*n) {
		all = append(all, n)
	}
	return all
}
