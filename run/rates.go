package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/internal/simulation"
)

// times are what the metrics of an earlier run say that speaks of its speed, by name.
type times struct {
	path      string // of the trainer's, or those of all
	explorers int    // whose metrics there are; 1 if there are none
	of        map[string][]float64
}

// readTimes reads the metrics of an earlier run. Several explorers have theirs in folders of their names.
func (p *Planner) readTimes(whole *config.Config, i int) (_ *times, err error) {
	cfg := stageOf(whole, i)
	dir := filepath.Join(cfg.CheckpointJobDir, "monitor")
	t := &times{path: filepath.Join(dir, "metrics.jsonl")}
	if t.of, err = readTimes(t.path); err != nil {
		return nil, err
	}
	others, err := filepath.Glob(filepath.Join(dir, "*", "metrics.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(t.of[exploreTime]) > 0 {
		t.explorers = 1
	}
	for _, path := range others {
		more, err := readTimes(path)
		if err != nil {
			return nil, err
		}
		if steps := more[exploreTime]; len(steps) > 0 {
			t.of[exploreTime] = append(t.of[exploreTime], steps...)
			t.explorers++
		}
	}
	t.explorers = max(1, t.explorers)
	return t, nil
}

const exploreTime = "time/explore_step"

// rates fills in plan.Rates: as given, else as an earlier run of the configuration was, else, for lengths, that all responses are as long as they may be.
func (p *Planner) rates(whole *config.Config, i int, current simulation.Setting, measured *times, plan *Planned) (err error) {
	cfg := stageOf(whole, i)
	m, given := measured.of, &p.Rates
	slowdown := 1.0
	if cfg.Together && measured.explorers == 1 { // all cores are shared, so two that work get half of them each
		slowdown = 2
	}
	limit := float64(value(0, cfg.Model.MaxResponseTokens))
	rates := simulation.Rates{
		Explore: mean(m[exploreTime]), Train: mean(m["time/train_step"]), Sync: least(m["time/sync_weight"]),
		Prompt: mean(m["prompt_length/mean"]), Slowdown: cmp.Or(given.Slowdown, slowdown),
	}
	rates.Lengths = simulation.Lengths{Mean: cmp.Or(given.Lengths.Mean, mean(m["response_length/mean"]), limit, 1), Spread: given.Lengths.Spread, Max: limit}
	if longest := m["response_length/max"]; rates.Lengths.Spread == 0 && len(longest) > 0 {
		rates.Lengths.Spread = simulation.Spread(mean(m["response_length/mean"]), mean(longest), current.Batch)
	}
	if rates.Explore > 0 && rates.Train > 0 {
		plan.Measured = true
		if rates, err = simulation.Alone(current, rates); err != nil {
			return err
		}
	}
	rates.Explore, rates.Train = cmp.Or(given.Explore, rates.Explore), cmp.Or(given.Train, rates.Train)
	rates.Sync, rates.Prompt = cmp.Or(given.Sync, rates.Sync), cmp.Or(given.Prompt, rates.Prompt)
	if rates.Explore == 0 || rates.Train == 0 {
		return fmt.Errorf("how fast explorer and trainer are is not known: %s has no steps of both; run the configuration for some steps first (buffer.total_steps=10), or give --rollout-seconds and --train-seconds", plan.Metrics)
	}
	plan.Rates = rates
	return rates.Validate()
}

// readTimes collects, by name, what the records of a run say that speak of its speed. Without a file there is nothing. A record of each role, the first, is
// left out where there are more: it has what is done once.
func readTimes(path string) (map[string][]float64, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string][]float64{}, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]float64{}
	n := 0
	for line := range bytes.Lines(data) {
		if n++; !bytes.HasSuffix(line, []byte("\n")) {
			break // a run writes it, or was killed
		}
		var r struct {
			Metrics map[string]any `json:"metrics"` // numbers, and the texts NaN and Infinity
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s:%d: not a record of the jsonl monitor: %w", path, n, err)
		}
		for _, name := range []string{exploreTime, "time/train_step", "time/sync_weight", "response_length/mean", "response_length/max", "prompt_length/mean"} {
			if v, ok := r.Metrics[name].(float64); ok {
				all[name] = append(all[name], v)
			}
		}
	}
	for name, v := range all {
		if len(v) > 1 {
			all[name] = v[1:]
		}
	}
	return all, nil
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

// least is what publishing takes: the rest of what is measured is waiting for the explorer.
func least(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return slices.Min(v)
}
