package run

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/internal/simulation"
	"github.com/trinity-go/trinity/weights"
)

// Planner tries ways in which explorer and trainer of a configuration may work together.
type Planner struct {
	Load         func(overrides ...string) (*config.Config, error) // the configuration with key=value settings
	Rates        simulation.Rates                                  // as given; what is 0 is taken from the metrics of the run, if there was one
	MaxStaleness int                                               // train steps, 1 is on-policy
	Steps        int                                               // explore steps that are simulated
	Explorers    []int                                             // numbers of explorers to try, which share the tasks of a step; none is as many as there were
}

// Choice is a way to work together and what comes of it.
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
	Rates       simulation.Rates `json:"rates"`    // of each side alone
	Measured    bool             `json:"measured"` // of an earlier run, in part at least
	Metrics     string           `json:"metrics"`  // file that rates were looked for in
	Current     Choice           `json:"current"`
	Choices     []Choice         `json:"choices"` // within the bound on staleness, the best first
	Recommended Choice           `json:"recommended"`
}

// Plan simulates the configuration as it is and with other settings of the synchronizer.
func (p *Planner) Plan() (*Planned, error) {
	cfg, err := p.Load()
	if err != nil {
		return nil, err
	}
	stage, err := coupled(cfg)
	if err != nil {
		return nil, err
	}
	measured, err := p.readTimes(cfg, stage)
	if err != nil {
		return nil, err
	}
	current, err := p.settingOf(cfg, stage, measured.explorers)
	if err != nil {
		return nil, err
	}
	plan := &Planned{
		Metrics: measured.path,
		Current: Choice{Style: current.Pace.Style, Interval: int(current.Pace.Interval), Offset: int(current.Pace.Offset), Explorers: measured.explorers},
	}
	if stage >= 0 {
		plan.Stage = cfg.Stages[stage].StageName
	}
	if err := p.rates(cfg, stage, current, measured, plan); err != nil {
		return nil, err
	}
	if plan.Current.Report, err = simulation.Run(current, plan.Rates); err != nil {
		return nil, err
	}
	var refused error // why the first one is no choice
	choices, err := p.choices(cfg, stage, measured.explorers)
	if err != nil {
		return nil, err
	}
	for _, c := range choices {
		if c.Report, err = p.try(c, stage, plan.Rates); err != nil {
			refused = cmp.Or(refused, fmt.Errorf("with %s: %w", strings.Join(c.Set, " "), err))
		} else if c.Report.Staleness.Max <= int64(p.MaxStaleness) && c.Report.Dropped == 0 {
			plan.Choices = append(plan.Choices, c)
		}
	}
	if len(plan.Choices) == 0 {
		return nil, cmp.Or(refused, fmt.Errorf("no setting keeps staleness at %d train steps: raise --max-staleness", p.MaxStaleness))
	}
	byMerit(plan.Choices)
	plan.Recommended = plan.Choices[0]
	return plan, nil
}

// alike is the difference in rollouts per hour that decides nothing: rates are not known better.
const alike = 0.02

// byMerit orders choices: first those about as fast as the fastest, fresher rollouts first, by tenths of a step, and then as they were tried; then the others,
// faster ones first.
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

// try simulates a choice. Explorers of other processes have cores of their own.
func (p *Planner) try(c Choice, stage int, rates simulation.Rates) (*simulation.Report, error) {
	cfg, err := p.Load(c.Set...)
	if err != nil {
		return nil, err
	}
	setting, err := p.settingOf(cfg, stage, c.Explorers)
	if err != nil {
		return nil, err
	}
	if c.Explorers > 1 {
		rates.Slowdown = cmp.Or(p.Rates.Slowdown, 1)
	}
	return simulation.Run(setting, rates)
}

// coupled finds the last stage in which an explorer and a trainer work together; −1 is a configuration without stages.
func coupled(cfg *config.Config) (int, error) {
	for i := len(cfg.Stages) - 1; i >= -1; i-- {
		if i == -1 && len(cfg.Stages) > 0 {
			break
		}
		stage := stageOf(cfg, i)
		if _, err := buildAlgorithm(stage); err != nil {
			return 0, err
		}
		if stage.Explores || stage.Trains && !stage.Offline {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s: there is nothing to plan: no explorer works with a trainer (mode both, or explore and train)", cfg.File())
}

// stageOf returns a stage; −1 is a configuration without stages.
func stageOf(cfg *config.Config, i int) *config.Settled { return cfg.Settled()[max(i, 0)] }

// settingOf is how explorers and trainer of a configuration work together. A step is that of all explorers.
func (p *Planner) settingOf(whole *config.Config, i, explorers int) (simulation.Setting, error) {
	cfg := stageOf(whole, i)
	s := &Settled{Settled: cfg}
	pace, strategy := s.pace(), cfg.Method.Strategy
	if len(cfg.Data.Auxiliary) > 0 {
		strategy = nil // of what it mixes, the rollouts are read in order
	}
	setting := simulation.Setting{
		Pace: pace, Handover: handovers[pace.Style], PublishInterval: s.publishInterval(), Strategy: strategy,
		Batch: cfg.Batch.Rollouts * cfg.Batch.PerRow, InFlight: cfg.Explorer.RunnerPerModel * cfg.Explorer.RolloutModel.EngineNum * max(1, cfg.Method.GroupSize),
		Explorers: explorers, UnderWay: cfg.Batch.UnderWay, Steps: int64(p.Steps),
	}
	setting.Pace.PerStep *= int64(explorers)
	if cfg.Batch.CountsRollouts { // which is what one explorer gives
		setting.Batch *= explorers
		setting.Pace.PerBatch *= int64(explorers)
	}
	setting.Capacity = s.capacity(pace, setting.Steps, cfg.Buffer.BatchSize*max(1, s.Method.GroupSize))
	if !cfg.Together || explorers > 1 {
		apart(&setting)
	}
	return setting, nil
}

// apart makes the setting one of two processes: a file holds any number of rollouts, and the trainer waits for no explorer.
func apart(s *simulation.Setting) {
	s.Capacity = math.MaxInt
	if s.Handover == weights.AtRendezvous {
		s.Handover = weights.WhenAsked
	}
}
