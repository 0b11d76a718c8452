package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// Options say what to train and how much to plan for.
type Options struct {
	ModelPath string // Hugging Face directory or .gguf file

	InitStyle string // makes random weights when the directory has only a config.json: modelfile.StyleHF or StyleFanIn
	InitSeed  uint64 // of random weights

	LoRA *LoRAOptions // nil trains all weights

	// Value puts a value head, hidden → 1, in the place of the vocabulary projection: the engine is a critic and has Streams.Value in place of
	// log-probabilities. A model that has no such head gets one with weights N(0, initializer_range²) from HeadSeed and bias 0, as veRL begins.
	Value    bool
	HeadSeed uint64

	MaxTokens int  // packed tokens of a micro-batch that memory is planned for, activations included; larger ones make it grow. 0 means 2048
	MaxLength int  // tokens of the longest sequence, for the plan of scratch; 0 means MaxTokens
	Reference bool // Reference will be asked for. Without LoRA this keeps a second copy of the initial weights

	Optimizer trinity.OptimizerSpec // how weights follow their gradient

	TeacherWidth int // hidden size of the widest model that SetTeachers will be given, which memory is planned for; 0 for none

	// Recompute is the number of layers, from the first, of which training keeps the input alone and computes the other activations again in
	// the backward pass (Chen et al. 2016, gradient checkpointing): less memory, more time, the same bits. At most NumLayers-1.
	Recompute int

	// KeepPublished keeps a copy of the published weights while newer ones are trained, so that the state between two Publish calls is
	// complete (sync_interval above 1).
	KeepPublished bool

	// ForwardOnly takes no memory for gradients and moments; ForwardBackward and OptimStep are errors.
	ForwardOnly bool

	// DType "bf16" rounds the weights to bf16 and computes with them in f32; "" and "f32" take them as they are. Only with ForwardOnly, as
	// training keeps f32 master weights.
	DType string

	Pool *kernel.Pool // cores to compute with; nil means all

	scores bool // a reward model: see OpenScorer
}

// defaultMaxTokens bounds the memory of a user who plans nothing.
const defaultMaxTokens = 2048

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
	case o.Value && o.Reference:
		return fmt.Errorf("cpu: a value head has no log-probabilities, so no reference of them")
	case o.DType == "bf16" && !o.ForwardOnly:
		return fmt.Errorf("cpu: dtype bf16 is for forward passes; training keeps its weights in f32")
	}
	if _, err := newOptimizer(o.Optimizer); err != nil {
		return err
	}
	_, err := kernel.Forced()
	return err
}
