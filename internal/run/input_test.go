package run_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/experience/archive"
	"github.com/trinity-go/trinity/internal/run/settle"
)

const inputs = "data_processor.experience_pipeline.inputs"

// recording writes an archive as an earlier run would have: groups of several tasks and steps, of
// four rollouts and of one, with the policy's log-probabilities.
func recording(t *testing.T, path string) {
	t.Helper()
	var groups []trinity.Group
	for i := range 6 {
		var g trinity.Group
		for run := range 4 - i%2*3 {
			e := &trinity.Experience{
				ID: trinity.ExperienceID{Step: int64(1 + i/3), Task: fmt.Sprintf("digits/%d", i),
					Run: run}, PromptLen: 2, Temperature: 1, Versions: [2]int64{0, int64(i)},
				Tokens: []int32{5, 6, int32(10 + i), int32(20 + run)}, Mask: []bool{false, false, true, true}, Logprobs: []float32{0, 0, -4, -3.5},
				Reward: trinity.NewReward(map[string]float64{"accuracy": float64(run % 2)}), Prompt: "p", Response: fmt.Sprint("r", run),
			}
			g = append(g, e)
		}
		groups = append(groups, g)
	}
	w, err := archive.New(path, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range [][]trinity.Group{groups[:3], groups[3:]} {
		if err := w.Write(t.Context(), step[0][0].ID.Step, step); err != nil {
			t.Fatal(err)
		}
	}
}

// kept returns the experiences that entered the pipeline.
func (p project) kept(t *testing.T) []*trinity.Experience {
	t.Helper()
	return experiences(t, filepath.Join(p.job(), "buffer", "explorer_output.jsonl"))
}

// rowsOf returns the rows of a dataset.
func rowsOf(t *testing.T, path string) (rows []map[string]any) {
	t.Helper()
	data, err := dataset.Open(t.Context(), path, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range data.Len() {
		row, err := data.Row(i)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// experiences returns the experiences of an archive.
func experiences(t *testing.T, path string) (all []*trinity.Experience) {
	t.Helper()
	for _, row := range rowsOf(t, path) {
		e, err := experience.FromRow(row)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// joined returns, for each step, the names of the tasks that an input gave.
func joined(exps []*trinity.Experience, name string) (steps [9][]string) {
	for _, e := range exps {
		at := &steps[e.ID.Step]
		if e.Info["input"] == name && !slices.Contains(*at, e.ID.Task) {
			*at = append(*at, e.ID.Task)
		}
	}
	return steps
}

// Recorded rollouts, in any form, join the rollouts of every step unchanged. They pass the
// operators, and the run trains on them.
func TestRecordedRolloutsJoin(t *testing.T) {
	p := newProject(t, tiny, rl)
	var want result
	for _, form := range []string{".jsonl", ".jsonl.gz", ".parquet"} {
		p := p.copyOf(t)
		path := filepath.Join(p.dir, "kept"+form)
		recording(t, path)
		seen := filepath.Join(p.dir, "seen.jsonl")
		if _, err := p.run(t, inputs+"={old: {path: "+path+", batch_size: 2}}", "data_processor.experience_pipeline.output_save_path="+seen,
			"data_processor.experience_pipeline.operators=[{name: expr_filter, args: {condition: '(info.input ?? \"\") != \"old\" or run != "+
				"3'}}]"); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if got := results(t, p.dir); form == ".jsonl" {
			want = got
		} else {
			got.sameAs(t, want)
		}
		exps := p.kept(t)
		steps := joined(exps, "old")
		want := [][]string{{"old/0", "old/4"}, {"old/5", "old/9"}, {"old/10", "old/14"}}
		for step := 1; step <= 8; step++ {
			if !slices.Equal(steps[step], want[(step-1)%3]) {
				t.Errorf("%s: step %d was joined by %v, want %v", form, step, steps[step], want[(step-1)%3])
			}
		}
		for _, e := range exps {
			if e.Info["input"] != nil && (e.Logprobs[3] != -3.5 || e.ID.Task == "old/0" && e.Versions != [2]int64{0, 0}) {
				t.Errorf("%s was changed: %+v", e.ID, e)
			}
		}
		left := slices.DeleteFunc(experiences(t, seen), func(e *trinity.Experience) bool { return e.Info["input"] != "old" })
		if n := len(left); n != 8*4 { // of 5 in each step the operator drops one
			t.Errorf("%d experiences of the input are left of the operators, want 32", n)
		}
		if got := curve(t, p.job(), "explorer", "experience_pipeline/input/old_count"); len(got) != 8 || slices.Min(got) != 5 ||
			slices.Max(got) != 5 {
			t.Errorf("counted %v of the input", got)
		}
		if got := curve(t, p.job(), "trainer", "sample/task_count"); slices.Min(got) != 5 || slices.Max(got) != 5 {
			t.Errorf("%v tasks were trained on in a step, want 3 and 2 recorded ones", got)
		}
	}
}

// Recorded groups may be larger than the run's own, and the buffer may be small: explorer and
// trainer do not wait for each other.
func TestLargeGroupsJoin(t *testing.T) {
	p := newProject(t, tiny, rl)
	recording(t, filepath.Join(p.dir, "kept.jsonl"))
	if _, err := p.run(t, inputs+"={old: {path: "+p.dir+"/kept.jsonl, batch_size: 6}}", "algorithm.repeat_times=2",
		"buffer.batch_size=1", noEvaluation,
		"synchronizer.sync_interval=2", "synchronizer.sync_timeout=20", "buffer.trainer_input.experience_buffer={capacity: "+
			"1}", "buffer.train_batch_size=6"); err != nil {
		t.Fatal(err)
	}
	if got := len(p.kept(t)); got != 8*(2+15) {
		t.Errorf("%d experiences came into the pipeline", got)
	}
}

// Demonstrations join as groups of one, and an operator gives them a reward. The run goes on after
// their last epoch.
func TestDemonstrationsJoin(t *testing.T) {
	p := newProject(t, tiny, rl)
	demonstrations := inputs + "={shown: {path: " + p.dir + "/eval.jsonl, schema_type: sft, batch_size: 3, total_epochs: 2, " +
		"format: {prompt_type: plaintext, prompt_key: question, response_key: answer}, data_selector: {selector_type: shuffle, seed: 1}}}"
	_, err := p.run(t, demonstrations)
	oneLine(t, err, inputs+".shown: ", "eval.jsonl:1: it has no log-probabilities of the policy that sampled it, which algorithm grpo reads")
	if _, err := p.run(t, demonstrations, "algorithm.policy_loss_fn=opmd",
		`data_processor.experience_pipeline.operators=[{name: starlark, `+
			`args: {script: "def process(group):\n  for e in group:\n`+
			`    if e['info'].get('input'):\n      e['reward'] = 1\n  return group"}}]`); err != nil {
		t.Fatal(err)
	}
	exps := p.kept(t)
	steps, rows := joined(exps, "shown"), map[string]int{}
	for step, tasks := range steps {
		if n := []int{0, 3, 3, 2, 0, 0, 0, 0, 0}[step]; len(tasks) != n {
			t.Errorf("%v joined step %d, want %d", tasks, step, n)
		}
		for _, task := range tasks {
			rows[strings.Split(task, "#")[0]]++
		}
	}
	if len(rows) != 4 || rows["shown/0"] != 2 || rows["shown/3"] != 2 {
		t.Errorf("rows joined %v times, want each of 4 twice", rows)
	}
	for _, e := range exps {
		if e.Info["input"] != nil && (e.Logprobs != nil || e.Reward.Valid || !strings.Contains(e.Prompt, "max ") || len(e.Response) != 1) {
			t.Errorf("demonstration %s: %+v", e.ID, e)
		}
	}
	if got := curve(t, p.job(), "trainer", "sample/task_count"); !slices.Equal(got, []float64{6, 6, 5, 3, 3, 3, 3, 3}) {
		t.Errorf("%v tasks in a step", got)
	}
}

// An input may be a table: an archive, or the experiences in another run's buffer.
func TestTablesJoin(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, "buffer.total_steps=2", "buffer.trainer_input.experience_buffer.storage_type=sql", noEvaluation,
		"data_processor.experience_pipeline.input_save_path=sqlite:///"+p.database()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"SELECT experience FROM trinity_experiences ORDER BY number", "trinity_archive"} {
		again := p.copyOf(t)
		if _, err := again.run(t, inputs+".old={path: 'sqlite:///"+p.database()+"', storage_type: sql, subset_name: "+table+", "+
			"total_steps: 3}"); err != nil {
			t.Fatal(err)
		}
		steps := joined(again.kept(t), "old")
		if want := [][]string{{"old/0"}, {"old/4"}, {"old/8"}, nil}; !slices.EqualFunc(steps[1:5], want, slices.Equal) {
			t.Errorf("%s: got %v", table, steps)
		}
	}
}

// A plan names the inputs and counts them in the size of a train step.
func TestInputsArePlanned(t *testing.T) {
	p := newProject(t, tiny, rl)
	recording(t, filepath.Join(p.dir, "kept.jsonl"))
	cfg := p.load(t, inputs+"={old: {path: "+p.dir+"/kept.jsonl, batch_size: 2}, shown: {path: "+p.dir+"/eval.jsonl, schema_type: sft, "+
		"total_epochs: 2}}")
	facts, err := settle.Facts(cfg.Settled()[0])
	if err != nil {
		t.Fatal(err)
	}
	plan, err := cfg.Plan(facts)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"joins        input old (experience): " + p.dir + "/kept.jsonl, 15 rows, batch_size 2, again and again\n",
		"joins        input shown (sft): " + p.dir + "/eval.jsonl, 4 rows, batch_size 1, total_epochs 2\n",
		"8 steps of 21 experiences", // 3 × 4 of the tasks, 2 × 4 and 1
	} {
		if !strings.Contains(plan.String(), want) {
			t.Errorf("no %q in\n%s", want, plan)
		}
	}
}

// A wrong input is an error before the run opens the model.
func TestWrongInputsAreErrors(t *testing.T) {
	p := newProject(t, tiny, rl)
	recording(t, filepath.Join(p.dir, "kept.jsonl"))
	text := read(t, filepath.Join(p.dir, "kept.jsonl", "step-000000001.jsonl"))
	for name, damaged := range map[string]string{
		"foreign": strings.Replace(text, "[5,6,", "[5,99999,", 1), "unsampled": strings.Replace(text, `"logprobs":[0,0,-4,-3.5],`, "", 1),
		"prompt": strings.Replace(text, `"prompt_len":2`, `"prompt_len":9`, 1), "empty": "",
	} {
		write(t, filepath.Join(p.dir, name+".jsonl"), damaged)
	}
	for path, want := range map[string]string{
		"foreign.jsonl":   "foreign.jsonl:1: token 99999 at position 1 is outside the vocabulary of",
		"unsampled.jsonl": "unsampled.jsonl:1: it has no log-probabilities",
		"prompt.jsonl":    "prompt.jsonl:1: prompt_len is 9, of 4 tokens",
		"empty.jsonl":     "has no rows",
		"train.jsonl":     "train.jsonl:1: not an experience: it has no tokens",
		"nowhere.jsonl":   "nowhere.jsonl: no such file",
	} {
		_, err := p.run(t, inputs+"={old: {path: "+filepath.Join(p.dir, path)+"}}")
		oneLine(t, err, inputs+".old", want)
		if exists(filepath.Join(p.job(), "monitor", "metrics.jsonl")) {
			t.Errorf("%s: the run has begun", path)
		}
	}
	long := regexp.MustCompile(`"(tokens|mask|logprobs)":\[([^]]*)\]`).ReplaceAllString(text, `"$1":[$2,$2,$2,$2,$2,$2,$2,$2]`)
	write(t, filepath.Join(p.dir, "long.jsonl"), long)
	_, err := p.run(t, inputs+"={old: {path: "+p.dir+"/long.jsonl}}", "model.max_prompt_tokens=26", "model.max_response_tokens=4")
	oneLine(t, err, "long.jsonl:1: 32 tokens, more than model.max_model_len 30", fmt.Sprintf("%[1]d of %[1]d rows", strings.Count(long, "\n")))
	_, err = config.Load(p.config, config.Options{Overrides: []string{inputs + "={digits: {path: x.jsonl}}"}})
	oneLine(t, err, inputs+".digits", "a taskset is called digits too")
}
