package run_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
)

// keepsBest makes the run rl keep its best checkpoint and end early.
const keepsBest = "explorer.eval_interval=1 trainer.save_interval=3 trainer.keep_best=eval/few/accuracy/mean@2 trainer.patience=2 " +
	"explorer.eval_on_startup=false buffer.total_steps=14 algorithm.optimizer.lr=0.02"

// keepsAsWhole checks that the run ended at the step of the run without a kill, and knows and keeps the same
// best checkpoint.
func (s *killing) keepsAsWhole(t *testing.T) {
	t.Helper()
	for _, name := range []string{"best.json", "latest_checkpointed_iteration.txt"} {
		if got, want := read(t, filepath.Join(s.p.job(), name)), read(t, filepath.Join(s.whole.job(), name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	got, want := saved(t, s.p), saved(t, s.whole)
	if !slices.Equal(got, want) {
		t.Errorf("the checkpoints are %v, want %v", got, want)
	}
	best, err := rundir.ReadBest(s.p.job())
	if err != nil || best == nil {
		t.Fatal(best, err)
	}
	sameFiles(t, best.Checkpoint, filepath.Join(s.whole.job(), filepath.Base(best.Checkpoint)))
	if fmt.Sprint(s.p.consumed(t)) != fmt.Sprint(s.whole.consumed(t)) {
		t.Error("the batches differ")
	}
}

// saved lists the checkpoints of a run.
func saved(t *testing.T, p project) (names []string) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(p.job(), "global_step_*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		names = append(names, filepath.Base(dir))
	}
	return names
}

// The best checkpoint has the weights that were evaluated. It outlives the rotation, is what the run hands on,
// and ends the run when nothing better comes. The same command then does nothing.
func TestTheBestCheckpointIsKept(t *testing.T) {
	const metric = "eval/few/accuracy/mean@2"
	p, all := newProject(t, tiny, rl), newProject(t, tiny, rl)
	settings := append(strings.Fields(keepsBest), "trainer.max_checkpoints_to_keep=1")
	sum, err := p.run(t, settings...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.run(t, append(settings, "trainer.keep_best=", "trainer.patience=0", "trainer.max_checkpoints_to_keep=0",
		"trainer.save_interval=1", "trainer.save_hf_checkpoint=always")...); err != nil {
		t.Fatal(err)
	}
	values := curve(t, all.job(), "explorer", metric) // of versions 1, 2, …
	best, ends := 1, 0
	for version := 2; version <= len(values) && ends == 0; version++ {
		if values[version-1] > values[best-1]+1e-6 {
			best = version
		} else if version-best == 2 {
			ends = version + 1 // the step whose version the trainer publishes next
		}
	}
	if ends < 5 || ends >= 14 {
		t.Fatalf("the fixture has %v", values)
	}
	if values[ends-1] > values[best-1]+1e-6 { // the explorer evaluates the last version, too
		best = ends
	}
	b := sum.Stages[0].Best
	if b == nil || b.Step != int64(best) || b.Value != values[best-1] || b.Metric != metric {
		t.Fatalf("the best is %+v, want step %d of %v", b, best, values)
	}
	if sum.Stages[0].Steps != int64(ends) {
		t.Errorf("%d steps, want %d: %v", sum.Stages[0].Steps, ends, values)
	}
	step := fmt.Sprintf("global_step_%d", best)
	sameFiles(t, filepath.Join(p.job(), step, "actor"), filepath.Join(all.job(), step, "actor"))
	if want := filepath.Join(p.job(), step, "actor", "huggingface"); sum.Stages[0].Model != want {
		t.Errorf("the model is %s, want %s", sum.Stages[0].Model, want)
	}
	if got := saved(t, p); !slices.Contains(got, step) || !slices.Contains(got, fmt.Sprintf("global_step_%d", ends)) || len(got) > 3 {
		t.Errorf("the checkpoints are %v", got)
	}
	again, err := p.run(t, settings...)
	if err != nil || len(again.Stages[0].Losses) != ends || again.Stages[0].Steps != int64(ends) || *again.Stages[0].Best != *b {
		t.Errorf("%+v, %v", again.Stages, err)
	}
	if longer, err := p.run(t, append(settings, "trainer.patience=0")...); err != nil || longer.Stages[0].Steps != 14 {
		t.Errorf("without patience: %v, %+v", err, longer.Stages)
	}
	_, err = p.run(t, append(settings, "name=typo", "trainer.keep_best=eval/few/acuracy/mean@2")...)
	oneLine(t, err, "trainer.keep_best is eval/few/acuracy/mean@2", "it measures eval/few/accuracy/best@2")
}

// A trainer that evaluates knows at once what is the best, and the next stage begins with it.
func TestAStageHandsOnItsBest(t *testing.T) {
	p := newProject(t, tiny, sft)
	settings := []string{"buffer.trainer_input.eval_buffers={held_out: {path: " + filepath.Join(p.dir, "sft.jsonl") +
		", format: {prompt_type: plaintext, prompt_key: question, response_key: response}}}",
		"explorer.eval_interval=1", "trainer.save_interval=0", "buffer.total_steps=30", "trainer.keep_best=eval/held_out/final_loss",
		"trainer.patience=2", "algorithm.optimizer.lr=0.2", "algorithm.optimizer.lr_warmup_steps=6"}
	sum, err := p.run(t, settings...)
	if err != nil {
		t.Fatal(err)
	}
	values := curve(t, p.job(), "trainer", "eval/held_out/final_loss")
	b := sum.Stages[0].Best
	if b == nil || b.Value != slices.Min(values) {
		t.Fatalf("%+v of %v", b, values)
	}
	if n := len(values); n >= 30 || values[n-1] < b.Value || values[n-2] < b.Value {
		t.Errorf("ended with %v", values)
	}
	var known rundir.Evaluations
	text, err := os.ReadFile(filepath.Join(p.job(), "best.json"))
	if err != nil || json.Unmarshal(text, &known) != nil || !known.Lower || len(known.All) != len(values) {
		t.Errorf("%s, %v", text, err)
	}
	names := map[string]bool{}
	for _, name := range saved(t, p) {
		names[name] = true
	}
	if len(names) != 2 || !strings.HasSuffix(b.Checkpoint, slices.Sorted(maps.Keys(names))[0]) && !names[filepath.Base(b.Checkpoint)] {
		t.Errorf("the checkpoints are %v", names)
	}
}
