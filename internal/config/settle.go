package config

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/registry"
)

// settle fills in the keys that follow from other keys, decides everything that a run asks of its
// configuration, and reports contradictions. A step reads only what the steps above it have filled
// in; its comment names what it fills in.
func settle(c *Config) (*Settled, Errors) {
	r := &resolution{Settled: &Settled{Config: c}}
	r.mode()             // Together, Explores, Trains, Samples, InitSeed, Data.Tasksets
	r.aliases()          // keys and values that have a new name
	r.engines()          // the engines' types, Engines.Train and Sample
	r.lengths()          // model.max_model_len and its two parts
	r.method()           // Method, Offline, Batch.PerRow
	r.algorithm()        // the keys that the algorithm's type decides
	r.teachers()         // Teachers
	r.models()           // defaults of rollout and auxiliary models
	r.tasksets()         // defaults of tasksets
	r.asked()            // Asked
	r.buffers()          // the experience buffer, Recorded, ReadsDataset, SharedStore
	r.taskPipeline()     // TaskPipeline and the path that it writes
	r.auxiliaryBuffers() // Data.Auxiliary
	r.evalBuffers()      // Data.Measured
	r.inputs()           // Data.Inputs
	r.explored()         // Batch.CountsRollouts, StepRollouts
	r.sizes()            // the rest of Batch, Critic
	r.synchronizer()     // both sync intervals, Engines.Weights
	r.shortSteps()
	r.monitors() // monitor.monitor_type
	r.paths()    // the directories of the run
	return r.Settled, r.errs
}

type resolution struct {
	*Settled
	errs Errors
}

func (r *resolution) fail(key, message, hint string) {
	r.errs = append(r.errs, r.errorFor(key, message, hint))
}

// errorFor returns an error at the place where the file writes a key.
func (c *Config) errorFor(key, message, hint string) Error {
	p := c.Pos(key)
	return Error{File: p.File, Line: p.Line, Col: p.Col, Key: c.written(key), Message: message, Hint: hint}
}

// written returns a key as the file writes it: with the number of its stage, if it stands there.
func (c *Config) written(key string) string {
	if _, ok := c.source.whole[c.source.stage+key]; ok {
		return c.source.stage + key
	}
	return key
}

func (r *resolution) warn(key, format string, args ...any) {
	r.Warnings = append(r.Warnings, safetext.Hidden(fmt.Sprintf("%s: %s: %s", r.Pos(key), r.written(key), fmt.Sprintf(format, args...))))
}

// lengths applies the rules between the lengths of model, prompt and response.
func (r *resolution) lengths() {
	m := &r.Model
	switch {
	case m.MaxModelLen == nil && m.MaxPromptTokens != nil && m.MaxResponseTokens != nil:
		m.MaxModelLen = ptr(*m.MaxPromptTokens + *m.MaxResponseTokens)
		if *m.MaxModelLen > maxCount {
			r.fail("model.max_prompt_tokens",
				fmt.Sprintf("and max_response_tokens together are %d, must be at most %d", *m.MaxModelLen, maxCount), "")
			m.MaxModelLen, m.MaxPromptTokens, m.MaxResponseTokens = ptr(2), ptr(1), ptr(1)
		}
	case m.MaxModelLen == nil:
		r.fail("model", "the length of the longest sequence is not set",
			"set model.max_model_len, or both model.max_prompt_tokens and model.max_response_tokens")
		m.MaxModelLen, m.MaxPromptTokens, m.MaxResponseTokens = ptr(2), ptr(1), ptr(1)
	case m.MaxPromptTokens == nil && m.MaxResponseTokens == nil:
		m.MaxPromptTokens = ptr(*m.MaxModelLen / 2)
		m.MaxResponseTokens = ptr(*m.MaxModelLen - *m.MaxPromptTokens)
	case m.MaxPromptTokens == nil:
		m.MaxPromptTokens = r.remainder("model.max_response_tokens", *m.MaxResponseTokens, *m.MaxModelLen)
	case m.MaxResponseTokens == nil:
		m.MaxResponseTokens = r.remainder("model.max_prompt_tokens", *m.MaxPromptTokens, *m.MaxModelLen)
	case *m.MaxPromptTokens+*m.MaxResponseTokens > *m.MaxModelLen:
		r.fail("model.max_model_len", fmt.Sprintf("is %d, less than max_prompt_tokens %d + max_response_tokens %d", *m.MaxModelLen,
			*m.MaxPromptTokens,
			*m.MaxResponseTokens), fmt.Sprintf("set it to %d, or leave it out", *m.MaxPromptTokens+*m.MaxResponseTokens))
	}
	if m.MaxResponseTokens != nil && m.MinResponseTokens > *m.MaxResponseTokens {
		r.fail("model.min_response_tokens", fmt.Sprintf("is %d, more than the longest response of %d tokens", m.MinResponseTokens,
			*m.MaxResponseTokens), "")
	}
}

func (r *resolution) remainder(key string, given, whole int) *int {
	if given >= whole {
		r.fail(key, fmt.Sprintf("is %d, which leaves no tokens of max_model_len %d for the other part", given, whole),
			"make it smaller, or set max_model_len to prompt and response together")
		return ptr(1)
	}
	return ptr(whole - given)
}

// algorithm fills in the keys that follow from the algorithm type. IsSet still reports what the
// file sets.
func (r *resolution) algorithm() {
	if own := r.Method.Parts; own != nil && (r.Trains || r.Explores || r.Records()) {
		a := &r.Algorithm
		setDefault(&a.AdvantageFn, own.Advantage)
		setDefault(&a.PolicyLossFn, own.PolicyLoss)
		setDefault(&a.KLPenaltyFn, own.KLPenalty)
		setDefault(&a.KLLossFn, own.KLLoss)
		setDefault(&a.EntropyLossFn, own.Entropy)
		setDefault(&a.SampleStrategy, own.SampleStrategy)
		if !own.Offline {
			a.RepeatTimes = ptr(r.Method.GroupSize)
		}
	}
	r.gradClip()
	r.Algorithm.Optimizer.momentum()
	if r.Trainer.MaxTokenLenPerGPU == nil {
		r.Trainer.MaxTokenLenPerGPU = ptr(max(2048, 2**r.Model.MaxModelLen)) // fewer would leave the matrix kernels idle
	}
}

// gradClip gives the two keys for the largest gradient norm one value.
func (r *resolution) gradClip() {
	const trainer, optimizer = "trainer.grad_clip", "algorithm.optimizer.clip_grad"
	a, b := &r.Trainer.GradClip, &r.Algorithm.Optimizer.ClipGrad
	switch {
	case r.IsSet(trainer) && r.IsSet(optimizer) && *a != *b:
		r.fail(optimizer, fmt.Sprintf("is %g, but %s is %g, and both mean the same limit", *b, trainer, *a), "keep one of them")
	case r.IsSet(optimizer):
		*a = *b
	default:
		*b = *a
	}
}

// tasksets fills in tasksets from the defaults of explorer_input and the sampling of the rollout model.
func (r *resolution) tasksets() {
	in, m := &r.Buffer.ExplorerInput, &r.Explorer.RolloutModel
	if in.DefaultEvalWorkflowType == "" {
		in.DefaultEvalWorkflowType = in.DefaultWorkflowType
	}
	for _, e := range r.Data.Tasksets {
		t, name, workflow := e.Taskset, "taskset", in.DefaultWorkflowType
		if e.Eval {
			name, workflow = "eval_taskset", in.DefaultEvalWorkflowType
		}
		setDefault(&t.Name, name+"_"+strconv.Itoa(e.Index))
		setDefault(&t.DefaultWorkflowType, workflow)
		setDefault(&t.DefaultRewardFnType, in.DefaultRewardFnType)
		t.Format.chats(r.IsSet, e.Key+".format.")
		inherit(&t.RolloutArgs.Temperature, m.Temperature)
		inherit(&t.RolloutArgs.TopP, m.TopP)
		inherit(&t.RolloutArgs.TopK, m.TopK)
		inherit(&t.RolloutArgs.Logprobs, m.Logprobs)
		inherit(&t.RolloutArgs.MaxTokens, m.MaxResponseTokens)
		if !e.Eval {
			t.RepeatTimes = r.Method.GroupSize
		}
	}
}

// chats makes messages_key the key of the prompts of a taskset whose section names it and not prompt_key.
func (f *Format) chats(isSet func(key string) bool, key string) {
	if isSet(key+"messages_key") && !isSet(key+"prompt_key") && f.PromptType == "messages" {
		f.PromptKey = f.MessagesKey
	}
}

// models fills in rollout and auxiliary models from the sampling of model.
func (r *resolution) models() {
	m := &r.Model
	setDefault(&m.CriticModelPath, m.ModelPath)
	setDefault(&r.Explorer.RolloutModel.ModelPath, m.ModelPath)
	inherit(&r.Trainer.TrustRemoteCode, &m.TrustRemoteCode)
	inherit(&m.EnableThinking, r.Explorer.RolloutModel.EnableThinking)
	if m.ChatTemplatePath == "" {
		setDefault(&m.CustomChatTemplate, r.Explorer.RolloutModel.ChatTemplate)
	}
	all := []*InferenceModel{&r.Explorer.RolloutModel}
	for i := range r.Explorer.AuxiliaryModels {
		all = append(all, &r.Explorer.AuxiliaryModels[i])
	}
	for _, e := range all {
		inherit(&e.TrustRemoteCode, &m.TrustRemoteCode)
		inherit(&e.Temperature, &m.Temperature)
		inherit(&e.TopP, &m.TopP)
		inherit(&e.TopK, &m.TopK)
		inherit(&e.Logprobs, &m.Logprobs)
		inherit(&e.RepetitionPenalty, &m.RepetitionPenalty)
		inherit(&e.MaxModelLen, m.MaxModelLen)
		inherit(&e.MaxPromptTokens, m.MaxPromptTokens)
		inherit(&e.MaxResponseTokens, m.MaxResponseTokens)
		inherit(&e.MinResponseTokens, &m.MinResponseTokens)
		inherit(&e.EnablePromptTruncation, &m.EnablePromptTruncation)
		inherit(&e.EnableThinking, m.EnableThinking)
		inherit(&e.RopeTheta, m.RopeTheta)
		setDefault(&e.ChatTemplate, m.CustomChatTemplate)
		if e.RopeScaling == nil {
			e.RopeScaling = m.RopeScaling
		}
	}
}

// buffers gives the trainer its queue, and every buffer its name and its kind of rows.
func (r *resolution) buffers() {
	in := &r.Buffer.TrainerInput
	if in.ExperienceBuffer == nil {
		in.ExperienceBuffer = newDefault[ExperienceBuffer]()
	}
	b := in.ExperienceBuffer
	setDefault(&b.Name, "experience_buffer")
	schema := "experience"
	if parts := r.Method.Parts; parts != nil {
		schema = parts.Schema
	}
	if b.SchemaType != "" && b.SchemaType != schema {
		r.fail("buffer.trainer_input.experience_buffer.schema_type",
			fmt.Sprintf("is %q, but %s trains on %q", b.SchemaType, r.Algorithm.AlgorithmType, schema),
			"leave it out")
	}
	setDefault(&b.SchemaType, schema)
	r.plainText("buffer.trainer_input.experience_buffer", b)
	const storage = "buffer.trainer_input.experience_buffer.storage_type"
	if r.Offline {
		if r.IsSet(storage) && b.StorageType == "queue" {
			r.fail(storage, fmt.Sprintf("%s reads a dataset, not a queue", r.Algorithm.AlgorithmType), "set it to file, or leave it out")
		}
		if b.StorageType == "queue" {
			b.StorageType = "file"
		}
	}
	if b.StorageType == "queue" && !r.Together && dburl.IsURL(b.Path) {
		b.StorageType = automatic("buffer", "auto") // Trinity-RFT keeps such a queue in the database
	}
	if b.StorageType == "file" && r.Together {
		r.warn(storage, "mode both passes experiences through a queue, not a file")
		b.StorageType = "queue"
	}
	r.Recorded = r.Method.Parts != nil && r.Mode == "train" && !r.Offline && b.StorageType == "file"
	r.ReadsDataset = r.Offline || r.Recorded
	r.SharedStore = !r.Offline && registry.Buffers.Has(b.StorageType)
}

// plainText sets prompt_type to plaintext for schema cpt, which has no other form.
func (r *resolution) plainText(key string, b *ExperienceBuffer) {
	if b.SchemaType == "cpt" && !r.IsSet(key+".format.prompt_type") {
		b.Format.PromptType = "plaintext"
	}
}

// shortSteps warns if a train step asks for more rollouts than one explore step makes.
func (r *resolution) shortSteps() {
	const key = "buffer.train_batch_size"
	if gives := r.Batch.StepRollouts; r.Together && r.Synchronizer.SyncStyle == "fixed" && !r.Batch.CountsRollouts &&
		r.Batch.Rollouts > gives {
		r.warn(key, "is %d, and an explore step gives %d rollouts: with sync_style fixed a train step only takes experiences of its version, "+
			"which are too few if a rollout is one experience",
			r.Buffer.TrainBatchSize, gives)
	}
}

// monitors replaces auto with the monitors that it stands for.
func (r *resolution) monitors() {
	if m := r.Monitor.MonitorType; len(m) == 1 && m[0] == "auto" {
		if catalog, ok := registry.Find("monitor"); ok {
			r.Monitor.MonitorType = catalog.Auto
		}
	}
}

func (r *resolution) paths() {
	r.CheckpointJobDir = filepath.Join(r.CheckpointRootDir, r.Project, r.Group, r.Name)
	r.Buffer.CacheDir = filepath.Join(r.CheckpointJobDir, rundir.Buffer)
	b := r.Buffer.TrainerInput.ExperienceBuffer
	if s, ok := registry.Buffers.Default(b.StorageType).(StorePlace); ok && !r.Offline {
		setDefault(&b.Path, s.DefaultPath(r.Buffer.CacheDir, b.Name))
	}
	r.Monitor.CacheDir = filepath.Join(r.CheckpointJobDir, rundir.Monitor)
	r.Log.SaveDir = filepath.Join(r.CheckpointJobDir, "log")
}

func ptr[T any](v T) *T { return &v }

func newDefault[T any]() *T {
	p := new(T)
	setDefaults(valueOf(p))
	return p
}

// setDefault sets an empty text to v.
func setDefault(s *string, v string) {
	if *s == "" {
		*s = v
	}
}

// inherit sets an unset value to a copy of from, if that is set.
func inherit[T any](p **T, from *T) {
	if *p == nil && from != nil {
		*p = ptr(*from)
	}
}
