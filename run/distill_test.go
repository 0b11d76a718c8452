package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/run"
)

// A student learns the whole next-token distributions of a teacher on a dataset of demonstrations, and the plan of its memory counts what that takes.
func TestAStudentIsDistilled(t *testing.T) {
	p := newProject(t, tiny, sft)
	if _, err := p.run(t); err != nil {
		t.Fatal(err)
	}
	teacher := filepath.Join(p.job(), "global_step_12", run.ModelDir)
	distilled := []string{"name=student", "model.init={style: fan_in, seed: 8}", "algorithm.policy_loss_fn=distill",
		"explorer.auxiliary_models=[{model_path: " + teacher + "}]"}
	plain, err := run.Facts(p.load(t, "name=plain"))
	if err != nil {
		t.Fatal(err)
	}
	planned, err := run.Facts(p.load(t, distilled...))
	if err != nil {
		t.Fatal(err)
	}
	more := map[string]int64{}
	for _, part := range planned.Memory {
		more[part.Kind] += part.Bytes
	}
	for _, part := range plain.Memory {
		more[part.Kind] -= part.Bytes
	}
	if more["logits"] <= 0 || more["teacher"] <= 0 {
		t.Errorf("beside a plain run it takes %v", more)
	}
	for _, divergence := range []string{"reverse_kl", "forward_kl", "jsd"} {
		if _, err := p.run(t, append(distilled, "name="+divergence, "algorithm.policy_loss_fn_args.divergence="+divergence)...); err != nil {
			t.Fatal(err)
		}
		losses := curve(t, filepath.Join(p.dir, "checkpoints", "p", divergence), "trainer", "actor/distill_loss")
		if len(losses) != 12 || losses[0] <= 0 || losses[11] > losses[0]/2 {
			t.Errorf("%s: the divergence from the teacher went %v nats", divergence, losses)
		}
	}
}

// A run with Muon learns, and is not taken up again with another optimizer.
func TestRunWithAnotherOptimizer(t *testing.T) {
	p := newProject(t, tiny, sft)
	muon := "algorithm.optimizer={optimizer_type: muon, lr: 5e-3, lr_scheduler_type: wsd, lr_decay_steps_ratio: 0.5}"
	if _, err := p.run(t, muon, "buffer.total_steps=8"); err != nil {
		t.Fatal(err)
	}
	losses := curve(t, p.job(), "trainer", "actor/sft_loss")
	if rates := curve(t, p.job(), "trainer", "actor/lr"); losses[7] > losses[0]*0.8 || rates[3] != 5e-3 || rates[7] >= rates[6] {
		t.Errorf("losses %v at rates %v", losses, rates)
	}
	_, err := p.run(t)
	if err == nil || !strings.Contains(err.Error(), "is of a run with optimizer muon, this engine was opened with adamw") || strings.Contains(err.Error(), "\n") {
		t.Errorf("taken up with AdamW: %v", err)
	}
}
