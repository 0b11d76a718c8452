package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// Mix is a clipped policy gradient over rollouts plus supervised fine-tuning over demonstrations
// (Experience.IsExpert):
//
//	loss = (1 − mu)·ppo(rollouts) + mu·sft(demonstrations)
//
// Each part is aggregated over its own sequences of the whole optimizer step. A part without
// sequences is 0.
//
// Metrics: usual/pg_loss and the other metrics of ppo, over the rollouts; expert/sft_loss; loss,
// the weighted sum. The parts are before their weights.
//
// Unlike Trinity-RFT: use_dynamic_bsz, ppo_mini_batch_size, ppo_micro_batch_size_per_gpu,
// ngpus_trainer, train_batch_size_usual and train_batch_size_expert are not read, because each part
// is divided by the sequences of its kind in the step. There, numbers that do not fit the batch
// scale the parts against each other.
type mix struct {
	mixture `yaml:",inline"`
	Mu      float64 `yaml:"mu" range:"[0,1]" doc:"weight of the demonstrations; the rollouts have the weight 1 minus this"`
}

func init() {
	PolicyLosses.Register("mix",
		"(1 − mu) times PPO's clipped loss over the rollouts plus mu times SFT over the demonstrations, each normalised over its own sequences. "+
			"Metrics: usual/… (those of ppo), expert/sft_loss, loss.",
		func() PolicyLoss { return &mix{mixture: newMixture(), Mu: 0.1} })
}

func (m *mix) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	return m.mix(in, m.Mu, &sft{Agg{m.expertMode()}})
}

// mixture holds what losses over rollouts and demonstrations have in common.
type mixture struct {
	Agg             `yaml:",inline"`
	GRPOLossAggMode *AggMode `yaml:"grpo_loss_agg_mode" doc:"loss_agg_mode of the rollouts; null means loss_agg_mode"`
	SFTLossAggMode  *AggMode `yaml:"sft_loss_agg_mode" doc:"loss_agg_mode of the demonstrations; null means loss_agg_mode"`
	clip            `yaml:",inline"`
	batchSizes      `yaml:",inline"`
}

// batchSizes holds arguments of Trinity-RFT's files. They load, but nothing reads them: losses are
// normalised over the optimizer step, however it is cut.
type batchSizes struct {
	UseDynamicBsz           *bool `yaml:"use_dynamic_bsz" doc:"not read: losses are normalised over the optimizer step"`
	PPOMiniBatchSize        *int  `yaml:"ppo_mini_batch_size" doc:"not read: losses are normalised over the optimizer step"`
	PPOMicroBatchSizePerGPU *int  `yaml:"ppo_micro_batch_size_per_gpu" doc:"not read: losses are normalised over the optimizer step"`
	NGPUsTrainer            *int  `yaml:"ngpus_trainer" doc:"not read: losses are normalised over the optimizer step"`
	TrainBatchSizeUsual     *int  `yaml:"train_batch_size_usual" doc:"not read: losses are normalised over the optimizer step"`
	TrainBatchSizeExpert    *int  `yaml:"train_batch_size_expert" doc:"not read: losses are normalised over the optimizer step"`
}

func newMixture() mixture { return mixture{Agg: Agg{TokenMean}, clip: usualClip()} }

// Validate checks ranges.
func (m *mixture) Validate() error { return m.ppo().Validate() }

func (m *mixture) expertMode() AggMode { return m.mode(m.SFTLossAggMode) }

// mode returns the aggregation mode of a part.
func (m *mixture) mode(own *AggMode) AggMode {
	if own != nil {
		return *own
	}
	return m.LossAggMode
}

// ppo returns the loss of the rollouts.
func (m *mixture) ppo() *ppo {
	return &ppo{Agg: Agg{m.mode(m.GRPOLossAggMode)}, clip: m.clip, ClipRatioC: defaultClipRatioC}
}

// Demonstrated implements the interface of that name.
func (*mixture) Demonstrated() {}

// mix returns (1 − mu)·ppo + mu·sft.
func (m *mixture) mix(in *Input, mu float64, sft PolicyLoss) (tape.Stream, trinity.Metrics, error) {
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
