package run

import (
	"fmt"

	"github.com/trinity-go/trinity/config"
)

// choices are the settings that may keep staleness within the bound. With fixed a rollout is trained on interval + offset train steps after its weights at
// most, where an explore step feeds a train step; otherwise staleness_control bounds it.
func (p *Planner) choices(cfg *config.Config, stage, explorers int) ([]Choice, error) {
	numbers := p.Explorers
	if len(numbers) == 0 {
		numbers = []int{explorers}
	}
	var all []Choice
	for _, n := range numbers {
		divide, err := p.divided(cfg, stage, explorers, n)
		if err != nil {
			return nil, err
		}
		for _, c := range p.ways(cfg, stage) {
			c.Explorers, c.Set = n, append(c.Set, divide...)
			all = append(all, c)
		}
	}
	return all, nil
}

// divided are the settings with which n explorers share the tasks of a step, of which each of some number has batch_size.
func (p *Planner) divided(whole *config.Config, stage, explorers, n int) ([]string, error) {
	cfg := stageOf(whole, stage)
	if n == explorers && (n == 1 || !cfg.Batch.CountsRollouts) {
		return nil, nil
	}
	tasks := cfg.Buffer.BatchSize * explorers
	if n < 1 || tasks%n != 0 {
		return nil, fmt.Errorf("--explorers: %d cannot share the %d tasks of a step", n, tasks)
	}
	section := "buffer."
	if stage >= 0 && whole.Stages[stage].Buffer != nil {
		section = fmt.Sprintf("stages.%d.buffer.", stage)
	}
	set := []string{fmt.Sprint(section, "batch_size=", tasks/n)}
	if cfg.Batch.CountsRollouts { // which is what one explorer gives
		set = append(set, fmt.Sprint(section, "train_batch_size=", cfg.Batch.StepRollouts*explorers))
	}
	return set, nil
}

// ways are the settings of the synchronizer to try.
func (p *Planner) ways(cfg *config.Config, stage int) []Choice {
	var all []Choice
	for _, interval := range doubling(1, p.MaxStaleness) {
		for _, offset := range doubling(0, p.MaxStaleness-interval) {
			all = append(all, p.choice(cfg, "fixed", interval, offset))
		}
	}
	if p.mixes(cfg, stage) {
		return all
	}
	algorithm := "algorithm"
	if stage >= 0 && cfg.Stages[stage].Algorithm != nil {
		algorithm = fmt.Sprintf("stages.%d.algorithm", stage)
	}
	for _, style := range []string{"explorer_driven", "trainer_driven", "fully_async"} {
		for _, interval := range doubling(1, p.MaxStaleness) {
			c := p.choice(cfg, style, interval, 0)
			c.Set = append(c.Set, algorithm+".sample_strategy=staleness_control", fmt.Sprintf("%s.sample_strategy_args={max_staleness: %d}", algorithm, p.MaxStaleness))
			all = append(all, c)
		}
	}
	return all
}

// mixes reports whether the stage has a sample strategy that staleness_control cannot replace.
func (p *Planner) mixes(cfg *config.Config, stage int) bool {
	return len(stageOf(cfg, stage).Method.Sample.Auxiliary) > 0
}

func (p *Planner) choice(cfg *config.Config, style string, interval, offset int) Choice {
	const section = "synchronizer."
	c := Choice{Style: style, Interval: interval, Offset: offset}
	c.Set = []string{section + "sync_style=" + style, fmt.Sprint(section, "sync_interval=", interval), fmt.Sprint(section, "sync_offset=", offset)}
	for _, key := range []string{section + "explorer_sync_interval", section + "trainer_sync_interval"} {
		if cfg.IsSet(key) { // it would stand above sync_interval
			c.Set = append(c.Set, fmt.Sprint(key, "=", interval))
		}
	}
	return c
}

// doubling is from, and 1, 2, 4, … beyond it, up to last.
func doubling(from, last int) []int {
	var all []int
	for n := from; n <= last; n = max(1, 2*n) {
		all = append(all, n)
	}
	return all
}
