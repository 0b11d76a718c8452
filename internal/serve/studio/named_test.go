package studio

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// swept writes runs of a sweep, whose names are long and alike.
func swept(t *testing.T, dir string) (ids []string) {
	t.Helper()
	for _, algorithm := range []string{"grpo", "maxrl"} {
		for seed := 1; seed <= 2; seed++ {
			id := fmt.Sprintf("p/own_algorithm_type_%s_lr_2e-4_seed%d", algorithm, seed)
			put(t, dir, id+"/sweep.json", `{"name":"own","varied":["algorithm.algorithm_type","algorithm.optimizer.lr","seed"]}`)
			put(t, dir, id+"/monitor/config.yaml",
				fmt.Sprintf("name: own\nseed: %d\nalgorithm: {algorithm_type: %s, optimizer: {lr: 2e-4}}\n", seed, algorithm))
			put(t, dir, id+"/monitor/metrics.jsonl", line(1, "explorer", `"rollout/reward/mean":0,"eval/sums/accuracy/mean@1":0.25`)+
				line(2, "explorer", fmt.Sprintf(`"rollout/reward/mean":1,"eval/sums/accuracy/mean@1":0.%d`, 5+seed))+
				line(3, "explorer", `"eval/sums/accuracy/mean@1":0.5,"eval/sums/response_length/mean@1":1`))
			ids = append(ids, id)
		}
	}
	return ids
}

func TestRunsOfASweep(t *testing.T) {
	dir, s := site(t, "")
	ids := swept(t, dir)
	put(t, dir, "p/other/monitor/metrics.jsonl", line(1, "trainer", `"actor/final_loss":2`))
	runs := map[string]*Run{}
	for _, run := range got[struct{ Runs []*Run }](t, s, "runs").Runs {
		runs[run.ID] = run
	}
	want := []string{"grpo · seed 1", "grpo · seed 2", "maxrl · seed 1", "maxrl · seed 2"}
	for i, id := range ids {
		run := runs[id]
		if run.Label != want[i] || run.Sweep != "p/own" || run.Parent != "" {
			t.Errorf("%s is %+v, want the label %q", id, run, want[i])
		}
	}
	sets := []Set{{"algorithm.algorithm_type", "algorithm_type", "maxrl"}, {"seed", "seed", "2"}}
	if got := runs[ids[3]].Sets; !reflect.DeepEqual(got, sets) {
		t.Errorf("sets %+v, want %+v", got, sets)
	}
	eval := &Evaluation{Name: "eval/sums/accuracy/mean@1", First: .25, Best: .7, Step: 2, Version: 2, Last: .5}
	if got := runs[ids[3]].Evaluation; !reflect.DeepEqual(got, eval) {
		t.Errorf("evaluation %+v, want %+v", got, eval)
	}
	if other := runs["p/other"]; other.Sweep != "" || other.Label != "" || other.Evaluation != nil || len(other.Sets) != 0 {
		t.Errorf("a run of no sweep is %+v", other)
	}
	groups := got[struct{ Labels []string }](t, s, "groups?run="+strings.Join(ids, "&run="))
	if !reflect.DeepEqual(groups.Labels, want) {
		t.Errorf("labels %q, want %q", groups.Labels, want)
	}
	more := line(4, "explorer", `"eval/sums/accuracy/mean@1":0.75`)
	path := filepath.Join(dir, ids[3], "monitor", "metrics.jsonl")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, ids[3]+"/monitor/metrics.jsonl", string(before)+more)
	if e := got[Run](t, s, "runs/"+strings.ReplaceAll(ids[3], "/", "%2F")).Evaluation; e.Best != .75 || e.Step != 4 || e.First != .25 {
		t.Errorf("after another evaluation it is %+v", e)
	}
	put(t, dir, ids[0]+"/sweep.json", "{")
	damaged := got[struct{ Damaged []string }](t, s, "runs").Damaged
	if len(damaged) != 1 || !strings.Contains(damaged[0], "sweep.json is damaged: remove it") {
		t.Errorf("of a damaged file it says %q", damaged)
	}
}

// The stages of a run name the run of which they are.
func TestStagesOfASweep(t *testing.T) {
	dir, s := site(t, "")
	for seed := 1; seed <= 2; seed++ {
		id := fmt.Sprintf("p/own_seed%d", seed)
		put(t, dir, id+"/sweep.json", `{"name":"own","varied":["seed"]}`)
		for _, stage := range []string{"warmup", "rl"} {
			put(t, dir, id+"/"+stage+"/monitor/about.json", fmt.Sprintf(`{"name":"own_seed%d/%s","project":"p"}`, seed, stage))
			put(t, dir, id+"/"+stage+"/monitor/config.yaml", fmt.Sprintf("seed: %d\n", seed))
			put(t, dir, id+"/"+stage+"/monitor/metrics.jsonl", line(1, "trainer", `"actor/final_loss":2`))
		}
	}
	for _, run := range got[struct{ Runs []*Run }](t, s, "runs").Runs {
		seed := run.Name[len(run.Name)-1:]
		if run.Parent != "p/own_seed"+seed || run.Sweep != "p/own" || run.Label != "seed "+seed {
			t.Errorf("%s: parent %q, sweep %q, label %q", run.ID, run.Parent, run.Sweep, run.Label)
		}
	}
}
