package run_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("test_host", "Asks the host for everything that it has.", func() trinity.Workflow { return &hosted{} })
}

// hosted rewards a reply with the share of its question's tokens that two models continue alike.
type hosted struct {
	Beside string `yaml:"beside" doc:"the other model"`
}

func (w *hosted) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	dir, err := r.Host.Dir("notes")
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, strings.NewReplacer("/", "-").Replace(r.Model.ID.String()))
	other, err := r.Host.Model(w.Beside)
	if err != nil {
		return nil, os.WriteFile(name, []byte(err.Error()), 0o644)
	}
	messages := []trinity.Message{{Role: "user", Content: fmt.Sprint(r.Task.Row["question"])}}
	other.Params.Temperature = 0
	if !other.Params.Untrained {
		return nil, fmt.Errorf("the run trains on the tokens of %q", w.Beside)
	}
	theirs, err := other.Chat(ctx, messages, nil)
	if err != nil {
		return nil, err
	}
	r.Host.Say("the host speaks")
	if err := os.WriteFile(name, []byte(theirs.Response), 0o644); err != nil {
		return nil, err
	}
	e, err := r.Model.Chat(ctx, messages, nil)
	if err != nil {
		return nil, err
	}
	e.Reward = trinity.NewReward(map[string]float64{"accuracy": float64(len(theirs.Tokens))})
	return []*trinity.Experience{e}, nil
}

func TestAWorkflowUsesItsHost(t *testing.T) {
	overrides := []string{noEvaluation, "buffer.total_steps=1", "buffer.explorer_input.taskset.default_workflow_type=test_host"}
	notes := func(p project) (texts []string) {
		files, _ := filepath.Glob(filepath.Join(p.job(), "work", "notes", "*"))
		for _, file := range files {
			texts = append(texts, read(t, file))
		}
		return texts
	}
	p := newProject(t, tiny, rl)
	var said atomic.Int32
	cfg := p.load(t, append(overrides, "model.lora_configs=[{lora_rank: 4, lora_alpha: 4}]",
		"buffer.explorer_input.taskset.workflow_args={beside: base}")...)
	_, err := run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(line string) {
		if line == "the host speaks" {
			said.Add(1)
		}
	}})
	if n := len(notes(p)); err != nil || n != 12 || int(said.Load()) != n {
		t.Errorf("%d of 12 rollouts kept a note, %d spoke: %v", n, said.Load(), err)
	}
	p = newProject(t, tiny, rl)
	if _, err := p.run(t, append(overrides, "buffer.explorer_input.taskset.workflow_args={beside: base}")...); err != nil {
		t.Fatal(err)
	}
	for _, note := range notes(p) {
		if note != `there is no model "base" beside the policy (none): model.lora_configs names them` {
			t.Fatalf("got %q", note)
		}
	}
}
