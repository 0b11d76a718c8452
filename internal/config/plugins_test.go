package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/registry"
)

// These tests register their own plug-ins, as a small build of the program would.
func TestMain(m *testing.M) {
	register(registry.Algorithms, "grpo", func() *trinity.Algorithm {
		return &trinity.Algorithm{Schema: "experience", GroupSize: 2, Advantage: "grpo", PolicyLoss: "ppo", KLLoss: "k2",
			Entropy: "default", SampleStrategy: "default", KLPenalty: "none"}
	})
	register(registry.Algorithms, "dapo", func() *trinity.Algorithm {
		return &trinity.Algorithm{Schema: "experience", GroupSize: 16, Advantage: "grpo", PolicyLoss: "ppo", KLLoss: "none",
			Entropy: "default", SampleStrategy: "default", KLPenalty: "none"}
	})
	register(registry.Algorithms, "sft", func() *trinity.Algorithm {
		return &trinity.Algorithm{Schema: "sft", GroupSize: 1, Offline: true, PolicyLoss: "sft", KLLoss: "none",
			Entropy: "none", SampleStrategy: "default", KLPenalty: "none"}
	})
	register(registry.Algorithms, "mixing", func() *trinity.Algorithm {
		return &trinity.Algorithm{Schema: "experience", GroupSize: 8, Advantage: "grpo", PolicyLoss: "ppo", KLLoss: "k2",
			Entropy: "default", SampleStrategy: "mix", KLPenalty: "none"}
	})
	register(registry.Algorithms, "distilling", func() *trinity.Algorithm {
		return &trinity.Algorithm{Schema: "experience", GroupSize: 8, Advantage: "distilling", PolicyLoss: "ppo", KLLoss: "none",
			Entropy: "default", SampleStrategy: "default", KLPenalty: "none"}
	})
	register(registry.Algorithms, "clipping", func() *trinity.Algorithm {
		return &trinity.Algorithm{Schema: "experience", GroupSize: 2, Advantage: "grpo", PolicyLoss: "ppo",
			PolicyLossArgs: map[string]any{"clip_range_low": 0.2},
			KLLoss:         "none", Entropy: "default", SampleStrategy: "default", KLPenalty: "none"}
	})
	register(registry.SampleStrategies, "default", func() trinity.SampleStrategy { return &fakeStrategy{} })
	register(registry.SampleStrategies, "staleness_control", func() trinity.SampleStrategy { return &fakeStrategy{} })
	register(registry.SampleStrategies, "mix", func() trinity.SampleStrategy { return &fakeMix{Ratio: 0.25, Name: "sft_dataset"} })
	register(registry.Advantages, "distilling", func() trinity.Advantage { return &fakeDistill{} })
	for schema, loss := range map[string]string{"dpo": "dpo", "kto": "kto", "cpt": "sft"} {
		register(registry.Algorithms, schema, func() *trinity.Algorithm {
			return &trinity.Algorithm{Schema: schema, GroupSize: 1, Offline: true, PolicyLoss: loss, KLLoss: "none", Entropy: "none",
				SampleStrategy: "default", KLPenalty: "none"}
		})
	}
	register(registry.Algorithms, "scoring", func() *trinity.Algorithm {
		return &trinity.Algorithm{Schema: "dpo", GroupSize: 1, Offline: true, PolicyLoss: "scoring", KLLoss: "none", Entropy: "none",
			SampleStrategy: "default", KLPenalty: "none"}
	})
	register(registry.Advantages, "none", func() trinity.Advantage { return &fakeNone{} })
	register(registry.Advantages, "grpo", func() trinity.Advantage { return &fakeAdvantage{} })
	register(registry.Advantages, "ppo", func() trinity.Advantage { return &fakeCritic{} })
	registry.Trainers.Auto, registry.Samplers.Auto = []string{"cpu"}, []string{"cpu"}
	register(registry.Trainers, "cpu", func() engine.TrainerOpener { return &fakeTrainer{} })
	register(registry.Trainers, "sharded", func() engine.TrainerOpener { return &shardedTrainer{} })
	register(registry.Trainers, "silent", func() engine.TrainerOpener { return &silentTrainer{} })
	register(registry.Samplers, "cpu", func() engine.SamplerOpener { return &fakeSampler{} })
	register(registry.Samplers, "served", func() engine.SamplerOpener { return &fakeServed{} })
	register(registry.Samplers, "silent", func() engine.SamplerOpener { return &silentSampler{} })
	registry.Buffers.Auto = []string{"sql"}
	register(registry.Buffers, "sql", func() trinity.BufferOpener { return &fakeOpener{} })
	priorities := registry.New[any]("priority_fn", "")
	register(priorities, "linear_decay", func() any { return &fakePriority{Decay: 2} })
	register(priorities, "decay_limit_randomization", func() any { return &fakeNoisyPriority{Decay: 2} })
	register(registry.Workflows, "math_workflow", func() trinity.Workflow { return &fakeWorkflow{} })
	register(registry.Workflows, "simple_workflow", func() trinity.Workflow { return &rewardUser{} })
	register(registry.Rewards, "math_reward", func() trinity.RewardFunc { return &fakeReward{} })
	selectors := registry.New[any]("selector", "")
	register(selectors, "sequential", func() any { return &fakeSelector{} })
	register(selectors, "difficulty_based", func() any { return &fakeLearner{} })
	register(selectors, "shuffle", func() any { return &fakeSelector{} })
	losses := registry.New[any]("policy_loss_fn", "")
	register(losses, "ppo", func() any { return &fakeLoss{ClipRange: 0.2} })
	register(losses, "sft", func() any { return &fakeLoss{} })
	register(losses, "dpo", func() any { return &fakePreference{} })
	register(losses, "kto", func() any { return &fakePreference{} })
	register(losses, "scoring", func() any { return &fakeScorer{} })
	register(losses, "distill", func() any { return &fakeComparer{} })
	kls := registry.New[any]("kl_fn", "")
	for _, name := range []string{"none", "k1", "k2", "low_var_kl"} {
		register(kls, name, func() any { return &fakeKL{KLCoef: 0.001} })
	}
	entropies := registry.New[any]("entropy_loss_fn", "")
	register(entropies, "default", func() any { return &fakeEntropy{} })
	register(entropies, "none", func() any { return &fakeEntropy{} })
	monitors := registry.New[any]("monitor", "")
	monitors.Auto = []string{"console", "jsonl", "tensorboard"}
	register(monitors, "console", func() any { return &fakeMonitor{} })
	register(monitors, "jsonl", func() any { return &fakeWriter{path: "metrics.jsonl", what: "metrics, one object per step"} })
	register(monitors, "tensorboard", func() any { return &fakeWriter{path: "tensorboard", what: "event files for TensorBoard"} })
	ways := registry.New[any]("weights", "")
	ways.Auto = []string{"memory", "directory"}
	for _, name := range ways.Auto {
		register(ways, name, func() any { return &fakeMonitor{} })
	}
	os.Exit(m.Run())
}

func register[T any](r *registry.Registry[T], name string, build func() T) {
	r.Register(name, "fake", build)
}

type fakeTrainer struct {
	engine.TrainerOpener
	Ranks int `yaml:"ranks"`
}
type fakeSampler struct{ engine.SamplerOpener }

func (*fakeTrainer) Reads(*Settled) map[string]string {
	return map[string]string{
		"cluster": "no cluster", "trainer.megatron": "no GPUs", "trainer.trainer_strategy": "no GPUs", deepSpeedKey: "no GPUs",
		"trainer.trainer_config.actor_rollout_ref.ref": "no GPUs", "trainer.trainer_config.actor_rollout_ref.ref.read": "",
		compileKey:                               "",
		"trainer.trainer_config.critic.strategy": "no GPUs", "trainer.trainer_config.critic.model": "no GPUs",
	}
}

// shardedTrainer has ranks.
type shardedTrainer struct{ fakeTrainer }

func (*shardedTrainer) Reads(*Settled) map[string]string {
	return map[string]string{strategyKey: "", deepSpeedKey: "", ulyssesKey: ""}
}

func (*shardedTrainer) Refuses(s *Settled) []Refusal { return s.Trainer.RefusedStrategies() }

func (*fakeTrainer) Refuses(s *Settled) []Refusal {
	if s.Model.RopeTheta == nil {
		return nil
	}
	return []Refusal{{"model.rope_theta", "another rope base than the model's own", ""}}
}

func (*fakeSampler) Reads(*Settled) map[string]string {
	return map[string]string{"cluster": "no cluster", "explorer.rollout_model.seed": "the run's seed",
		"explorer.rollout_model.tensor_parallel_size": "no GPUs",
		"explorer.rollout_model.quantization":         "", "explorer.rollout_model.kv_across_versions": ""}
}

func (*fakeSampler) Refuses(s *Settled) []Refusal { return (&fakeTrainer{}).Refuses(s) }

// fakeServed samples behind servers, which the run starts unless base_urls names them.
type fakeServed struct{ fakeSampler }

func (*fakeServed) Reads(s *Settled) map[string]string {
	keys := map[string]string{"cluster": "", baseURLsKey: "", "explorer.rollout_model.seed": ""}
	if len(s.Explorer.RolloutModel.BaseUrls) > 0 {
		keys["cluster"], keys["explorer.rollout_model.seed"] = "the servers run already", "the server decides it"
	}
	return keys
}

// silentTrainer and silentSampler declare nothing about the keys that engines share.
type silentTrainer struct{ engine.TrainerOpener }

type silentSampler struct{ engine.SamplerOpener }

type fakeOpener struct{ trinity.BufferOpener }

func (fakeOpener) DefaultPath(dir, name string) string {
	return "sqlite:///" + filepath.ToSlash(filepath.Join(dir, name+".db"))
}

func (fakeOpener) CheckPath(path string) error {
	_, err := dburl.Parse(path)
	return err
}

type fakeWriter struct {
	fakeMonitor
	path, what string
}

func (w *fakeWriter) Writes() (path, what string) { return w.path, w.what }

type fakeLoss struct {
	ClipRange    float64 `yaml:"clip_range"`
	ClipRangeLow float64 `yaml:"clip_range_low"`
	ClipHigh     float64 `yaml:"clip_range_high"`
}

// Validate refuses two clips at once.
func (l *fakeLoss) Validate() error {
	if l.ClipRangeLow != 0 && l.ClipRange == 0.1 {
		return errors.New("clip_range has no effect beside clip_range_low")
	}
	return nil
}

// fakeScorer is a loss that trains a reward model.
type fakeScorer struct{ fakeLoss }

func (*fakeScorer) Scores() {}

// fakePreference is a loss that compares with a reference model.
type fakePreference struct{ fakeLoss }

func (*fakePreference) Needs() trinity.Needs { return trinity.Needs{Reference: true} }

type fakeKL struct {
	KLCoef float64 `yaml:"kl_coef"`
}
type fakeEntropy struct {
	EntropyCoef float64 `yaml:"entropy_coef"`
}
type fakeMonitor struct {
	FlushSeconds float64 `yaml:"flush_seconds"`
}
type fakeAdvantage struct {
	Epsilon float64 `yaml:"epsilon"`
}
type fakeWorkflow struct {
	UseBase  bool `yaml:"use_base"`
	Logprobs int  `yaml:"logprobs"`
}
type fakeReward struct{}
type fakeLearner struct {
	fakeSelector `yaml:",inline"`
}

func (*fakeLearner) LearnsFromRewards() {}

type fakeSelector struct {
	Seed        int      `yaml:"seed"`
	FeatureKeys []string `yaml:"feature_keys"`
	Tau         float64  `yaml:"tau"`
}

func (*fakeAdvantage) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return groups, nil, nil
}

func (*fakeAdvantage) Needs() trinity.Needs { return trinity.Needs{Group: true} }

// fakeCritic is an advantage over token rewards that needs a critic's values.
type fakeCritic struct{}

func (*fakeCritic) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return groups, nil, nil
}
func (*fakeCritic) Needs() trinity.Needs {
	return trinity.Needs{Batch: true, Values: true, PenalizeKL: func(trinity.KLPenalty) {}}
}

func (*fakeWorkflow) Run(context.Context, *trinity.Rollout) ([]*trinity.Experience, error) {
	return nil, nil
}

func (*fakeReward) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	return trinity.Reward{}, nil
}

// fakeNone is no advantage and has no arguments.
type fakeNone struct{}

func (*fakeNone) Needs() trinity.Needs { return trinity.Needs{} }

func (*fakeNone) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return groups, nil, nil
}

// fakeDistill is an advantage that needs a teacher.
type fakeDistill struct{ fakeAdvantage }

func (*fakeDistill) Needs() trinity.Needs { return trinity.Needs{Batch: true, Teacher: true} }

type fakeStrategy struct {
	MaxStaleness float64 `yaml:"max_staleness"`
}

func (*fakeStrategy) Needs() trinity.SampleNeeds { return trinity.SampleNeeds{} }
func (*fakeStrategy) Rollouts(n int) int         { return n }
func (*fakeStrategy) Open(usual trinity.Source, _ map[string]trinity.Source) (trinity.Source, error) {
	return usual, nil
}

// fakeMix reads an auxiliary buffer.
type fakeMix struct {
	Ratio float64 `yaml:"expert_data_ratio"`
	Name  string  `yaml:"sft_dataset_name"`
}

func (*fakeMix) Open(usual trinity.Source, _ map[string]trinity.Source) (trinity.Source, error) {
	return usual, nil
}
func (m *fakeMix) Needs() trinity.SampleNeeds {
	return trinity.SampleNeeds{Auxiliary: map[string]string{m.Name: "sft"}}
}
func (m *fakeMix) Rollouts(n int) int { return n - int(m.Ratio*float64(n)) }

// rewardUser is a workflow without its own reward.
type rewardUser struct{ fakeWorkflow }

func (*rewardUser) Requires() trinity.Requirements { return trinity.Requirements{Reward: true} }

type fakeComparer struct{}

func (*fakeComparer) ReadsAdvantages() bool { return false }

func (*fakeComparer) Compares() trinity.Divergence {
	return trinity.Divergence{Kind: trinity.ReverseKL}
}

type fakePriority struct {
	Decay float64 `yaml:"decay"`
}

type fakeNoisyPriority struct {
	Decay float64 `yaml:"decay"`
	Sigma float64 `yaml:"sigma"`
}
