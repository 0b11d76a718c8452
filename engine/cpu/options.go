package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// Options say what to train and for which sizes to plan memory.
type Options struct {
	ModelPath string // Hugging Face directory or .gguf file

	InitStyle string // distribution of random weights if the directory has only a config.json: "hf" or "fan_in", see [model.RandomInit]
	InitSeed  uint64 // of random weights

	LoRA *engine.LoRASpec // trained instead of the weights; nil trains all weights
	Seed uint64           // of new weights: the A of an adapter, a value head

	// Value replaces the vocabulary projection by a value head, hidden → 1. The engine is then a
	// critic, with Streams.Value instead of log-probabilities. A model without such a head gets one
	// with weights N(0, initializer_range²) from Seed and bias 0, like veRL's critic.
	Value bool

	// Score replaces the vocabulary projection by a linear map of the last hidden state to one number
	// without a bias. The engine then trains a reward model, with Streams.Score instead of
	// log-probabilities. A model without such a head gets one with weights N(0, initializer_range²)
	// from Seed. Under ForwardOnly the model must have a score head; see openRewardModel.
	Score bool

	MaxTokens int  // packed tokens of the planned micro-batch; a larger one makes memory grow. 0 means 2048
	MaxLength int  // tokens of the longest sequence, to plan scratch; 0 means MaxTokens
	Reference bool // Trainer.Reference will be called; without LoRA this keeps a second copy of the initial weights

	Replay    bool                 // tokens have the experts of Experience.Experts; see engine.TrainerSpec
	Optimizer engine.OptimizerSpec // how OptimStep changes the weights

	TeacherWidth int // hidden size of the widest teacher that SetTeachers will get; 0 for none

	// Recompute is the number of layers, from the first, for which training keeps only the input
	// and recomputes the other activations in the backward pass (Chen et al. 2016, gradient
	// checkpointing): less memory, more time, the same bits. At most NumLayers-1.
	Recompute int

	// KeepPublished keeps a copy of the published weights while newer ones are trained, so that
	// SaveState is complete between two Offer calls (sync_interval above 1).
	KeepPublished bool

	// ForwardOnly takes no memory for gradients and optimizer state; ForwardBackward and OptimStep
	// are errors.
	ForwardOnly bool

	// DType "bf16" rounds the weights to bf16 and computes with them in f32; "" and "f32" do not
	// round. It needs ForwardOnly, because training keeps f32 master weights.
	DType string

	// PublishDType is that of the files of a version: "bf16", or "" for f32.
	PublishDType string

	Pool *kernel.Pool // cores to compute with; nil means all
}

// head returns the head that the options ask for. isNew reports whether a language model may get
// a new one.
func (o *Options) head() (h model.Head, isNew bool) {
	switch {
	case o.Value:
		return model.TokenClassification, true
	case o.Score:
		return model.SequenceClassification, !o.ForwardOnly
	}
	return model.CausalLM, false
}

// defaultMaxTokens is the planned micro-batch if Options.MaxTokens is 0.
const defaultMaxTokens = 2048

// check fills in defaults and refuses options that contradict each other.
func (o *Options) check() error {
	if o.ModelPath == "" {
		return fmt.Errorf("cpu: no model path")
	}
	if o.MaxTokens < 0 {
		return fmt.Errorf("cpu: MaxTokens is %d; expected a positive number, or 0 for %d", o.MaxTokens, defaultMaxTokens)
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = defaultMaxTokens
	}
	switch {
	case o.Recompute < 0:
		return fmt.Errorf("cpu: Recompute is %d; expected a number of layers", o.Recompute)
	case o.DType != "" && o.DType != "f32" && o.DType != "bf16":
		return fmt.Errorf("cpu: dtype %q; expected f32 or bf16", o.DType)
	case o.PublishDType != "" && o.PublishDType != "f32" && o.PublishDType != "bf16":
		return fmt.Errorf("cpu: dtype %q of versions; expected f32 or bf16", o.PublishDType)
	case o.Value && o.Score:
		return fmt.Errorf("cpu: Options.Value and Options.Score exclude each other: a model has one head")
	case o.Score && o.LoRA != nil:
		return fmt.Errorf("cpu: a reward model has no adapter here: all its weights are trained")
	case (o.Value || o.Score) && o.Reference:
		return fmt.Errorf("cpu: Options.Reference needs log-probabilities, and a value head or a score head has none")
	case o.DType == "bf16" && !o.ForwardOnly:
		return fmt.Errorf("cpu: dtype bf16 needs Options.ForwardOnly; training keeps its weights in f32")
	}
	if _, err := newOptimizer(o.Optimizer); err != nil {
		return err
	}
	_, err := kernel.Forced()
	return err
}
