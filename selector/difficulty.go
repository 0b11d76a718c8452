package selector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

func init() {
	Selectors.Register("difficulty_based",
		"Takes the rows whose estimated pass rate is nearest to target_reward (BOTS). Two feature_keys name "+
			"reference pass rates in [0, 1]: first of a weak model, then of a strong one. The "+
			"selector learns from the mean rewards of the rows in each step, which must be in [0, 1].",
		func() Selector {
			return &difficulty{options: options{Seed: 42}, M: 16, Lamb: 0.2, Rho: 0.2, TargetReward: 1, Tau: 1}
		})
}

// difficulty takes the rows whose estimated pass rate is nearest to target_reward (Shen et al.
// 2025, BOTS). The score of a row is −|target_reward − p|, where p is the mean α/(α+β) of its
// estimate, or with do_sample a draw from Beta(α, β). With tau 0 the n highest scores win, and the
// first rows among equal ones. Otherwise n rows are drawn without replacement by
// softmax(score/tau). The draws come from PCG seeded with (seed + rows drawn before, 2). A batch
// larger than the dataset holds every row as often as it fits.
//
// The state grows with the dataset, 22 bytes per row, and is part of every delivery.
type difficulty struct {
	options `yaml:",inline"`

	M            float64 `yaml:"m" range:"(0,2147483647]" doc:"weight of an observed pass rate, as a number of rollouts"`
	Lamb         float64 `yaml:"lamb" range:"[0,1]" doc:"share of the past evidence that a step forgets"`
	Rho          float64 `yaml:"rho" range:"[0,1]" doc:"weight of evidence inferred from other rows; observed evidence has 1 − rho"`
	AdaptiveRho  bool    `yaml:"adaptive_rho" doc:"halve rho after a step with a mean error of inferred pass rates ≥ 0.25"`
	TargetReward float64 `yaml:"target_reward" range:"[0,1]" doc:"pass rate to look for; rows at 0.5 teach most"`
	Tau          float64 `yaml:"tau" range:"[0,1e38]" doc:"temperature of the draw; 0 takes the best rows"`
	DoSample     bool    `yaml:"do_sample" doc:"draw pass rates from their estimated distributions, instead of taking the means"`

	progress
	passRates
}

// Start implements [Selector]. It reads every row once.
func (s *difficulty) Start(d Dataset) error {
	if len(s.FeatureKeys) != 2 {
		return fmt.Errorf("selector difficulty_based: data_selector.feature_keys has %d keys: want two, for the pass rates of "+
			"a weak and a strong model",
			len(s.FeatureKeys))
	}
	if err := s.start(d); err != nil {
		return err
	}
	features := make([][2]float64, d.Len())
	for i := range features {
		row, err := d.Row(i)
		if err != nil {
			return err
		}
		f, err := readFeatures(row, s.FeatureKeys)
		if err == nil && (min(f[0], f[1]) < 0 || max(f[0], f[1]) > 1) {
			err = fmt.Errorf("%v are %v, want pass rates in [0, 1]", s.FeatureKeys, f)
		}
		if err != nil {
			return fmt.Errorf("selector difficulty_based: row %d: %w", i, err)
		}
		features[i] = [2]float64(f)
	}
	s.passRates = newPassRates(features, s.Rho)
	return nil
}

// Next implements [Selector].
func (s *difficulty) Next(n int) ([]int, error) {
	first, err := s.take(n)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(uint64(s.Seed)+uint64(first), 2))
	rows := make([]int, 0, n)
	for len(rows) < n {
		rows = append(rows, s.best(rng, min(n-len(rows), s.rows))...)
	}
	return rows, nil
}

// best returns k rows, best first. The k highest of score/τ plus standard Gumbel noise are a draw
// without replacement by softmax(score/τ).
func (s *difficulty) best(rng *rand.Rand, k int) []int {
	key := make([]float64, s.rows)
	order := make([]int, s.rows)
	for i := range key {
		p := s.mean(i)
		if s.DoSample {
			p = s.draw(rng, i)
		}
		key[i] = -math.Abs(s.TargetReward - p)
		if s.Tau > 0 {
			key[i] = key[i]/s.Tau - math.Log(rng.ExpFloat64())
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key[b], key[a]) })
	return order[:k]
}

// LearnsFromRewards tells package config that the selector is for tasks alone.
func (s *difficulty) LearnsFromRewards() {}

// Feedback implements [Selector]. It clamps the mean rewards to [0, 1] and takes them as
// observed pass rates.
func (s *difficulty) Feedback(rewards map[int]float64) {
	observed := map[int]float64{}
	for row, r := range rewards {
		if row >= 0 && row < s.rows && !math.IsNaN(r) {
			observed[row] = min(max(r, 0), 1)
		}
	}
	if len(observed) > 0 {
		s.update(observed, s.M, s.Lamb, s.AdaptiveRho)
	}
}

type savedDifficulty struct {
	Progress json.RawMessage `json:"progress"`
	Estimate savedPassRates  `json:"estimate"`
}

// State implements [Selector].
func (s *difficulty) State() (json.RawMessage, error) {
	p, err := s.progress.State()
	if err != nil {
		return nil, err
	}
	return json.Marshal(savedDifficulty{p, s.save()})
}

// Restore implements [Selector].
func (s *difficulty) Restore(state json.RawMessage) error {
	var saved savedDifficulty
	if err := json.Unmarshal(state, &saved); err != nil {
		return fmt.Errorf("selector state: %w", err)
	}
	if err := s.progress.Restore(saved.Progress); err != nil {
		return err
	}
	return s.restore(saved.Estimate)
}
