package run_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
)

// A checkpoint that has only the trainer's state opens as policy and as critic; its critic is what training
// would have written. One of another engine says what to do.
func TestAStateOpens(t *testing.T) {
	p, want := newProject(t, tiny, rl), newProject(t, tiny, rl)
	settings := append(fields(withCritic), "buffer.total_steps=2", "trainer.save_interval=1")
	if _, err := p.run(t, append(settings, "trainer.save_hf_checkpoint=never")...); err != nil {
		t.Fatal(err)
	}
	if _, err := want.run(t, append(settings, "trainer.save_hf_checkpoint=always")...); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(p.job(), "global_step_1")
	if _, err := p.run(t, append(settings, "name=next", "model.critic_model_path="+first)...); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"actor", "critic"} {
		if of == "actor" {
			atOnce(t, first)
			if _, err := p.run(t, "name=policy", "buffer.total_steps=1", "model.model_path="+first); err != nil {
				t.Fatal(err)
			}
		}
		sameFiles(t, filepath.Join(first, of, "huggingface"), filepath.Join(want.job(), "global_step_1", of, "huggingface"))
	}
	last := filepath.Join(p.job(), "global_step_2")
	about := filepath.Join(last, "run.json")
	text, err := os.ReadFile(about)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `"trainer.trainer_type": "auto"`, `"trainer.trainer_type": "torch"`, 1))
	if err := os.WriteFile(about, text, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = p.run(t, "name=other", "model.model_path="+last)
	oneLine(t, err, "run.json", "damaged")
	if err := durable.Seal(last); err != nil {
		t.Fatal(err)
	}
	_, err = p.run(t, "name=other", "model.model_path="+last)
	oneLine(t, err, last+" has only what training resumes from", "the engine torch alone reads", "trainer.save_hf_checkpoint=always")
}

// atOnce opens a checkpoint several times at once, in which a killed process has begun to write the model.
func atOnce(t *testing.T, dir string) {
	t.Helper()
	left := filepath.Join(dir, "actor", durable.TempPrefix+"huggingface")
	if err := errors.Join(os.MkdirAll(left, 0o755), os.WriteFile(filepath.Join(left, "config.json"), []byte("{"), 0o644)); err != nil {
		t.Fatal(err)
	}
	var opens errgroup.Group
	for range 4 {
		opens.Go(func() error {
			path, err := checkpoint.Open(dir, func(name string) (string, error) { return name, nil }, func(string) {})
			if err == nil {
				err = durable.Verify(path)
			}
			return err
		})
	}
	if err := opens.Wait(); err != nil {
		t.Error(err)
	}
}
