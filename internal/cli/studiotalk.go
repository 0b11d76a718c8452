package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/model"
)

// talker finds the models that the studio talks to, and serves them with this program.
func talker(self string) studio.Talker {
	return studio.Talker{
		Models: modelsOf,
		Plan:   func(path string, length int) (studio.ModelPlan, error) { return planTalk(self, path, length) },
	}
}

// modelsOf lists the models in the checkpoints of a run, the newest first.
func modelsOf(dir string) (all []studio.Model, err error) {
	d := checkpoint.Dir{Path: dir}
	steps, err := d.Steps()
	for _, step := range slices.Backward(steps) {
		at := d.Of(step)
		m := studio.Model{Name: checkpoint.ModelName(at), Kind: "model", Path: checkpoint.ModelBelow(at)}
		if _, isAdapter, err := model.AdapterBase(m.Path); err == nil && isAdapter {
			m.Kind = "adapter"
		}
		all = append(all, m)
	}
	return all, err
}

// oneAtOnce lets a model answer one conversation, so that it takes memory for one.
const oneAtOnce = "explorer.runner_per_model=1"

// planTalk plans to serve a model. It downloads nothing.
func planTalk(self, path string, length int) (plan studio.ModelPlan, err error) {
	f := modelFlags{length: length}
	if f.path, f.base, err = foundHere(path); err != nil {
		return plan, err
	}
	cfg, err := f.alone("serve", os.TempDir(), []string{oneAtOnce})
	if err != nil {
		return plan, err
	}
	planned, err := cfg.PlanStages(settle.Facts)
	if err != nil {
		return plan, err
	}
	stage := planned.Stages[0]
	plan.Command = []string{
		self, "serve", "--addr", "127.0.0.1:0", "--model", f.path, "--max-model-len", strconv.Itoa(f.length), oneAtOnce,
	}
	plan.Length, plan.Memory, plan.DoesNotFit = f.length, stage.Memory, stage.DoesNotFit
	plan.Sum, plan.Free = stage.MemorySum, stage.MemoryHere
	return plan, nil
}

// foundHere returns the path of a model, and that of its base model: the same if it is no adapter. A
// model that is not on this machine is an error.
func foundHere(name string) (path, base string, err error) {
	find := func(name string) (string, error) { path, _ := feed.Local(name, false); return path, nil }
	if path, err = checkpoint.Named(name, find); err != nil {
		return "", "", err
	}
	base, isAdapter, err := model.AdapterBase(path)
	if err == nil && !isAdapter {
		base, err = checkpoint.Lookup(path, find)
	}
	if err != nil {
		return "", "", err
	}
	if _, err := os.Stat(base); err != nil {
		dir, ok := hub.Cached(base)
		switch {
		case !ok && hub.IsName(base):
			return "", "", fmt.Errorf("the model %s is not on this machine: get it with `trinity pull %s`", base, base)
		case !ok:
			return "", "", fmt.Errorf("there is no model %s: if the run was started in another directory, start the studio there", base)
		}
		base = dir
	}
	if _, err := os.Stat(path); err != nil { // a hub name
		path = base
	}
	return path, base, nil
}
