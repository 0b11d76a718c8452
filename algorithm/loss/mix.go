package loss

import (
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/tape"
)

// Mix is a clipped policy gradient over what the policy sampled and supervised fine-tuning over demonstrations that were mixed in
// (Experience.IsExpert):
//
//	loss = (1 − mu)·ppo(rollouts) + mu·sft(demonstrations)
//
// Each part is aggregated over its own sequences of the whole optimizer step; a step without sequences of a kind has 0 for that part.
//
// Metrics: usual/pg_loss and PPO's others, of the rollouts; expert/sft_loss; loss, the sum. The parts are before their weights.
//
// Unlike Trinity-RFT: use_dynamic_bsz, ppo_mini_batch_size, ppo_micro_batch_size_per_gpu, ngpus_trainer, train_batch_size_usual and
// train_batch_size_expert are not read, because a part is divided by what the step holds of its kind; there, numbers that do not fit the
// batch scale the parts against one another.
type Mix struct {
	Mixture `yaml:",inline"`
	Mu      float64 `yaml:"mu" doc:"weight of the demonstrations; the rollouts have 1 minus it; 0 to 1"`
}

func init() {
	PolicyLosses.Register("mix", "(1 − mu) times PPO's clipped loss over the rollouts plus mu times SFT over the demonstrations that were mixed in, each normalised over its own sequences. "+
		"Metrics: usual/… (those of ppo), expert/sft_loss, loss.",
		func() PolicyLoss { return &Mix{Mixture: newMixture(), Mu: 0.1} })
}

// Validate checks ranges.
func (m *Mix) Validate() error {
	if !(m.Mu >= 0 && m.Mu <= 1) {
		return errors.New("mu must be between 0 and 1")
	}
	return m.Mixture.Validate()
}

func (m *Mix) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	return m.mix(in, m.Mu, &SFT{Agg{m.expertMode()}})
}

// Mixture is what losses over rollouts and demonstrations have in common.
type Mixture struct {
	Agg             `yaml:",inline"`
	GRPOLossAggMode *AggMode `yaml:"grpo_loss_agg_mode" doc:"loss_agg_mode of the rollouts; null means loss_agg_mode"`
	SFTLossAggMode  *AggMode `yaml:"sft_loss_agg_mode" doc:"loss_agg_mode of the demonstrations; null means loss_agg_mode"`
	Clip            `yaml:",inline"`
	BatchSizes      `yaml:",inline"`
}

// BatchSizes are arguments that Trinity-RFT's files hold. They are accepted so that those files load, and not read: losses are normalised
// over the optimizer step, however it is cut.
type BatchSizes struct {
	UseDynamicBsz           *bool `yaml:"use_dynamic_bsz" doc:"not read: losses are normalised over the optimizer step"`
	PPOMiniBatchSize        *int  `yaml:"ppo_mini_batch_size" doc:"not read: losses are normalised over the optimizer step"`
	PPOMicroBatchSizePerGPU *int  `yaml:"ppo_micro_batch_size_per_gpu" doc:"not read: losses are normalised over the optimizer step"`
	NGPUsTrainer            *int  `yaml:"ngpus_trainer" doc:"not read: losses are normalised over the optimizer step"`
	TrainBatchSizeUsual     *int  `yaml:"train_batch_size_usual" doc:"not read: losses are normalised over the optimizer step"`
	TrainBatchSizeExpert    *int  `yaml:"train_batch_size_expert" doc:"not read: losses are normalised over the optimizer step"`
}

func newMixture() Mixture { return Mixture{Agg: Agg{TokenMean}, Clip: usualClip()} }

// Validate checks ranges.
func (m *Mixture) Validate() error {
	if err := m.expertMode().Check(); err != nil {
		return err
	}
	if err := m.LossAggMode.Check(); err != nil {
		return err
	}
	return m.ppo().Validate()
}

func (m *Mixture) expertMode() AggMode { return m.mode(m.SFTLossAggMode) }

// mode is that of a part.
func (m *Mixture) mode(own *AggMode) AggMode {
	if own != nil {
		return *own
	}
	return m.LossAggMode
}

// ppo is the loss of the rollouts.
func (m *Mixture) ppo() *PPO {
	return &PPO{Agg: Agg{m.mode(m.GRPOLossAggMode)}, Clip: m.Clip, ClipRatioC: defaultClipRatioC}
}

// Demonstrated implements the interface of that name.
func (*Mixture) Demonstrated() {}

// mix is (1 − mu)·ppo + mu·sft.
func (m *Mixture) mix(in *Input, mu float64, sft PolicyLoss) (tape.Stream, trinity.Metrics, error) {
	usual, usualMetrics, err := m.ppo().Loss(in.Over(Usual))
	if err != nil {
		return tape.Stream{}, nil, err
	}
	expert, expertMetrics, err := sft.Loss(in.Over(Expert))
	if err != nil {
		return tape.Stream{}, nil, err
	}
	total := usual.Scale(1 - mu).Add(expert.Scale(mu))
	metrics := trinity.Metrics{"loss": total.Scalar()}
	metrics.Merge("usual/", usualMetrics)
	metrics.Merge("expert/", expertMetrics)
	return total, metrics, nil
}
