package trinity

import "context"

// EngineSpec says which model an engine opens, and for what.
type EngineSpec struct {
	ModelPath string   // local directory or GGUF file
	Init      InitSpec // for a directory that has config.json but no weights
	LoRA      *LoRASpec
	Seed      uint64
	DType     string // of the weights of an engine for Forward alone: "f32" or "bf16"; "" leaves it to the engine
	// Quantization of the sampler's weights: "bf16", "int8", or "" for none. Training keeps its own.
	Quantization string

	// Head is what the engine computes from the last hidden states: LogprobHead, ValueHead for a critic, or ScoreHead for a reward model.
	Head string

	Train       bool // forward, backward, optimizer
	Optimizer   OptimizerSpec
	Forward     bool // log-probabilities only: Engine.Forward, as of a teacher or a frozen model
	Reference   bool // keep the frozen reference
	Recompute   int  // layers whose activations are computed again in the backward pass: less memory, the same bits
	Ahead       bool // training goes on for several steps between publications
	MicroTokens int  // largest micro-batch, tokens: the engine plans its memory for it

	Sample       bool     // sampling
	MaxSequences int      // sequences that are sampled at once
	MaxModelLen  int      // tokens of prompt and reply
	Adapters     []string // PEFT directories that an AdapterLoader will be given: memory is planned for them
	Teachers     []string // model directories or GGUF files that a Distiller will be given: memory is planned for comparing with them
	// Text decodes tokens, for stop strings.
	Text func(tokens []int32) string
}

// The heads of an engine.
const (
	LogprobHead = ""      // the vocabulary projection
	ValueHead   = "value" // one number per token; a model that has no such head gets a new one, drawn from Seed
	ScoreHead   = "score" // numbers for a whole sequence; such a model is opened by ScorerOpener
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

// LoRASpec is a low-rank adapter (Hu et al. 2021, arXiv 2106.09685).
type LoRASpec struct {
	Path          string // PEFT directory to start from; "" draws A and sets B to 0
	Rank          int
	Alpha         int
	TargetModules []string // names such as q_proj, or all-linear
	Exclude       []string // of these, those that get no adapter
	RSLoRA        bool     // scale by Alpha/√Rank (Kalajdzievski 2023, arXiv 2312.03732) in place of Alpha/Rank
}

// EngineOpener is the plug-in of an engine type.
type EngineOpener interface {
	// OpenEngine loads the model. The engine is nil unless spec.Train or spec.Forward, the sampler nil unless spec.Sample;
	// the sampler has the model's weights as version 0.
	OpenEngine(ctx context.Context, spec EngineSpec) (Engine, Sampler, error)
	// Describe says in words what the engine runs on, e.g. kernels and cores, for people.
	Describe() string
}

// MemoryPart is memory of one kind.
type MemoryPart struct {
	Kind  string // e.g. weights, activations, KV cache
	Bytes int64
	Why   string // what its size comes from, in words
}

// MemoryPlanner is an EngineOpener that can tell what memory OpenEngine will take, and what a run will then use at most.
type MemoryPlanner interface {
	// PlanMemory reads the model's configuration alone.
	PlanMemory(spec EngineSpec) ([]MemoryPart, error)
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

// WeightLoader is a Sampler that can take other weights of the same architecture from a checkpoint.
type WeightLoader interface {
	LoadWeights(ctx context.Context, dir string, version int64) error
}

// Distiller is an Engine that compares its next-token distributions with those of teachers.
type Distiller interface {
	Engine
	// SetTeachers names the models that Streams.Divergence is computed with, by Experience.Teacher. They are engines of the same type, for
	// forward passes at least, whose vocabulary begins with this engine's: what comes behind it, as padding does, is left out of their
	// distributions. They stay open for as long as divergences are asked for.
	SetTeachers(teachers map[string]Engine) error
}

// Scorer is an open reward model: a frozen model that gives a whole sequence one or more numbers.
type Scorer interface {
	Labels() int
	// Score returns the numbers [Labels] of each sequence.
	Score(ctx context.Context, sequences [][]int32) ([][]float32, error)
	Close() error
}

// ScorerOpener is an EngineOpener that also opens reward models.
type ScorerOpener interface {
	// OpenScorer loads spec.ModelPath, which has a sequence classification head; of the rest of spec it reads MicroTokens and DType.
	// A MemoryPlanner plans it as an engine of Head ScoreHead for Forward.
	OpenScorer(ctx context.Context, spec EngineSpec) (Scorer, error)
}
