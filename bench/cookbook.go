package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/config"
)

// serviceStep is a GRPO step that the cookbook of Tinker takes through a service, its own client included.
var serviceStep = workload{
	name: "service_step", model: true, unit: "s", rows: 2 * group, copies: group, new: 32,
	ours: newCookbook, needs: []string{"tinker-cookbook"},
	rivals: []rival{{name: "trinity run", program: "ourselves", target: 1 / 1.15, differs: func(a *assignment) { a.Direct = true }}},
}

// adapterOf is the adapter that a service trains by default.
const adapterOf = "model.lora_configs=[{name: bench, lora_rank: 32, lora_alpha: 32, target_modules: [all-linear, lm_head]}]"

func newCookbook(a *assignment) (task, error) {
	if a.Direct {
		return newGRPOWith(a, config.Options{Engine: "cpu", Overrides: []string{
			adapterOf, fmt.Sprint("buffer.batch_size=", a.Batch/a.Group), fmt.Sprint("model.max_response_tokens=", a.New),
		}})
	}
	if _, err := os.Stat(filepath.Join(a.Model, "tokenizer.json")); err != nil {
		return nil, fmt.Errorf("the client opens the model's tokenizer: --model must be a Hugging Face directory: %w", err)
	}
	s, err := startService(a, a.Model, 512) // the client opens the tokenizer of the model's name
	if err != nil {
		return nil, err
	}
	path := filepath.Join(filepath.Dir(a.Dir), "client.json")
	data, err := json.Marshal(map[string]any{
		"model": a.Model, "address": s.address, "questions": a.Questions, "system": a.System, "new": a.New, "group": a.Group,
		"groups": a.Batch / a.Group, "dir": filepath.Join(filepath.Dir(a.Dir), "client"), "rank": a.Rank,
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return nil, err
	}
	client, err := startClient(a.Cookbook, filepath.Join(a.Scripts, "grpo_cookbook.py"), path)
	return &cookbook{client}, err
}

// startClient starts the script, which then waits for its first step.
func startClient(args ...string) (side, error) {
	return startChild(context.Background(), "", []string{"TINKER_API_KEY=tml-local", "HF_HUB_OFFLINE=1"}, args...)
}

// cookbook is a client whose steps are asked for.
type cookbook struct{ client side }

// run returns the seconds of a step. The client warms itself up.
func (c *cookbook) run(number int) (sample, error) {
	if number == 0 {
		return sample{}, nil
	}
	return c.client.run()
}
