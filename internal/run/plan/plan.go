// Package plan finds the settings with which explorer and trainer wait least for each other, by
// simulation.
package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/simulation"
	"github.com/trinity-go/trinity/weights"
)

// Planner tries ways in which explorer and trainer of a configuration may work together.
type Planner struct {
	// Load reads the configuration with key=value settings on top.
	Load func(overrides ...string) (*config.Config, error)
	// Rates are the speeds that the user gave. The metrics of an earlier run give those that are 0.
	Rates        simulation.Rates
	MaxStaleness int    // train steps; 1 is on-policy
	Steps        int    // explore steps to simulate
	JobDir       string // of the earlier run; "" is the configuration's own
	MaxRollouts  int    // of a simulation, which then has fewer steps; 0 is any number
	Explorers    []int  // numbers of explorers to try, which share the tasks of a step; empty means as many as in the run
}

// Choice is a way to work together, and what comes of it.
type Choice struct {
	Style     string             `json:"sync_style"`
	Interval  int                `json:"sync_interval"`
	Offset    int                `json:"sync_offset"`
	Explorers int                `json:"explorers"`
	Set       []string           `json:"set"` // key=value, on top of the configuration
	Report    *simulation.Report `json:"report"`
}

// Planned is what a planner found.
type Planned struct {
	Stage       string           `json:"stage,omitempty"`
	Rates       simulation.Rates `json:"rates"`    // of explorer and trainer, each working alone
	Measured    bool             `json:"measured"` // an earlier run gave some of the rates
	Metrics     string           `json:"metrics"`  // file that may have rates
	Current     Choice           `json:"current"`
	Choices     []Choice         `json:"choices"` // within the bound on staleness, the best first
	Recommended Choice           `json:"recommended"`
	Advice      *Advice          `json:"advice"`
}

// Plan simulates the configuration as it is, and with other settings of the synchronizer.
func (p *Planner) Plan() (*Planned, error) {
	cfg, err := p.Load()
	if err != nil {
		return nil, err
	}
	stage, err := subjectOf(cfg)
	if err != nil {
		return nil, err
	}
	times, err := readTimes(cmp.Or(p.JobDir, stage.CheckpointJobDir))
	if err != nil {
		return nil, err
	}
	current, err := p.setting(stage.Settled, times.explorers)
	if err != nil {
		return nil, err
	}
	plan := &Planned{Stage: stage.name(), Metrics: times.path, Current: Choice{
		Style: current.Pace.Style, Interval: int(current.Pace.Interval), Offset: int(current.Pace.Offset), Explorers: times.explorers,
	}}
	if plan.Rates, plan.Measured, err = p.rates(stage.Settled, current, times); err != nil {
		return nil, err
	}
	if plan.Current.Report, err = simulation.Run(current, plan.Rates); err != nil {
		return nil, err
	}
	choices, err := p.choices(stage, times.explorers)
	if err != nil {
		return nil, err
	}
	if plan.Choices, err = p.fresh(choices, plan.Rates); err != nil {
		return nil, err
	}
	byMerit(plan.Choices)
	plan.Recommended = plan.Choices[0]
	plan.advise(int(current.Pace.PerStep), current.InFlight)
	return plan, nil
}

// fresh simulates choices and returns those within the bound on staleness.
func (p *Planner) fresh(choices []Choice, rates simulation.Rates) (fresh []Choice, err error) {
	var refused error // why the first choice cannot run
	for _, c := range choices {
		if c.Report, err = p.try(c, rates); err != nil {
			refused = cmp.Or(refused, fmt.Errorf("with %s: %w", strings.Join(c.Set, " "), err))
		} else if c.Report.Staleness.Max <= int64(p.MaxStaleness) && c.Report.Dropped == 0 {
			fresh = append(fresh, c)
		}
	}
	if len(fresh) == 0 {
		return nil, cmp.Or(refused, fmt.Errorf("no setting keeps staleness at %d train steps: raise --max-staleness", p.MaxStaleness))
	}
	return fresh, nil
}

// alike is a difference in rollouts per hour that decides nothing: nobody knows the rates better.
const alike = 0.02

// byMerit orders choices. Those that are about as fast as the fastest come first, the freshest of
// them first by tenths of a step. The others follow, the fastest first.
func byMerit(choices []Choice) {
	fastest := 0.0
	for _, c := range choices {
		fastest = max(fastest, c.Report.RolloutsPerHour)
	}
	slices.SortStableFunc(choices, func(a, b Choice) int {
		x, y := a.Report.RolloutsPerHour, b.Report.RolloutsPerHour
		fast, other := x >= (1-alike)*fastest, y >= (1-alike)*fastest
		switch {
		case fast && other:
			return cmp.Compare(math.Round(10*a.Report.Staleness.Mean), math.Round(10*b.Report.Staleness.Mean))
		case fast:
			return -1
		case other:
			return 1
		}
		return cmp.Compare(y, x)
	})
}

// try simulates a choice. Several explorers are processes with cores of their own.
func (p *Planner) try(c Choice, rates simulation.Rates) (*simulation.Report, error) {
	cfg, err := p.Load(c.Set...)
	if err != nil {
		return nil, err
	}
	stage, err := subjectOf(cfg)
	if err != nil {
		return nil, err
	}
	setting, err := p.setting(stage.Settled, c.Explorers)
	if err != nil {
		return nil, err
	}
	if c.Explorers > 1 {
		rates.Slowdown = cmp.Or(p.Rates.Slowdown, 1)
	}
	return simulation.Run(setting, rates)
}

// setting returns how so many explorers and the trainer of a stage work together. A step of the
// setting is a step of all explorers.
func (p *Planner) setting(cfg *config.Settled, explorers int) (simulation.Setting, error) {
	stage, err := settle.Resolve(cfg)
	if err != nil {
		return simulation.Setting{}, err
	}
	setting := settingOf(stage.Settled, int64(p.Steps))
	if most := int64(p.MaxRollouts) / max(1, setting.Pace.PerStep); p.MaxRollouts > 0 && most < setting.Steps {
		if most < leastSteps {
			return setting, fmt.Errorf("a step has %d rollouts, too many to simulate here: use trinity plan", setting.Pace.PerStep)
		}
		setting = settingOf(stage.Settled, most)
	}
	setting.Explorers = explorers
	setting.Pace.PerStep *= int64(explorers)
	if stage.Batch.CountsRollouts { // of one explorer
		setting.Batch *= explorers
		setting.Pace.PerBatch *= int64(explorers)
	}
	if !stage.Together || explorers > 1 {
		apart(&setting)
	}
	return setting, nil
}

// leastSteps is how many explore steps tell something.
const leastSteps = 10

// apart makes a setting one of several processes. A buffer between processes holds any number of
// rollouts, and the trainer waits for no explorer.
func apart(s *simulation.Setting) {
	s.Capacity = math.MaxInt
	if s.Handover == weights.AtRendezvous {
		s.Handover = weights.WhenAsked
	}
}

// settingOf describes the stage with one explorer, for a simulation of so many explore steps.
func settingOf(s *config.Settled, steps int64) simulation.Setting {
	pace, group, strategy := feed.Pace(s), max(1, s.Method.GroupSize), s.Method.Strategy
	if len(s.Data.Auxiliary) > 0 {
		strategy = nil // a strategy that mixes sources reads the rollouts in order
	}
	return simulation.Setting{
		Pace: pace, Handover: feed.Handover(s), PublishInterval: feed.PublishInterval(s), Strategy: strategy,
		Batch: s.Batch.Rollouts * s.Batch.PerRow, InFlight: s.Explorer.RunnerPerModel * s.Explorer.RolloutModel.EngineNum * group,
		Explorers: 1, StepsInFlight: s.Batch.StepsInFlight, Steps: steps, Capacity: feed.Capacity(s, pace, steps, s.Buffer.BatchSize*group),
	}
}
