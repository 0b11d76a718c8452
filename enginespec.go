package trinity

import "context"

// EngineSpec says which model a TrainerOpener opens, and for what.
type EngineSpec struct {
	ModelPath string   // local directory or GGUF file
	Init      InitSpec // for a directory that has config.json but no weights
	LoRA      *LoRASpec
	Seed      uint64
	DType     string // of the weights of an engine that is not trained: "f32" or "bf16"; "" leaves it to the engine

	// Head is what the engine computes from the last hidden states: LogprobHead, ValueHead for a critic, or ScoreHead for a reward model.
	Head string

	Train       bool // forward, backward, optimizer; otherwise Engine.Forward alone, as of a teacher
	Optimizer   OptimizerSpec
	Reference   bool // keep the frozen reference
	Recompute   int  // layers whose activations are computed again in the backward pass: less memory, the same bits
	Ahead       bool // the engine trains for several steps between versions
	MicroTokens int  // largest micro-batch, tokens: the engine plans its memory for it
	MaxModelLen int  // tokens of the longest sequence

	Teachers []string // model directories or GGUF files of the teachers to compare distributions with, for the memory plan
}

// SamplerSpec says which model a SamplerOpener opens, and how much is sampled at once.
type SamplerSpec struct {
	ModelPath    string   // local directory or GGUF file
	Init         InitSpec // for a directory that has config.json but no weights
	LoRA         *LoRASpec
	Quantization string // of the weights: "bf16", "int8", or "" for none. Training keeps its own

	MaxSequences int      // sequences that are sampled at once
	MaxModelLen  int      // tokens of prompt and reply; 0 is what the model has positions for
	Adapters     []string // PEFT directories that an AdapterLoader will be given: memory is planned for them
	// Text decodes tokens, for stop strings.
	Text func(tokens []int32) string

	// Shared says that the sampler gets its weights from an engine of this process, which was opened by the plug-in of the same
	// name, by its Offer and Adopt. Beside is that engine; it is nil while memory is planned.
	Shared bool
	Beside Engine
}

// The heads of an engine.
const (
	LogprobHead = ""      // the vocabulary projection
	ValueHead   = "value" // one number per token; a model that has no such head gets a new one, drawn from Seed
	ScoreHead   = "score" // numbers for a whole sequence; such a model is opened by TrainerOpener.OpenScorer
)

// OptimizerSpec says by which rule the gradient changes the weights; its rates come with every step, as OptimParams.
type OptimizerSpec struct {
	Type     string  // AdamW, AdamW8bit, SGD or Muon; "" is AdamW
	Momentum float64 // of SGD and Muon; 0 is none
	Nesterov bool    // the gradient is taken where the momentum leads to (Sutskever et al. 2013)
}

// The optimizers of the embedded engine.
const (
	AdamW     = "adamw"
	AdamW8bit = "adamw_8bit"
	SGD       = "sgd"
	Muon      = "muon"
)

// InitSpec says how missing weights are drawn.
type InitSpec struct {
	Seed  uint64
	Style string // "hf" or "fan_in"
}

// LoRASpec says which low-rank adapter to train (Hu et al. 2021, arXiv 2106.09685): the one at Path,
// or a new one with random A and B = 0. UseRslora is after Kalajdzievski 2023, arXiv 2312.03732. Its
// fields are keys of an entry of model.lora_configs.
type LoRASpec struct {
	Path           string `yaml:"path" doc:"PEFT directory to continue from, which then decides rank, scale and layers; empty starts a new adapter. Further adapters need one."`
	LoraRank       int    `yaml:"lora_rank" default:"32" range:"[1,)" doc:"Rank of the update."`
	LoraAlpha      int    `yaml:"lora_alpha" default:"32" range:"[1,)" doc:"The update is multiplied by lora_alpha/lora_rank; see use_rslora."`
	TargetModules  Names  `yaml:"target_modules" default:"all-linear" doc:"Layers that get an adapter: all-linear, or a list of names such as q_proj."`
	ExcludeModules Names  `yaml:"exclude_modules" doc:"Layers of target_modules that get no adapter: names such as k_proj."`
	UseRslora      bool   `yaml:"use_rslora" doc:"Multiply the update by lora_alpha/√lora_rank instead (rank-stabilised LoRA). Own key of Trinity-Go, PEFT's name."`
}

// Names is a list of names. In YAML, one name may stand for a list of one.
type Names []string

// TrainerOpener is the plug-in of an engine that trains (trainer.trainer_type). Policy, critic, teachers and reward models are
// opened by it.
type TrainerOpener interface {
	// OpenTrainer loads the model.
	OpenTrainer(ctx context.Context, spec EngineSpec) (Engine, error)
	// OpenScorer loads a reward model from spec.ModelPath, which has a sequence classification head; of the rest of spec it reads
	// MicroTokens and DType. An engine that has no reward models returns an error.
	OpenScorer(ctx context.Context, spec EngineSpec) (Scorer, error)
	// PlanMemory returns what OpenTrainer, or OpenScorer for ScoreHead, will take, and what a run then uses at most, in the order in
	// which it is taken. It reads the model's configuration alone. nil means that the engine cannot tell.
	PlanMemory(spec EngineSpec) ([]MemoryPart, error)
	// Describe says in words what the engine runs on, e.g. kernels and cores, for people.
	Describe() string
}

// SamplerOpener is the plug-in of an engine that samples (explorer.rollout_model.engine_type).
type SamplerOpener interface {
	// OpenSampler loads the model; its weights are version 0.
	OpenSampler(ctx context.Context, spec SamplerSpec) (Sampler, error)
	// PlanMemory is TrainerOpener.PlanMemory for OpenSampler.
	PlanMemory(spec SamplerSpec) ([]MemoryPart, error)
	// Describe is TrainerOpener.Describe.
	Describe() string
}

// MemoryPart is memory of one kind.
type MemoryPart struct {
	Kind  string // e.g. weights, activations, KV cache
	Bytes int64
	Why   string // what its size comes from, in words
	// Passing memory is given back before what follows is taken, as the pages of a file that is read. It counts as far as it is
	// more than that.
	Passing bool
}

// BaseAdapter is the SamplingParams.Adapter that samples the model without any adapter.
const BaseAdapter = "base"

// AdapterLoader is a Sampler that holds several low-rank adapters of its model at once, which requests choose from by SamplingParams.Adapter.
// Rows of different adapters are computed together. Adapters may come and go while others are sampled.
type AdapterLoader interface {
	// LoadAdapter adds the adapter of a PEFT directory, or replaces the one of that name, as the given version; sequences that are being
	// sampled with the replaced one go on with the new one.
	LoadAdapter(ctx context.Context, name, dir string, version int64) error
	// DropAdapter forgets a name: later requests with it are errors, earlier ones end as they began.
	DropAdapter(ctx context.Context, name string) error
	// Adapters lists the names, sorted.
	Adapters() []string
}

// Scorer is an open reward model: a frozen model that gives a whole sequence one or more numbers.
type Scorer interface {
	Labels() int
	// Score returns the numbers [Labels] of each sequence.
	Score(ctx context.Context, sequences [][]int32) ([][]float32, error)
	Close() error
}
