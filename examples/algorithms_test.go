package examples

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// algorithmConfig is the example of an algorithm type, by its path under examples.
func algorithmConfig(algorithm string) string { return "algorithms/" + algorithm + ".yaml" }

// evaluated is the share of right replies to all questions after the last stage.
func evaluated(t *testing.T, records []trinity.Record) (sampled, greedy float64) {
	t.Helper()
	s, g := curve(records, "bench/sampled/accuracy/mean@4"), curve(records, "bench/greedy/accuracy/mean@1")
	if len(s) != 1 || len(g) != 1 {
		t.Fatalf("the last stage evaluated %d and %d times, want once", len(s), len(g))
	}
	return s[0], g[0]
}

// unchanged are the settings with which the stage learn changes no weight, and is short.
var unchanged = []string{"name=unchanged", "stages.1.algorithm.optimizer.lr=0", "stages.1.buffer.total_steps=1"}

// warmed is a tiny model after the stage that all examples of algorithms begin with.
type warmed struct {
	dir     string  // of the runs that go on from there
	mark    []byte  // says that the stage is finished, and where its model is
	sampled float64 // share of right replies
}

func warmUp(t *testing.T) *warmed {
	t.Helper()
	w := &warmed{dir: t.TempDir()}
	w.sampled, _ = evaluated(t, runExampleIn(t, w.dir, algorithmConfig("grpo"), unchanged...))
	var err error
	if w.mark, err = os.ReadFile(w.finished("unchanged")); err != nil {
		t.Fatal(err)
	}
	return w
}

// finished is where a run of that name says that it is warmed up.
func (w *warmed) finished(name string) string {
	return filepath.Join(w.dir, "trinity-examples", name, "warmup", "stage_done.json")
}

// learn runs the example of an algorithm, under a name, from the stage learn on.
func (w *warmed) learn(t *testing.T, algorithm, name string, overrides ...string) []trinity.Record {
	t.Helper()
	path := w.finished(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, w.mark, 0o644); err != nil {
		t.Fatal(err)
	}
	return runExampleIn(t, w.dir, algorithmConfig(algorithm), append(overrides, "name="+name)...)
}

// teacher is the algorithm whose example makes what others distil.
const teacher = "sft"

// scorer is the algorithm that trains a reward model, and so nothing that answers.
const scorer = "bradley_terry"

// algorithms are all types that train a policy, the teacher first.
func algorithms() []string {
	names := slices.Clone(registry.Algorithms.Names())
	names = slices.DeleteFunc(names, func(name string) bool { return name == scorer })
	at := slices.Index(names, teacher)
	return slices.Insert(slices.Delete(names, at, at+1), 0, teacher)
}

// Every algorithm type that there is has an example, of the type's name, in which it learns. All begin with the same warm-up; those that sample
// have half of the example's steps, so that all together take a minute or two.
func TestAlgorithmsLearn(t *testing.T) {
	trinitytest.Long(t, "trains with every algorithm", trained...)
	t.Chdir("..")
	model := warmUp(t)
	for _, algorithm := range algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			if algorithm != teacher {
				t.Parallel()
			}
			text, err := os.ReadFile(filepath.Join("examples", algorithmConfig(algorithm)))
			if err != nil {
				t.Fatalf("algorithm type %s has no example in which it learns: write examples/%s", algorithm, algorithmConfig(algorithm))
			}
			var short []string
			if strings.Contains(string(text), "mode: both") {
				short = []string{"stages.1.buffer.total_steps=15"}
			}
			records := model.learn(t, algorithm, "algorithms_"+algorithm, short...)
			after, greedy := evaluated(t, records)
			t.Logf("accuracy %.3f to %.3f, greedy %.3f", model.sampled, after, greedy)
			if after < model.sampled+0.15 {
				t.Errorf("accuracy over 400 replies went from %.3f to %.3f, want 0.15 more", model.sampled, after)
			}
			if slices.Contains(preferring, algorithm) {
				heldOutPairs(t, records).check(t)
			}
		})
	}
}

// A reward model learns from pairs which digit is the larger, also of questions that it has not
// seen. A policy learns it from the reward model.
func TestARewardModelFromPreferences(t *testing.T) {
	trinitytest.Long(t, "trains a reward model and a policy", trained...)
	t.Chdir("..")
	model := warmUp(t)
	accuracy := curve(model.learn(t, scorer, "algorithms_"+scorer), "eval/held_out/accuracy")
	if n := len(accuracy); n < 2 || accuracy[0] > 0.75 || accuracy[n-1] < 0.9 {
		t.Errorf("the reward model prefers the right answer in %.2f of the held-out pairs; want .9 in the end, and less before", accuracy)
	}
	checkpoint := filepath.Join(model.dir, "trinity-examples", "algorithms_"+scorer, "learn", "global_step_120")
	const input = "stages.1.buffer.explorer_input."
	sampled, greedy := evaluated(t, model.learn(t, "grpo", "with_reward_model", input+"default_reward_fn_type=reward_model",
		input+"taskset.reward_fn_args={model_path: "+checkpoint+"}", "stages.1.algorithm.kl_loss_fn=k2",
		"stages.1.algorithm.kl_loss_fn_args.kl_coef=1"))
	t.Logf("held-out accuracy %.2f; of the policy %.3f to %.3f, greedy %.2f", accuracy, model.sampled, sampled, greedy)
	if sampled < model.sampled+0.1 || greedy < 0.75 {
		t.Errorf("with the reward model, accuracy went from %.3f to %.3f, want 0.1 more, and greedily to %.2f, want .75",
			model.sampled, sampled, greedy)
	}
}

// preferring are the types that learn from answers of which one is preferred, in whose examples pairs are held out.
var preferring = []string{"dpo", "kto"}

// preference is what a model makes of the held-out pairs: the share whose right answer is the likelier one, at first and after the last step, and the
// share whose right answer has gained more than the wrong one.
type preference struct{ before, after, gained float64 }

func heldOutPairs(t *testing.T, records []trinity.Record) preference {
	t.Helper()
	ranking, accuracy := curve(records, "eval/held_out/ranking_accuracy"), curve(records, "eval/held_out/accuracy_mean")
	if len(ranking) < 2 || len(accuracy) != len(ranking) {
		t.Fatalf("held-out pairs were measured %d and %d times, want twice and more", len(ranking), len(accuracy))
	}
	last := len(ranking) - 1
	return preference{ranking[0], ranking[last], accuracy[last]}
}

func (p preference) check(t *testing.T) {
	t.Helper()
	if p.after < p.before+0.25 || p.gained < 0.85 {
		t.Errorf("of the held-out pairs the right answer is the likelier one in %.2f, %.2f before, and has gained more in %.2f; want 0.25 more, and 0.85", p.after, p.before, p.gained)
	}
}

// TestAlgorithmsResults runs every example as a user does, with three seeds, and the controls. With
// -update it writes what was measured into algorithms/README.md.
func TestAlgorithmsResults(t *testing.T) {
	trinitytest.TooLong(t, "trains with every algorithm, several seeds")
	t.Chdir("..")
	values := map[string][]float64{}
	run := func(dir, name, algorithm, override string) (records []trinity.Record, sampled float64) {
		records = runExampleIn(t, dir, algorithmConfig(algorithm), strings.Fields(override)...)
		sampled, greedy := evaluated(t, records)
		values[name+" tens"] = tens(curve(records, "rollout/accuracy/mean"))
		values[name+" sampled"], values[name+" greedy"] = []float64{sampled}, []float64{greedy}
		return records, sampled
	}
	for seed := range 3 {
		dir, of := t.TempDir(), fmt.Sprint(" seed ", seed)
		set := fmt.Sprint("seed=", seed, " ")
		_, start := run(dir, warmedUp+of, "grpo", set+strings.Join(unchanged, " "))
		for _, algorithm := range algorithms() {
			t.Run(algorithm+of, func(t *testing.T) {
				records, sampled := run(dir, algorithm+of, algorithm, set)
				if sampled < start+0.15 {
					t.Errorf("accuracy went from %.3f to %.3f, want 0.15 more", start, sampled)
				}
				if slices.Contains(preferring, algorithm) {
					p := heldOutPairs(t, records)
					p.check(t)
					values[algorithm+of+" pairs"] = []float64{p.before, p.after, p.gained}
				}
			})
		}
		for name, override := range algorithmControls {
			if _, sampled := run(dir, name+of, "grpo", set+override); sampled > start+0.1 {
				t.Errorf("%s%s: accuracy rose from %.3f to %.3f, and there was nothing to learn from", name, of, start, sampled)
			}
		}
	}
	hold(t, "examples/algorithms", results{Values: values})
}

const warmedUp = "after the warm-up"

// algorithmControls are settings with which there is nothing to learn from.
var algorithmControls = map[string]string{
	"grpo, learning rate 0":  "name=control_lr stages.1.algorithm.optimizer.lr=0",
	"grpo, shuffled rewards": `name=control_shuffled stages.1.data_processor.experience_pipeline.operators=[{"name":"test_shuffle_rewards"}]`,
}

func algorithmTables(r results) map[string]string {
	var table, pairs strings.Builder
	table.WriteString(measuredAt(r.Commit) + "| algorithm | seed 0 | seed 1 | seed 2 | sampled | greedy |\n|---|---|---|---|---|---|\n")
	pairs.WriteString("\n| algorithm | likelier, after the warm-up | likelier, in the end | has gained more |\n|---|---|---|---|\n")
	of := func(name string, i int, what string) (out []float64) { // the values i, by seed
		for seed := range 3 {
			if v := r.Values[fmt.Sprintf("%s seed %d %s", name, seed, what)]; i < len(v) {
				out = append(out, v[i])
			}
		}
		return out
	}
	row := func(shown, name string) {
		fmt.Fprintf(&table, "| %s |", shown)
		for seed := range 3 {
			fmt.Fprintf(&table, " %s |", cmp.Or(shares(r.Values[fmt.Sprintf("%s seed %d tens", name, seed)]), "–"))
		}
		fmt.Fprintf(&table, " %s | %s |\n", shares(of(name, 0, "sampled")), shares(of(name, 0, "greedy")))
	}
	row(warmedUp, warmedUp)
	for _, algorithm := range algorithms() {
		link := fmt.Sprintf("[%s](%s.yaml)", algorithm, algorithm)
		row(link, algorithm)
		if slices.Contains(preferring, algorithm) {
			fmt.Fprintf(&pairs, "| %s | %s | %s | %s |\n", link, shares(of(algorithm, 0, "pairs")), shares(of(algorithm, 1, "pairs")),
				shares(of(algorithm, 2, "pairs")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(algorithmControls)) {
		row(name, name)
	}
	return map[string]string{"measured": table.String(), "held out": pairs.String()}
}
