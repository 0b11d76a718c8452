package run_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// A student learns the whole next-token distributions of a teacher on a dataset of demonstrations.
// The memory plan counts them.
func TestAStudentLearnsFromDemonstrations(t *testing.T) {
	p := newProject(t, tiny, sft)
	if _, err := p.run(t); err != nil {
		t.Fatal(err)
	}
	teacher := filepath.Join(p.job(), "global_step_12", checkpoint.ModelDir)
	distilled := []string{"name=student", "model.init={style: fan_in, seed: 8}", "algorithm.policy_loss_fn=distill",
		"explorer.auxiliary_models=[{model_path: " + teacher + "}]"}
	plain, err := settle.Facts(p.load(t, "name=plain").Settled()[0])
	if err != nil {
		t.Fatal(err)
	}
	planned, err := settle.Facts(p.load(t, distilled...).Settled()[0])
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

// A run with Muon learns. It cannot resume with another optimizer.
func TestMuonLearns(t *testing.T) {
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
	if err == nil || !strings.Contains(err.Error(), "algorithm.optimizer.optimizer_type: is adamw and was muon, so the run cannot go "+
		"on") || strings.Contains(err.Error(), "\n") {
		t.Errorf("taken up with AdamW: %v", err)
	}
}

// On its own rollouts a student comes nearer to the teacher's distributions, also on questions that
// neither has seen. The run asks the teacher for nothing that no loss reads: it computes no
// advantage.
func TestAStudentLearnsOnItsOwnRollouts(t *testing.T) {
	p := newProject(t, tiny, sft)
	if _, err := p.run(t, "buffer.total_steps=60", "trainer.save_interval=0"); err != nil {
		t.Fatal(err)
	}
	teacher := filepath.Join(p.job(), "global_step_60", checkpoint.ModelDir)
	write(t, p.config, strings.ReplaceAll(rl, "DIR", p.dir))
	questions := p.formatted(t, "sft", "sft.jsonl")[:64]
	wise := forward(t, teacher, questions)
	for algorithm, divergence := range map[string]string{"on_policy_distill": "reverse_kl", "jsd": "jsd"} {
		t.Run(algorithm, func(t *testing.T) {
			job := filepath.Join(filepath.Dir(p.job()), algorithm)
			_, err := p.run(t, "name="+algorithm, "model.init={style: fan_in, seed: 8}", "buffer.total_steps=30",
				"trainer.save_hf_checkpoint=always", "trainer.save_interval=1",
				"algorithm={algorithm_type: "+algorithm+", repeat_times: 4, policy_loss_fn: distill, policy_loss_fn_args: {divergence: "+
					divergence+"}, optimizer: {lr: 5e-3, lr_warmup_steps: 2, lr_scheduler_type: linear}}",
				"explorer.auxiliary_models=[{model_path: "+teacher+"}]", noEvaluation)
			if err != nil {
				t.Fatal(err)
			}
			losses := curve(t, job, "trainer", "actor/distill_loss")
			if len(losses) != 30 || mean(losses[25:]) > losses[0]/2 {
				t.Errorf("on its rollouts the divergence from the teacher went %v nats", losses)
			}
			first := distance(wise, forward(t, filepath.Join(job, "global_step_1", checkpoint.ModelDir), questions))
			last := distance(wise, forward(t, filepath.Join(job, "global_step_30", checkpoint.ModelDir), questions))
			t.Logf("divergence on rollouts %.3f to %.3f; log-probabilities of demonstrations are %.3f and %.3f nats off", losses[0],
				mean(losses[25:]), first, last)
			if last > first/2 {
				t.Errorf("log-probabilities of demonstrations were %.3f nats off the teacher's, and are %.3f", first, last)
			}
			for _, name := range []string{"time/teacher_log_probs", "critic/advantages/mean"} {
				if got := curve(t, job, "trainer", name); len(got) != 0 {
					t.Errorf("%s: %v, and no loss reads it", name, got)
				}
			}
		})
	}
}

// distance returns the mean difference of log-probabilities over tokens, in nats.
func distance(a, b []trinity.TokenStats) float64 {
	sum, n := 0.0, 0
	for i := range a {
		for t, lp := range a[i].Logprob {
			if lp != 0 {
				sum += math.Abs(float64(lp - b[i].Logprob[t]))
				n++
			}
		}
	}
	return sum / float64(n)
}
