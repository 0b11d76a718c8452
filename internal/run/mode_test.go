package run_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
)

// If a train batch is larger than an explore step, the trainer takes what there is, once for every
// explore step.
func TestALargeTrainBatchIsShort(t *testing.T) {
	whole, larger := newProject(t, tiny, rl), newProject(t, tiny, rl)
	for p, overrides := range map[project][]string{whole: nil, larger: {"buffer.train_batch_size=1000"}} {
		if _, err := p.run(t, overrides...); err != nil {
			t.Fatal(err)
		}
	}
	results(t, larger.dir).sameAs(t, results(t, whole.dir))
}

// total_steps holds even if the run must read its data several times.
func TestStepsMayPassTheDataSeveralTimes(t *testing.T) {
	p := newProject(t, tiny, sft)
	summary, err := p.run(t, "buffer.train_batch_size=400", "buffer.total_steps=4", "trainer.save_interval=0")
	if err != nil || summary.Stages[0].Steps != 4 {
		t.Errorf("%d steps, %v; want 4 of 400 demonstrations each, of 1000 in all", summary.Stages[0].Steps, err)
	}
}

// Mode bench evaluates the base model and every checkpoint. It finds the numbers that the run
// itself found.
func TestBenchEvaluatesEveryCheckpoint(t *testing.T) {
	for name, overrides := range map[string][]string{
		"all weights": {"trainer.save_hf_checkpoint=always"},
		"lora": {"trainer.save_hf_checkpoint=always",
			"model.lora_configs=[{lora_rank: 4, lora_alpha: 4, use_rslora: true, target_modules: all-linear, exclude_modules: [k_proj]}]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const score = "/few/accuracy/mean@2"
			p := newProject(t, tiny, rl)
			if _, err := p.run(t, append(overrides, "trainer.save_interval=4", "explorer.eval_on_startup=true")...); err != nil {
				t.Fatal(err)
			}
			want := curve(t, p.job(), "explorer", "eval"+score)
			if _, err := p.run(t, append(overrides, "mode=bench", "explorer.eval_on_startup=true")...); err != nil {
				t.Fatal(err)
			}
			got := curve(t, p.job(), "explorer", "bench"+score)
			if len(got) != 3 || len(want) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
				t.Errorf("bench found %v for steps 0, 4 and 8, the run %v", got, want)
			}
			if kept := curve(t, p.job(), "explorer", "eval"+score); len(kept) != 3 {
				t.Errorf("bench left %v of the run's own evaluations", kept)
			}
		})
	}
}

// Mode bench also evaluates checkpoints that have only what training resumes from: their models are those
// that training would have written, to the byte.
func TestBenchWritesModels(t *testing.T) {
	for name, overrides := range map[string][]string{
		"all weights": nil, "lora": {"model.lora_configs=[{lora_rank: 4, lora_alpha: 6, target_modules: [q_proj]}]"},
		"head":       {"model.lora_configs=[{lora_rank: 3, lora_alpha: 5, target_modules: [all-linear, lm_head]}]"},
		"stabilised": {"model.lora_configs=[{lora_rank: 3, lora_alpha: 5, use_rslora: true, exclude_modules: [o_proj]}]"},
	} {
		t.Run(name, func(t *testing.T) {
			p, want := newProject(t, tiny, rl), newProject(t, tiny, rl)
			overrides = append(overrides, "buffer.total_steps=2", "trainer.save_interval=1")
			if _, err := p.run(t, append(overrides, "trainer.save_hf_checkpoint=never")...); err != nil {
				t.Fatal(err)
			}
			if _, err := want.run(t, append(overrides, "trainer.save_hf_checkpoint=always")...); err != nil {
				t.Fatal(err)
			}
			if _, err := p.run(t, append(overrides, "mode=bench")...); err != nil {
				t.Fatal(err)
			}
			if got := curve(t, p.job(), "explorer", "bench/few/accuracy/mean@2"); len(got) != 3 {
				t.Errorf("%d evaluations, want those of the base model and of steps 1 and 2", len(got))
			}
			for _, step := range []string{"global_step_1", "global_step_2"} {
				sameFiles(t, filepath.Join(p.job(), step, "actor"), filepath.Join(want.job(), step, "actor"))
			}
		})
	}
}

// sameFiles compares the files of two directories, except for model cards, and for run.json, which says whether a
// due evaluation came before the checkpoint.
func sameFiles(t *testing.T, got, want string) {
	t.Helper()
	read := func(dir string) map[string]string {
		all := map[string]string{}
		project, _, _ := strings.Cut(dir, filepath.FromSlash("/checkpoints/"))
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || slices.Contains([]string{"README.md", "SHA256SUMS", "run.json"}, e.Name()) {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			all[name] = strings.ReplaceAll(string(text), project, "PROJECT")
			return err
		})
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(all), err)
		}
		return all
	}
	a, b := read(got), read(want)
	if names := slices.Sorted(maps.Keys(a)); !slices.Equal(names, slices.Sorted(maps.Keys(b))) {
		t.Fatalf("%s has %v", got, names)
	}
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s of %s differs from what training writes: %d and %d bytes", name, got, len(a[name]), len(b[name]))
		}
	}
}

func TestBenchAndServeReadNoAlgorithm(t *testing.T) {
	p := newProject(t, tiny, rl)
	for _, mode := range []string{"bench", "serve"} {
		cfg := p.load(t, "mode="+mode, "algorithm.policy_loss_fn_args={clip_rnge: 1}", "algorithm.kl_penalty_fn=low_var_kl")
		if _, err := settle.Facts(cfg.Settled()[0]); err != nil {
			t.Errorf("mode %s: %v", mode, err)
		}
	}
}
