package config

import (
	"encoding/json"
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
	own := trinity.Algorithm{
		Schema: is.Schema, GroupSize: 1, PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "none", Entropy: "none", SampleStrategy: "default",
		Offline: is.Schema != "experience",
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(is.Config, &given); err != nil {
		return nil, fmt.Errorf("default_config is %.40s: want a dict", is.Config)
	}
	for name, to := range map[string]any{
		"repeat_times": &own.GroupSize, "loss_agg_mode": &own.LossAggMode, "advantage_fn": &own.Advantage,
		"advantage_fn_args": &own.AdvantageArgs, "policy_loss_fn": &own.PolicyLoss, "policy_loss_fn_args": &own.PolicyLossArgs,
		"kl_penalty_fn": &own.KLPenalty, "kl_penalty_fn_args": &own.KLPenaltyArgs, "kl_loss_fn": &own.KLLoss, "kl_loss_fn_args": &own.KLLossArgs,
		"entropy_loss_fn": &own.Entropy, "entropy_loss_fn_args": &own.EntropyArgs,
		"sample_strategy": &own.SampleStrategy, "sample_strategy_args": &own.SampleStrategyArgs,
	} {
		if err := readKey(given[name], to); err != nil {
			return nil, fmt.Errorf("default_config: %s is %.40s: %w", name, given[name], err)
		}
	}
	if own.GroupSize < 1 {
		return nil, fmt.Errorf("default_config: repeat_times is %d: want at least 1", own.GroupSize)
	}
	if own.Offline {
		own.Advantage = ""
	}
	return &own, nil
}

// readKey reads a value of default_config, if there is one.
func readKey(text json.RawMessage, to any) error {
	if text == nil || yaml.Load(text, to) == nil { // YAML contains JSON, and tells whole numbers from others
		return nil
	}
	switch to.(type) {
	case *int:
		return errors.New("want a whole number")
	case *string:
		return errors.New("want a text")
	}
	return errors.New("want a dict")
}
