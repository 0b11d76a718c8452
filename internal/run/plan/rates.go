package plan

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/simulation"
)

// exploreTime is the metric of the seconds of an explore step.
const exploreTime = "time/explore_step"

// speed are the metrics that tell the speed of a run.
var speed = []string{
	exploreTime, "time/train_step", "time/sync_weight", "response_length/mean", "response_length/max", "prompt_length/mean",
}

// times are the metrics of an earlier run that tell its speed.
type times struct {
	path      string // of the trainer's metrics, or of all
	explorers int    // that wrote metrics, at least 1
	of        map[string][]float64
}

// readTimes reads the metrics of an earlier run of a stage from its directory. It leaves out the first value of a
// metric that a file has several of: the first step also does what a run does only once.
func readTimes(jobDir string) (*times, error) {
	t := &times{path: filepath.Join(jobDir, rundir.Monitor, rundir.MetricsFile), of: map[string][]float64{}}
	names := speed
	for _, dir := range rundir.Monitors(jobDir) {
		table, err := rundir.ReadTable(dir, func(name string) bool { return slices.Contains(names, name) })
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			isNoNumber := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
			values := slices.DeleteFunc(slices.Clone(table.Column(name).Values), isNoNumber)
			if name == exploreTime && len(values) > 0 {
				t.explorers++
			}
			if len(values) > 1 {
				values = values[1:]
			}
			t.of[name] = append(t.of[name], values...)
		}
		names = []string{exploreTime} // each of several explorers has a folder of its own
	}
	t.explorers = max(1, t.explorers)
	return t, nil
}

// rates returns the rates that the user gave. It takes the others from the metrics of an earlier
// run. Without metrics, all responses are as long as they may be. measured reports whether the
// times come from metrics.
func (p *Planner) rates(cfg *config.Settled, current simulation.Setting, t *times) (rates simulation.Rates, measured bool, err error) {
	m, given := t.of, &p.Rates
	slowdown := 1.0
	if cfg.Together && t.explorers == 1 { // explorer and trainer share all cores: while both work, each has half of them
		slowdown = 2
	}
	limit := 0.0
	if n := cfg.Model.MaxResponseTokens; n != nil {
		limit = float64(*n)
	}
	rates = simulation.Rates{
		Explore: mean(m[exploreTime]), Train: mean(m["time/train_step"]), Sync: least(m["time/sync_weight"]),
		Prompt: mean(m["prompt_length/mean"]), Slowdown: cmp.Or(given.Slowdown, slowdown),
	}
	length := mean(m["response_length/mean"])
	rates.Lengths = simulation.Lengths{Mean: cmp.Or(given.Lengths.Mean, length, limit, 1), Spread: given.Lengths.Spread, Max: limit}
	if longest := m["response_length/max"]; rates.Lengths.Spread == 0 && len(longest) > 0 {
		rates.Lengths.Spread = simulation.Spread(length, mean(longest), current.Batch)
	}
	if rates.Explore > 0 && rates.Train > 0 {
		measured = true
		if rates, err = simulation.Alone(current, rates); err != nil {
			return rates, measured, err
		}
	}
	rates.Explore, rates.Train = cmp.Or(given.Explore, rates.Explore), cmp.Or(given.Train, rates.Train)
	rates.Sync, rates.Prompt = cmp.Or(given.Sync, rates.Sync), cmp.Or(given.Prompt, rates.Prompt)
	if rates.Explore == 0 || rates.Train == 0 {
		return rates, measured, fmt.Errorf("how fast explorer and trainer are is not known: %s has no steps of both; run the "+
			"configuration for some steps first (buffer.total_steps=10), or give --rollout-seconds and --train-seconds", t.path)
	}
	return rates, measured, rates.Validate()
}

func mean(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// least returns the seconds that publishing takes: the rest of a measured time is a wait for the
// explorer.
func least(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return slices.Min(v)
}
