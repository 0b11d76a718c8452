package engine

import (
	"context"
	"time"

	"github.com/trinity-go/trinity"
)

// TrainerSpec says which model a TrainerOpener opens, and for what.
type TrainerSpec struct {
	ModelPath string   // local directory or GGUF file
	Init      InitSpec // for a directory that has config.json but no weights
	LoRA      *LoRASpec
	Seed      uint64
	DType     string // of frozen weights: "f32" or "bf16"; "" leaves it to the engine
	// PublishDType is that of the files of a version (VersionWriter, Publisher.SavePublished): "bf16", or "" for
	// float32, as checkpoints have it. Adapters are float32.
	PublishDType string

	// Head is what the engine computes from the last hidden states: LogprobHead, ValueHead for a
	// critic, or ScoreHead for a reward model.
	Head string

	Train       bool // forward, backward, optimizer; otherwise Trainer.Forward alone, as for a teacher
	Optimizer   OptimizerSpec
	Reference   bool  // keep the frozen reference
	Layout            // how ranks divide the model
	Compile     *bool // whether PyTorch compiles the layers; nil leaves it to the engine
	Recompute   int   // layers that recompute their activations in the backward pass: less memory, the same bits
	Ahead       bool  // the engine may train on before its sampler has the newest version
	MicroTokens int   // tokens of the largest micro-batch; the engine plans its memory for it
	MaxModelLen int   // tokens of the longest sequence

	// Place is where the engine starts its programs, if it has any.
	Place Place
	// Service is where an engine trains that computes nothing itself.
	Service ServiceSpec
	// Say receives lines for people. It may be nil.
	Say func(string)

	Offload

	// Replay says that the experts of a token, in the passes of the policy and of its reference, are those of
	// Experience.Experts. ForwardBackward refuses an experience with trained tokens but without experts.
	Replay bool

	// Dir is where the engine may write files that it needs while it is open. "" is a temporary
	// directory.
	Dir string

	// Images returns the canonical image with a digest, a PNG file, for experiences with images; nil if a run has none.
	Images func(digest string) ([]byte, error)

	// Teachers are the model directories or GGUF files of the teachers that the engine will compare
	// distributions with. It plans memory for them.
	Teachers []string
}

// Offload says what is in host memory while it is not in use: the weights, the optimizer's moments, and the
// weights of the reference.
type Offload struct{ ParamOffload, OptimizerOffload, ReferenceOffload bool }

// ScoreTokens returns the log-probability of each token after the first, in nats at temperature 1.
type ScoreTokens func(ctx context.Context, tokens []int32) ([]float32, error)

// Rescorer is a Sampler that scores given tokens, as ScoreTokens does. An error that no other try would
// change ends the run.
type Rescorer interface {
	trinity.Sampler
	Logprobs(ctx context.Context, tokens []int32) ([]float32, error)
}

// Proving says how a sampler proves that the copies of its weights are a version.
type Proving struct {
	Alone   bool      // no request samples while weights are loaded
	Check   CheckCopy // of each copy
	Digests int       // versions between two comparisons of the copies' digests; 0 compares none
	// Covered receives the least share of the tensors, from 0 to 1, whose digests the copies have told.
	Covered func(share float64)
}

// CheckCopy returns an error unless a copy of a version of the weights is that version. copy names it.
type CheckCopy func(ctx context.Context, version int64, copy string, score ScoreTokens) error

// SamplerSpec says which model a SamplerOpener opens, and how many sequences it samples at once.
type SamplerSpec struct {
	ModelPath    string   // local directory or GGUF file
	Init         InitSpec // for a directory that has config.json but no weights
	LoRA         *LoRASpec
	Quantization string // of the sampler's own weights: "bf16", "int8", or "" for none

	MaxSequences       int      // sequences to sample at once
	MaxModelLen        int      // tokens of prompt and reply; 0 means the model's number of positions
	KeepAcrossVersions bool     // calls with a Hold may use a KV cache of weights before the newest
	Speculate          string   // draft tokens of a sequence and step, as a number; "" and "auto" let the engine choose, "off" is none
	Adapters           []string // PEFT directories that the sampler will load; it plans memory for them
	Slots              int      // adapters besides them that are not known yet, of LoRA's rank at most; it plans for as many in a batch
	// Text decodes tokens, for stop strings; several goroutines may call it at once. Tokens encodes a text
	// without special tokens, to compare the tokenizer of a server; nil compares nothing.
	Text   func(tokens []int32) string
	Tokens func(text string) []int32

	// Servers are the addresses of the servers behind which the engine samples, and Key is the API key
	// for them (explorer.rollout_model.base_urls, api_key). Patience is how long all of them may be gone
	// before that is an EngineError. Say receives a line about each that is lost or found again; it may
	// be nil.
	Servers  []string
	Key      string `secret:"true"`
	Patience time.Duration
	Say      func(string)
	// Start says which servers the engine starts if Servers names none.
	Start ServerSpec
	// Service is where a sampler samples that computes nothing itself.
	Service ServiceSpec
	// Record says what training needs of completions. A sampler that cannot return it is refused when it is opened.
	Record RecordSpec
	// Scores says that the sampler is opened to score given tokens, as a Rescorer: one that cannot is
	// refused when it is opened.
	Scores bool
	// Follows says that weights will be loaded into the sampler, version 0 as well.
	Follows bool
	// Bucket is how many bytes a WeightSender sends at once; 0 means the sampler chooses.
	Bucket int64

	// Shared says that the sampler gets its weights from an engine of this process, through Offer and
	// Adopt. The plug-in of the same name opened that engine. Beside is the engine, or nil for
	// PlanMemory. InPlace says that nobody samples from an optimizer step to the next Adopt, so the
	// sampler may read the very weights that are trained.
	Shared  bool
	InPlace bool
	Beside  Trainer
}

// RecordSpec says what training needs of completions.
type RecordSpec struct {
	Tokens bool // ids and log-probabilities as sampled
	Routes bool // the experts of each token (Completion.Experts)
}

// ExternalSpec names a model behind an API of text. Its fields are keys of model.external_model.
type ExternalSpec struct {
	Model, Address string
	Key            string        `secret:"true"`
	KeyEnv         string        // environment variable that Key is from
	Timeout        time.Duration // of one answer
	Retries        int
	MaxRequests    int // 0 is no limit; also MaxTokens
	MaxTokens      int
}

// ServerSpec says which servers a sampler starts. Its fields are keys of explorer.rollout_model.
type ServerSpec struct {
	Engines          int // servers
	TensorParallel   int
	PipelineParallel int
	DataParallel     int
	ExpertParallel   bool
	DType            string  // of the weights
	MemoryShare      float64 // of a GPU
	Eager            bool    // no CUDA graphs
	PrefixCaching    bool
	ChunkedPrefill   bool
	Seed             int
	Extra            map[string]any // arguments that the server gets unchanged
	Place            Place
}

// ServiceSpec names a service that trains and samples, and says what it trains. Its fields are keys of model.tinker. The rank
// is that of the adapter.
type ServiceSpec struct {
	// External is an API of text in place of a service; its Model is "" if there is none.
	External ExternalSpec

	BaseModel  string // as the service calls it
	Address    string // "" is the environment's
	Seed       int64  // of a new adapter
	MLP        bool   // train the feed-forward layers
	Attention  bool
	Unembed    bool   // train the output head
	ServerLoss string // the loss that the service computes itself; "" for none
	LossConfig map[string]float64
	ChunkBytes int // of a request; 0 is what the service asks for
}

// The heads of an engine.
const (
	LogprobHead = ""      // the vocabulary projection
	ValueHead   = "value" // one number per token; a model without such a head gets a new one, drawn from Seed
	// ScoreHead gives numbers for a whole sequence. OpenTrainer opens such a model to train it; a model
	// without such a head gets a new one of one number, drawn from Seed. OpenScorer opens it to score.
	ScoreHead = "score"
)

// OptimizerSpec names the rule by which the gradient changes the weights. The rates of each step
// are OptimParams.
type OptimizerSpec struct {
	Type     string  // AdamW, AdamW8bit, SGD or Muon; "" is AdamW
	Momentum float64 // of SGD and Muon; 0 is none
	Nesterov bool    // take the gradient at the point to which the momentum leads (Sutskever et al. 2013)
}

// The optimizers of the embedded engine.
const (
	AdamW     = "adamw"
	AdamW8bit = "adamw_8bit"
	SGD       = "sgd"
	Muon      = "muon"
)

// InitSpec says how to draw missing weights.
type InitSpec struct {
	Seed  uint64
	Style string // "hf" or "fan_in"
}

// LoRASpec says which low-rank adapter to train (Hu et al. 2021, arXiv 2106.09685): the one at
// Path, or a new one with random A and B = 0. UseRslora is after Kalajdzievski 2023, arXiv
// 2312.03732. Its fields are keys of an entry of model.lora_configs.
type LoRASpec struct {
	Path           string `yaml:"path" doc:"PEFT directory to continue from, with its rank, scale and layers; empty starts a new adapter."`
	LoraRank       int    `yaml:"lora_rank" default:"32" range:"[1,)" doc:"Rank of the update."`
	LoraAlpha      int    `yaml:"lora_alpha" default:"32" range:"[1,)" doc:"The update is multiplied by lora_alpha/lora_rank; see use_rslora."`
	TargetModules  Names  `yaml:"target_modules" default:"all-linear" doc:"Layers that get an adapter: all-linear, or names: q_proj, lm_head."`
	ExcludeModules Names  `yaml:"exclude_modules" doc:"Layers of target_modules that get no adapter: names such as k_proj."`
	UseRslora      bool   `yaml:"use_rslora" doc:"Multiply the update by lora_alpha/√lora_rank instead. Own key of Trinity-Go, PEFT's name."`
	BaseModelName  string `yaml:"base_model_name" doc:"Base that a saved adapter names for PEFT; empty is model_path, absolute or a hub name."`
	// TargetParameters adds experts to TargetModules.
	TargetParameters Names `yaml:"target_parameters" doc:"Experts that get adapters: mlp.experts.gate_up_proj, mlp.experts.down_proj."`
}

// Names is a list of names. In YAML, one name may stand for a list of one.
type Names []string

// TrainerOpener is the plug-in of an engine that trains (trainer.trainer_type). It opens the
// policy, the critic, teachers and reward models.
type TrainerOpener interface {
	// OpenTrainer loads the model.
	OpenTrainer(ctx context.Context, spec TrainerSpec) (Trainer, error)
	// OpenScorer loads a reward model, with a sequence classification head, from spec.ModelPath. From
	// the rest of spec it reads MicroTokens and DType. It returns an error if the engine has no reward
	// models.
	OpenScorer(ctx context.Context, spec TrainerSpec) (trinity.Scorer, error)
	// PlanMemory returns the memory that OpenTrainer, or OpenScorer for ScoreHead, will take, and the
	// most that a run then uses, in the order of the allocations. It reads only the model's
	// configuration. nil means that the engine cannot tell.
	PlanMemory(spec TrainerSpec) ([]MemoryPart, error)
	// Describe returns in words what the engine runs on, such as kernels and cores.
	Describe() string
}

// SamplerOpener is the plug-in of an engine that samples (explorer.rollout_model.engine_type).
type SamplerOpener interface {
	// OpenSampler loads the model; its weights are version 0.
	OpenSampler(ctx context.Context, spec SamplerSpec) (trinity.Sampler, error)
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
	// Passing memory, such as the pages of a file being read, is released before the parts that follow
	// are allocated. So a plan counts only what exceeds those parts.
	Passing bool
	// Device names whose memory it is if it is not this machine's, such as "each GPU", and Free is what
	// is free there; 0 means unknown.
	Device string
	Free   int64
}

// AdapterLoader is a Sampler that holds several low-rank adapters of its model at once.
// SamplingParams.Adapter chooses one. The sampler computes rows of different adapters together.
// Callers may load and drop adapters while it samples with others.
type AdapterLoader interface {
	// LoadAdapter adds the adapter of a PEFT directory under a name and version, or replaces the one
	// of that name. Sequences in flight with the replaced adapter continue with the new one.
	LoadAdapter(ctx context.Context, name, dir string, version int64) error
	// DropAdapter removes an adapter. Later requests with its name are errors; requests in flight keep
	// it until they end.
	DropAdapter(ctx context.Context, name string) error
	// Adapters returns the sorted names.
	Adapters() []string
}
