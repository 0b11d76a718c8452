package config

import (
	"errors"
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

// algorithmType returns the algorithm type that a configuration names. It is built in, or made of a class of users.
func algorithmType(c *Config, r report) (*trinity.Algorithm, error) {
	catalog, key := registry.Algorithms.Catalog, "algorithm.algorithm_type"
	_, all := c.Plugin(catalog, c.Algorithm.AlgorithmType, nil)
	class, ok := all["class"].(string)
	if !ok {
		return registry.Algorithms.Build(c.Algorithm.AlgorithmType)
	}
	is, err := c.Python.In(filepath.Dir(c.File())).Describe("algorithm", class, map[string]any{})
	switch {
	case err != nil:
		return nil, err
	case is.Algorithm == nil:
		return nil, errors.New("is a class in Python, which only commands that may import it know")
	}
	if is.Algorithm.Checks {
		r.warn(key, "check_config of %s is not called, because it wants a Config of Trinity-RFT", class)
	}
	own, err := ofPython(is.Algorithm)
	if err == nil && is.Algorithm.UseCritic && !readsValues(own.Advantage) && c.Algorithm.AdvantageFn == "" {
		r.warn(key, "%s has use_critic, but advantage_fn %s reads no values: there is no critic", class, own.Advantage)
	}
	return own, err
}

// readsValues reports whether an advantage function may read the values of a critic.
func readsValues(name string) bool {
	advantage, err := registry.Advantages.Build(name)
	return err != nil || advantage.Needs().Values
}

// ofPython returns the algorithm type that a class describes.
func ofPython(is *bridge.AlgorithmType) (*trinity.Algorithm, error) {
	own := struct {
		RepeatTimes    int            `yaml:"repeat_times"`
		LossAggMode    string         `yaml:"loss_agg_mode"`
		Advantage      string         `yaml:"advantage_fn"`
		AdvantageArgs  map[string]any `yaml:"advantage_fn_args"`
		PolicyLoss     string         `yaml:"policy_loss_fn"`
		PolicyLossArgs map[string]any `yaml:"policy_loss_fn_args"`
		KLPenalty      string         `yaml:"kl_penalty_fn"`
		KLPenaltyArgs  map[string]any `yaml:"kl_penalty_fn_args"`
		KLLoss         string         `yaml:"kl_loss_fn"`
		KLLossArgs     map[string]any `yaml:"kl_loss_fn_args"`
		Entropy        string         `yaml:"entropy_loss_fn"`
		EntropyArgs    map[string]any `yaml:"entropy_loss_fn_args"`
		Strategy       string         `yaml:"sample_strategy"`
		StrategyArgs   map[string]any `yaml:"sample_strategy_args"`
	}{RepeatTimes: 1, PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "none", Entropy: "none", Strategy: "default"}
	if err := yaml.Load(is.Config, &own); err != nil { // YAML contains JSON, and tells whole numbers from others
		return nil, fmt.Errorf("default_config: %w", err)
	}
	if own.RepeatTimes < 1 {
		return nil, fmt.Errorf("default_config: repeat_times is %d, want at least 1", own.RepeatTimes)
	}
	if is.Schema != "experience" {
		own.Advantage = ""
	}
	return &trinity.Algorithm{
		Schema: is.Schema, GroupSize: own.RepeatTimes, Offline: is.Schema != "experience", LossAggMode: own.LossAggMode,
		Advantage: own.Advantage, AdvantageArgs: own.AdvantageArgs, PolicyLoss: own.PolicyLoss, PolicyLossArgs: own.PolicyLossArgs,
		KLPenalty: own.KLPenalty, KLPenaltyArgs: own.KLPenaltyArgs, KLLoss: own.KLLoss, KLLossArgs: own.KLLossArgs,
		Entropy: own.Entropy, EntropyArgs: own.EntropyArgs, SampleStrategy: own.Strategy, SampleStrategyArgs: own.StrategyArgs,
	}, nil
}
