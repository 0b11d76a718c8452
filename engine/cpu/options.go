package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// Options say what to train and how much to plan for.
type Options struct {
	ModelPath string // Hugging Face directory or .gguf file

	InitStyle string // makes random weights when the directory has only a config.json: modelfile.StyleHF or StyleFanIn
	InitSeed  uint64 // of random weights

	LoRA *LoRAOptions // nil trains all weights

	MaxTokens int  // packed tokens of a micro-batch that memory is planned for, activations included; larger ones make it grow. 0 means 2048
	Reference bool // Reference will be asked for. Without LoRA this keeps a second copy of the initial weights

	// KeepPublished keeps a copy of the published weights while newer ones are trained, so that the state between two Publish calls is
	// complete (sync_interval above 1).
	KeepPublished bool

	// ForwardOnly takes no memory for gradients and moments; ForwardBackward and OptimStep are errors.
	ForwardOnly bool

	SaveDType string // of SaveModel: "f32" (default) or "bf16"

	Pool *kernel.Pool // cores to compute with; nil means all
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
	switch o.SaveDType {
	case "":
		o.SaveDType = "f32"
	case "f32", "bf16":
	default:
		return fmt.Errorf("cpu: save dtype %q; expected f32 or bf16", o.SaveDType)
	}
	return nil
}
