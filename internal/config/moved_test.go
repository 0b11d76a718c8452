package config

import (
	"slices"
	"strings"
	"testing"
)

// veRL's optimizer is algorithm.optimizer, and use_priority_queue the replay buffer.
func TestMovedKeys(t *testing.T) {
	c := mustParse(t, base+`
trainer:
  trainer_config:
    actor_rollout_ref:
      actor:
        optim: {lr: 3e-5, lr_warmup_steps: 7, lr_warmup_steps_ratio: 0.2, min_lr_ratio: 0.5, lr_scheduler_type: cosine, betas: [0.8, 0.9],
          weight_decay: 0.3, clip_grad: 2}
`, Options{Overrides: []string{"buffer.trainer_input.experience_buffer.use_priority_queue=true"}})
	o := c.Algorithm.Optimizer
	if o.LR != 3e-5 || o.LRWarmupSteps != 7 || o.LRWarmupStepsRatio != 0.2 || o.MinLRRatio != 0.5 || o.LRSchedulerType != "cosine" ||
		!slices.Equal(o.Betas, []float64{0.8, 0.9}) || o.WeightDecay != 0.3 || o.ClipGrad != 2 || c.Trainer.GradClip != 2 {
		t.Errorf("%+v, grad_clip %v", o, c.Trainer.GradClip)
	}
	if !c.Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer.Enable {
		t.Error("use_priority_queue does not turn the replay buffer on")
	}
	const optim = "trainer.trainer_config.actor_rollout_ref.actor.optim."
	for _, other := range []string{"algorithm.optimizer.lr=1e-4", "algorithm.optimizer.lr=3e-5"} {
		_, err := parse(t, base, Options{Overrides: []string{optim + "lr=3e-5", other}})
		if differs := err != nil && strings.Contains(err.Error(), "optim.lr: differs from algorithm.optimizer.lr; keep one of them"); differs !=
			strings.HasSuffix(other, "1e-4") {
			t.Errorf("%s: %v", other, err)
		}
	}
}
