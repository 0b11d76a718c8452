package examples

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

const (
	frozenLake = "frozen_lake/frozen_lake.yaml"
	randomMaps = "frozen_lake/random_maps.yaml"
)

func init() {
	registry.Operators.Register("test_shuffle_outcomes", "Gives the last step of every walk the reward of another walk's last step.",
		func() trinity.Operator { return shuffleOutcomes{} })
}

// shuffleOutcomes is a control for algorithms that read Info["step_reward"]: the rewards of a step
// keep their distribution, but teach nothing.
type shuffleOutcomes struct{}

// Process implements [trinity.Operator].
func (shuffleOutcomes) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	var ends []*trinity.Experience
	for _, g := range groups {
		for _, e := range g {
			if n := len(ends) - 1; n >= 0 && e.ID.Follows(ends[n].ID) {
				ends[n] = e
				continue
			}
			ends = append(ends, e)
		}
	}
	if len(ends) == 0 {
		return groups, nil, nil
	}
	rng := rand.New(rand.NewPCG(uint64(ends[0].ID.Step), 0))
	rng.Shuffle(len(ends), func(i, j int) {
		a, b := ends[i].Info, ends[j].Info
		a["step_reward"], b["step_reward"] = b["step_reward"], a["step_reward"]
	})
	return groups, nil, nil
}

var frozenLakeControls = map[string]string{
	"learning rate 0":  quickstartControls["learning rate 0"],
	"shuffled rewards": "stages.1.data_processor.experience_pipeline.operators=[{name: test_shuffle_outcomes}]",
}

// A policy learns from the steps of its walks.
func TestFrozenLakeLearns(t *testing.T) {
	trinitytest.Long(t, "trains for half a minute", "environment", "examples/frozen_lake")
	goal := curve(runExample(t, frozenLake), "eval/walks/success/mean@200")
	if first, last := goal[0], last(goal); last < 0.9 || last < first+0.3 {
		t.Errorf("walks to the goal rose from %.3f to %.3f, want at least 0.9 and 0.3 more", first, last)
	}
	publishes(t, "examples/frozen_lake", map[string][]float64{"seed 0": goal})
}

// The policy learns with three seeds, and not in the controls. On random maps it learns a part. With
// -update the test writes what was measured into the documents.
func TestFrozenLakeResults(t *testing.T) {
	trinitytest.TooLong(t, "trains for many minutes")
	t.Chdir("..")
	values := map[string][]float64{}
	run := func(name, path, metric string, overrides ...string) (first, end float64) {
		values[name] = curve(runExampleIn(t, t.TempDir(), path, overrides...), metric)
		t.Logf("%s: %.3f", name, values[name])
		return values[name][0], last(values[name])
	}
	for seed := range 3 {
		name, override := fmt.Sprint("seed ", seed), fmt.Sprint("seed=", seed)
		if first, end := run(name, frozenLake, "eval/walks/success/mean@200", override); end < 0.9 || end < first+0.3 {
			t.Errorf("%s: walks to the goal rose from %.3f to %.3f, want at least 0.9 and 0.3 more", name, first, end)
		}
		if first, end := run("random maps, "+name, randomMaps, "eval/new_maps/success/mean@1", override); end < first+0.2 {
			t.Errorf("random maps, %s: walks to the goal rose from %.3f to %.3f, want at least 0.2 more", name, first, end)
		}
	}
	for name, override := range frozenLakeControls {
		if first, end := run(name, frozenLake, "eval/walks/success/mean@200", override); end > first+0.1 {
			t.Errorf("%s: walks to the goal rose from %.3f to %.3f, and there was nothing to learn from", name, first, end)
		}
	}
	hold(t, "examples/frozen_lake", results{Values: values})
}

func frozenLakeTable(r results) map[string]string {
	table := measuredAt(r.Commit) + head("run", "walks that reach the goal")
	for _, name := range []string{
		"seed 0", "seed 1", "seed 2", "learning rate 0", "shuffled rewards",
		"random maps, seed 0", "random maps, seed 1", "random maps, seed 2",
	} {
		table += fmt.Sprintf("| %s | %s |\n", name, strings.ReplaceAll(shares(r.Values[name]), " ", " → "))
	}
	return map[string]string{"walks": table}
}
