package run_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The guide for users of Trinity-RFT lists the metrics of a run. Runs of GRPO and of PPO log every
// metric in the column of Trinity-Go and no other one.
func TestMetricsInTheGuideFromTrinityRFT(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/from-trinity-rft.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- metrics -->\n")
	table, _, ok := strings.Cut(table, "<!-- end -->")
	if !ok {
		t.Fatal("no table between <!-- metrics --> and <!-- end -->")
	}
	listed := map[string]bool{}
	for _, row := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(row, "|")[2], -1) {
			for _, one := range alternatives(name[1]) {
				listed[one] = true
			}
		}
	}
	logged := map[string]bool{}
	const operators = "data_processor.experience_pipeline.operators="
	for _, overrides := range [][]string{
		{"algorithm.kl_loss_fn=k2", "algorithm.bypass_old_logprobs=false",
			operators + "[{name: dapo_dynamic_sampling, args: {correct_threshold: 0.5}}]"},
		{operators + "[{name: mask_response_truncated}]", "explorer.rollout_model.speculate=4",
			"buffer.explorer_input.taskset.rollout_args.temperature=0.2"},
		withCritic,
	} {
		p := newProject(t, tiny, rl)
		if _, err := p.run(t, append(slices.Clone(overrides), "buffer.total_steps=4")...); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))) {
			var e entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			for name := range e.Metrics {
				logged[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !logged[name] {
			t.Errorf("the guide lists %s, which no run logs", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(logged)) {
		if !listed[name] {
			t.Errorf("a run logs %s, which the guide does not list", name)
		}
	}
}

// alternatives returns the names that a/{b,c}/d stands for, with the values of this test in place of
// <taskset>, k and n.
func alternatives(name string) []string {
	name = strings.NewReplacer("<taskset>", "few", "@k", "@2", "@n", "@2").Replace(name)
	head, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}
	}
	choices, tail, _ := strings.Cut(rest, "}")
	var out []string
	for _, c := range strings.Split(choices, ",") {
		out = append(out, alternatives(head+c+tail)...)
	}
	return out
}
