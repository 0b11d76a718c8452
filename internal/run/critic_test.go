package run_test

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// withCritic makes the run rl one of PPO, with everything that has a state: a critic, and a KL
// penalty whose coefficient moves.
var withCritic = []string{"algorithm.algorithm_type=ppo", "algorithm.advantage_fn_args={gamma: 0.99, lam: 0.95}", "trainer.critic_warmup=2",
	"trainer.trainer_config.critic={optim: {lr: 2e-3, lr_scheduler_type: linear}, ppo_mini_batch_size: 4, ppo_epochs: 2}",
	"algorithm.kl_penalty_fn=k2", "algorithm.kl_penalty_fn_args={kl_coef: 0.1, adaptive: true, target_kl: 0.02, horizon: 60}"}

// A run of PPO plans, trains, logs and saves a critic. Another run can start from the saved critic.
func TestPPOTrainsACritic(t *testing.T) {
	p := newProject(t, tiny, rl)
	plan, err := p.load(t, withCritic...).PlanStages(settle.Facts)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"critic       a copy of the model with a value head, all weights trained, learning rate 0.002, 6 " +
		"optimizer steps each; the first 2 steps train it alone",
		"critic's weights", "critic's optimizer", "critic's activations", "base weights", filepath.Join("global_step_<N>", "critic",
			"huggingface")} {
		if !strings.Contains(plan.String(), words) {
			t.Errorf("no %q in\n%s", words, plan)
		}
	}
	if _, err := p.run(t, withCritic...); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"values/mean", "returns/mean", "advantages/mean", "score/mean", "vf_loss", "vf_clipfrac",
		"vpred_mean", "vf_explained_var", "grad_norm", "lr", "kl", "kl_coef"} {
		if got := curve(t, p.job(), "trainer", "critic/"+name); len(got) != 8 {
			t.Errorf("critic/%s was logged in %d of 8 steps", name, len(got))
		}
	}
	if advantage := curve(t, p.job(), "trainer", "critic/advantages/mean"); math.Abs(advantage[0]) > 1e-5 {
		t.Errorf("the mean of whitened advantages is %v", advantage[0])
	}
	if policy := curve(t, p.job(), "trainer", "actor/lr"); len(policy) != 6 {
		t.Errorf("the policy was trained in %d steps, want 8 less 2", len(policy))
	}
	if kl := curve(t, p.job(), "trainer", "critic/kl"); kl[0] != 0 || kl[2] != 0 || kl[3] <= 0 {
		t.Errorf("KL from the reference is %v, want 0 until the policy has been trained, in step 3", kl)
	}
	loss := curve(t, p.job(), "trainer", "critic/vf_loss")
	if mean(loss[6:]) >= loss[0] {
		t.Errorf("the critic's loss is %v", loss)
	}

	saved := filepath.Join(p.job(), "global_step_8", "critic", "huggingface")
	var shape struct{ Architectures []string }
	if err := json.Unmarshal([]byte(read(t, filepath.Join(saved, "config.json"))), &shape); err != nil ||
		!strings.HasSuffix(shape.Architectures[0], "ForTokenClassification") {
		t.Errorf("the critic was saved as %v, %v", shape, err)
	}
	next := append(fields(withCritic), "name=next", "buffer.total_steps=1", "model.critic_model_path="+saved)
	if _, err := p.run(t, next...); err != nil {
		t.Fatal(err)
	}
	job := filepath.Join(filepath.Dir(p.job()), "next")
	if fresh, learnt := curve(t, p.job(), "trainer", "critic/vf_loss")[0], curve(t, job, "trainer", "critic/vf_loss")[0]; learnt >= fresh {
		t.Errorf("the loss of a critic that was saved is %v, of a new one it was %v", learnt, fresh)
	}
}

// A stage starts from the critic of the stage before it, unless the file names another one.
func TestAStageStartsFromTheCriticOfTheStageBefore(t *testing.T) {
	p := newProject(t, tiny, rl+"stages: [{stage_name: one}, {stage_name: sft, mode: train, algorithm: {algorithm_type: sft}, buffer: "+
		"{train_batch_size: 6, total_steps: 1, "+
		"trainer_input: {experience_buffer: {path: DIR/sft.jsonl, format: {prompt_type: plaintext, prompt_key: question}}}}}, "+
		"{stage_name: two}]\n")
	overrides := append(fields(withCritic), "explorer.eval_on_startup=false", "trainer.critic_warmup=0", "trainer.save_interval=0")
	plan, err := p.load(t, overrides...).PlanStages(settle.Facts)
	if err != nil || !strings.Contains(plan.String(), "critic       the critic of stage one, all weights trained") {
		t.Errorf("%v\n%s", err, plan)
	}
	if _, err := p.run(t, overrides...); err != nil {
		t.Fatal(err)
	}
	off := func(name, stage string) float64 { // of the first batch's values from its returns, before the critic learns from them
		job := filepath.Join(filepath.Dir(p.job()), name, stage)
		return math.Abs(curve(t, job, "trainer", "critic/values/mean")[0] - curve(t, job, "trainer", "critic/returns/mean")[0])
	}
	if fresh, learnt := off("r", "one"), off("r", "two"); learnt >= 0.7*fresh {
		t.Errorf("the critic's values are %v off at first, and %v where the next stage begins", fresh, learnt)
	}
	other := filepath.Join(p.dir, "other")
	for _, file := range []string{"config.json", "tokenizer.json", "tokenizer_config.json"} {
		write(t, filepath.Join(other, file), read(t, filepath.Join(p.dir, "model", file)))
	}
	if _, err := p.run(t, append(overrides, "name=named", "model.critic_model_path="+other)...); err != nil {
		t.Fatal(err)
	}
	if fresh, named := off("r", "one"), off("named", "two"); named < 0.7*fresh {
		t.Errorf("the values of the critic that the file names are %v off, where a new one's are %v", named, fresh)
	}
}

// The critic has the optimizer of its section. A run cannot resume with another one.
func TestTheCriticHasItsOwnOptimizer(t *testing.T) {
	p := newProject(t, tiny, rl)
	overrides := append(fields(withCritic), "explorer.eval_on_startup=false",
		"trainer.trainer_config.critic.optim={lr: 5e-3, optimizer_type: muon, lr_scheduler_type: wsd, lr_decay_steps_ratio: 0.5}")
	plan, err := p.load(t, overrides...).PlanStages(settle.Facts)
	if err != nil || !strings.Contains(plan.String(), "learning rate 0.005, optimizer muon, ") {
		t.Errorf("%v\n%s", err, plan)
	}
	if _, err := p.run(t, append(overrides, "buffer.total_steps=4")...); err != nil {
		t.Fatal(err)
	}
	rates, loss := curve(t, p.job(), "trainer", "critic/lr"), curve(t, p.job(), "trainer", "critic/vf_loss")
	if len(rates) != 4 || rates[1] != 5e-3 || rates[3] >= rates[2] || loss[3] >= loss[0] {
		t.Errorf("losses %v at rates %v", loss, rates)
	}
	_, err = p.run(t, fields(withCritic)...)
	oneLine(t, err, "trainer.trainer_config.critic.optim.optimizer_type: is adamw and was muon, so the run cannot go on")
}

// In a run that trains an adapter, all weights of the critic are trained.
func TestTheCriticOfAnAdapterTrainsAllWeights(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, append(fields(withCritic), "buffer.total_steps=3",
		"model.lora_configs=[{lora_rank: 4, lora_alpha: 8}]")...); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"actor/lora_adapter/adapter_model.safetensors", "critic/huggingface/model.safetensors",
		"critic/engine/state.safetensors"} {
		if !exists(filepath.Join(p.job(), "global_step_3", path)) {
			t.Errorf("no %s in the checkpoint", path)
		}
	}
}

// A2C learns from returns of two tokens, with a critic and without clipping.
func TestA2CLearns(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := p.run(t, "buffer.total_steps=3", "algorithm.algorithm_type=a2c", "algorithm.repeat_times=1",
		"algorithm.advantage_fn_args={n_steps: 2}", "buffer.batch_size=12")
	if err != nil {
		t.Fatal(err)
	}
	if got := curve(t, p.job(), "trainer", "critic/vf_loss"); len(got) != 3 {
		t.Errorf("losses of the critic: %v", got)
	}
	if got := curve(t, p.job(), "trainer", "actor/pg_clipfrac"); len(got) != 3 || got[0]+got[1]+got[2] != 0 {
		t.Errorf("clipped: %v", got)
	}
}

// An adaptive coefficient follows the KL that the run logs beside it, in the reward and in the
// loss.
func TestTheCoefficientFollowsTheKL(t *testing.T) {
	const control = "{kl_coef: 0.1, adaptive: true, target_kl: 0.005, horizon: 40}"
	oneStep := "trainer.trainer_config={actor_rollout_ref: {actor: {ppo_mini_batch_size: 12}}}" // of the optimizer, in a train step
	for where, overrides := range map[string][]string{
		"critic/kl":     {"algorithm.advantage_fn=ppo", "algorithm.kl_penalty_fn=k2", "algorithm.kl_penalty_fn_args=" + control},
		"actor/kl_loss": {"algorithm.kl_loss_fn=k2", "algorithm.kl_loss_fn_args=" + control},
	} {
		p := newProject(t, tiny, rl)
		if _, err := p.run(t, append(overrides, oneStep)...); err != nil {
			t.Fatal(err)
		}
		kl, coef := curve(t, p.job(), "trainer", where), curve(t, p.job(), "trainer", filepath.Dir(where)+"/kl_coef")
		if len(kl) != 8 || len(coef) != 8 || math.Abs(coef[0]-0.1) > 1e-12 {
			t.Fatalf("%s: %v with coefficients %v", where, kl, coef)
		}
		up := false
		for step := range 7 {
			off := max(-0.2, min(0.2, kl[step]/0.005-1))
			if want := coef[step] * (1 + off*12/40); math.Abs(coef[step+1]-want) > 1e-9 {
				t.Errorf("%s: coefficient of step %d is %v, want %v after %v", where, step+2, coef[step+1], want, kl[step])
			}
			up = up || off > 0
		}
		if coef[1] >= coef[0] || !up {
			t.Errorf("%s: coefficients %v of KL %v: want them to fall where there is none, and to rise later", where, coef, kl)
		}
	}
}

// A run reports a critic that does not fit before it loads any weights.
func TestCriticsAreCheckedBeforeARun(t *testing.T) {
	p := newProject(t, tiny, rl)
	small := filepath.Join(p.dir, "small")
	var shape map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(p.dir, "model", "config.json"))), &shape); err != nil {
		t.Fatal(err)
	}
	vocabulary := shape["vocab_size"]
	shape["vocab_size"] = 100
	write(t, filepath.Join(small, "config.json"), encode(t, shape))
	short := filepath.Join(p.dir, "short")
	shape["vocab_size"], shape["max_position_embeddings"] = vocabulary, 16
	write(t, filepath.Join(short, "config.json"), encode(t, shape))
	for path, want := range map[string]string{small: fmt.Sprintf("has a vocabulary of 100 and the policy one of %v", vocabulary),
		short: "has positions for 16 tokens"} {
		cfg := p.load(t, "algorithm.advantage_fn=ppo", "model.critic_model_path="+path)
		_, checked := settle.Facts(cfg.Settled()[0])
		_, ran := runConfig(t, cfg)
		for _, err := range []error{checked, ran} {
			oneLine(t, err, "model.critic_model_path: ", want)
		}
	}
	missing, err := p.load(t, "algorithm.advantage_fn=ppo", "model.critic_model_path=no/such/critic/here").PlanStages(settle.Facts)
	if err != nil || !strings.Contains(missing.String(), "model.critic_model_path: no/such/critic/here") {
		t.Errorf("%v\n%s", err, missing)
	}
}

// What 8-bit moments save is the difference of two plans, whose critics have the policy's type of optimizer or one of their own.
func TestTheMemoryOf8BitMomentsCountsTheCritic(t *testing.T) {
	p := newProject(t, tiny, rl)
	var shape map[string]any
	file := filepath.Join(p.dir, "model", "config.json")
	if err := json.Unmarshal([]byte(read(t, file)), &shape); err != nil {
		t.Fatal(err)
	}
	shape["intermediate_size"] = 1 << 16
	write(t, file, encode(t, shape))
	for _, own := range [][]string{nil, {"trainer.trainer_config.critic.optim.optimizer_type=adamw"}} {
		facts := func(more ...string) (config.Facts, int64) {
			t.Helper()
			f, err := settle.Facts(p.load(t, slices.Concat(withCritic, own, more)...).Settled()[0])
			if err != nil {
				t.Fatal(err)
			}
			sum := int64(0)
			for _, part := range f.Memory {
				sum += part.Bytes
			}
			return f, sum
		}
		const coded = "algorithm.optimizer.optimizer_type=adamw_8bit"
		f, now := facts()
		_, then := facts(coded)
		i := slices.IndexFunc(f.Choices, func(c config.MemoryChoice) bool { return c.Setting == coded })
		if i < 0 || f.Choices[i].Saves != now-then {
			t.Errorf("%q: the choices are %v; want one that saves %d bytes with %s", own, f.Choices, now-then, coded)
		}
	}
}

// A run with a critic cannot resume from a checkpoint without one.
func TestACriticCannotJoinLater(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, "buffer.total_steps=2"); err != nil {
		t.Fatal(err)
	}
	_, err := p.run(t, "buffer.total_steps=4", "algorithm.advantage_fn=ppo")
	oneLine(t, err, "it has no critic", fmt.Sprint("global_step_", 2))
}
