package examples

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// variants are the ways in which the example of sums trains: by an adapter, and all weights.
var variants = []struct {
	name      string
	overrides []string
}{
	{"LoRA", nil},
	{"all weights", []string{"model.lora_configs=[]", "algorithm.optimizer.lr=1e-5"}},
}

// SmolLM2 learns one-digit sums within 16 steps, with an adapter and with all weights.
func TestArithmeticOfSmolLM2(t *testing.T) {
	model := smolLM2(t)
	t.Chdir("..")
	values := map[string][]float64{}
	for _, v := range variants {
		for seed := range 3 {
			name := fmt.Sprint(v.name, " seed ", seed)
			t.Run(name, func(t *testing.T) {
				records := runExampleIn(t, t.TempDir(), "grpo_arithmetic_smollm2/arithmetic.yaml",
					append(slices.Clone(v.overrides), "model.model_path="+model, fmt.Sprint("seed=", seed))...)
				values[name+" steps"] = curve(records, "rollout/accuracy/mean")
				values[name+" held out"] = curve(records, "eval/held_out/accuracy/mean@8")
				values[name+" trained"] = curve(records, "eval/trained/accuracy/mean@4")
				values[name+" trained greedy"] = curve(records, "eval/trained_greedy/accuracy/mean@1")
				start, end := values[name+" steps"][0], last(values[name+" trained"])
				if start > 0.5 || end < 0.9 {
					t.Errorf("accuracy rose from %.3f to %.3f, want at least 0.9", start, end)
				}
			})
		}
	}
	hold(t, "examples/grpo_arithmetic_smollm2", results{Values: values})
}

func arithmeticTables(r results) map[string]string {
	accuracy := measuredAt(r.Commit) + head("", "seed", "held out, temperature 1", "trained sums, temperature 1", "trained sums, greedy")
	steps := "\n" + head(append([]string{"seed"}, numbers(16)...)...)
	for _, v := range variants {
		for seed := range 3 {
			name := fmt.Sprint(v.name, " seed ", seed)
			accuracy += fmt.Sprintf("| %s | %d | %s | %s | %s |\n", v.name, seed, change(r.Values[name+" held out"]),
				change(r.Values[name+" trained"]), change(r.Values[name+" trained greedy"]))
			if v.overrides == nil {
				steps += fmt.Sprintf("| %d | %s |\n", seed, cells(r.Values[name+" steps"]))
			}
		}
	}
	return map[string]string{"accuracy": accuracy, "steps": steps}
}

func arithmeticRow(r results) map[string]string {
	return map[string]string{"arithmetic": changes(r, "LoRA seed %d held out")}
}

// SmolLM2 learns to reply with valid JSON in 12 steps.
func TestJSONOfSmolLM2(t *testing.T) {
	model := smolLM2(t)
	t.Chdir("..")
	values := map[string][]float64{}
	for seed := range 3 {
		name := fmt.Sprint("seed ", seed)
		t.Run(name, func(t *testing.T) {
			records := runExampleIn(t, t.TempDir(), "grpo_json_smollm2/json.yaml",
				"model.model_path="+model, fmt.Sprint("seed=", seed))
			for _, set := range []string{"trained", "held_out"} {
				for _, score := range curve(records, "eval/"+set+"/format_score/mean@4") {
					values[name+" valid "+set] = append(values[name+" valid "+set], score/0.5) // the score of a valid object
				}
				values[name+" right "+set] = curve(records, "eval/"+set+"/accuracy/mean@4")
			}
			if valid := values[name+" valid trained"]; valid[0] > 0.5 || last(valid) < 0.9 {
				t.Errorf("valid JSON rose from %.3f to %.3f, want at least 0.9", valid[0], last(valid))
			}
		})
	}
	hold(t, "examples/grpo_json_smollm2", results{Values: values})
}

func jsonTable(r results) map[string]string {
	table := measuredAt(r.Commit) +
		head("seed", "valid JSON, trained cities", "valid JSON, held-out cities", "right answer, trained", "right answer, held out")
	for seed := range 3 {
		of := func(what string) string { return change(r.Values[fmt.Sprintf("seed %d %s", seed, what)]) }
		table += fmt.Sprintf("| %d | %s | %s | %s | %s |\n", seed,
			of("valid trained"), of("valid held_out"), of("right trained"), of("right held_out"))
	}
	return map[string]string{"measured": table}
}

func jsonRow(r results) map[string]string {
	return map[string]string{"json": changes(r, "seed %d valid held_out")}
}

// Ten steps do not teach SmolLM2 the problems of GSM8K. The data are those of TRINITY_TASKSET_PATH
// and TRINITY_EVAL_PATH, as in the README.
func TestGSM8KOfSmolLM2(t *testing.T) {
	model := smolLM2(t)
	if os.Getenv("TRINITY_TASKSET_PATH") == "" {
		t.Skip("needs GSM8K: set TRINITY_TASKSET_PATH and TRINITY_EVAL_PATH as examples/grpo_gsm8k_smollm2/README.md says")
	}
	t.Chdir("..")
	records := runExampleIn(t, t.TempDir(), "grpo_gsm8k_smollm2/gsm8k.yaml", "model.model_path="+model)
	hold(t, "examples/grpo_gsm8k_smollm2", results{Values: map[string][]float64{
		"steps":  curve(records, "rollout/accuracy/mean"),
		"greedy": curve(records, "eval/gsm8k_test/accuracy/mean@1"),
	}})
}

func gsm8kTable(r results) map[string]string {
	return map[string]string{
		"measured": measuredAt(r.Commit) + head(numbers(10)...) + "| " + cells(r.Values["steps"]) + " |\n",
		"greedy":   change(r.Values["greedy"]),
	}
}

func gsm8kRow(r results) map[string]string {
	steps := r.Values["steps"]
	return map[string]string{"gsm8k": share(mean(steps[:5])) + ", " + share(mean(steps[5:]))}
}

// ofSmolLM2 are the algorithms with an example of a language model. grpo makes the teacher of
// on_policy_distill.
var ofSmolLM2 = []string{"grpo", "ppo", "mix_chord", "on_policy_distill", "dpo", "kto"}

const asItIs = "the model as it is"

func smolLM2Table(r results) map[string]string {
	table := measuredAt(r.Commit) +
		head("algorithm", "tokens per step", "seconds per step", "peak GiB", "held out, temperature 1", "greedy") +
		fmt.Sprintf("| %s | | | | %s |\n", asItIs, cells(r.Values[asItIs]))
	for _, algorithm := range ofSmolLM2 {
		machine := r.Machine[algorithm+" seconds, GiB"]
		table += fmt.Sprintf("| [%[1]s](../../examples/algorithms_smollm2/%[1]s.yaml) | %.0f | %.1f | %.1f | %s |\n", algorithm,
			r.Values[algorithm+" tokens"][0], machine[0], machine[1], cells(r.Values[algorithm]))
	}
	return map[string]string{"measured": table}
}

// changes writes the first and the last value of three seeds.
func changes(r results, format string) string {
	var before, after []float64
	for seed := range 3 {
		v := r.Values[fmt.Sprintf(format, seed)]
		before, after = append(before, v[0]), append(after, last(v))
	}
	list := func(v []float64) string { return strings.ReplaceAll(shares(v), " ", ", ") }
	return list(before) + " → " + list(after)
}

func last(v []float64) float64 { return v[len(v)-1] }
