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
func (s *Settled) settle(r report) {
	data, method, batch := &s.Data, &s.Method, &s.Batch
	s.Work = s.work() // what the mode does
	if s.InitSeed = s.Seed; s.Model.Init.Seed != nil {
		s.InitSeed = *s.Model.Init.Seed
	}
	sets := s.Buffer.ExplorerInput.tasksets()
	settleAliases(r, &s.Algorithm, &s.Buffer, sets, &s.Explorer, &s.Synchronizer, &s.Trainer) // keys and values that have a new name
	settleEngines(r, &s.Cluster, &s.Engines, &s.Explorer, &s.Trainer)                         // the engines' types, Engines.Train and Sample
	s.Model.settleLengths(r)                                                                  // model.max_model_len and its two parts
	method.settle(&s.Algorithm, &s.Work, batch)                                               // Method, Offline, Batch.PerRow
	settleAlgorithm(r, &s.Algorithm, method, &s.Model, &s.Trainer, s.Work)                    // the keys that the algorithm's type decides
	s.Teachers = teachersOf(r, &s.Engines, &s.Explorer, method, s.Work)                       // Teachers
	settleModels(&s.Explorer, &s.Model, &s.Trainer)                                           // defaults of rollout and auxiliary models
	settleTasksets(r, &s.Buffer, sets, &s.Explorer, method)                                   // defaults of tasksets
	s.Asked = askedOf(&s.Explorer, method, s.Work)                                            // Asked
	settleBuffers(r, &s.Algorithm, &s.Buffer, method, &s.Work)                                // the experience buffer, the rest of Work
	s.TaskPipeline = s.DataProcessor.settleTaskPipeline(r, &s.Buffer, sets, s.Work)           // TaskPipeline and the path that it writes
	data.Tasksets = entriesOf(sets)                                                           // Data.Tasksets
	settleAuxiliaryBuffers(r, &s.Algorithm, &s.Buffer, data, method, s.Work)                  // Data.Auxiliary
	settleEvalBuffers(r, &s.Buffer, data, s.Work)                                             // Data.Measured
	settleInputs(r, data, &s.DataProcessor, s.Work)                                           // Data.Inputs
	batch.settleExplored(r, &s.Buffer, &s.Cod, data, method, s.Work)                          // Batch.CountsRollouts, StepRollouts
	batch.settleSizes(&s.Buffer, method, &s.Trainer, s.Work)                                  // Batch, but for what follows
	s.Critic = criticOf(r, &s.Algorithm, batch, method, &s.Trainer, s.Work)                   // Critic
	batch.settleMicroTokens(s.Critic, &s.Model, &s.Trainer)                                   // MicroTokens
	batch.settleConcurrency(r, &s.Buffer, &s.Explorer, method, &s.Synchronizer, s.Work)       // StepsInFlight, Sequences
	s.Synchronizer.settle(r, &s.Buffer, &s.Engines, &s.Explorer, method, &s.Model, s.Work)    // both sync intervals, Engines.Weights
	batch.warnOfShortSteps(r, &s.Buffer, &s.Synchronizer, s.Work)
	s.Monitor.settle()    // monitor.monitor_type
	s.settlePaths(s.Work) // the directories of the run
}

// report collects what is wrong with a configuration. It is a handle that checks pass on.
type report struct {
	source   *source // where keys stand
	errs     *Errors
	warnings *[]string
}

func (r report) fail(key, message, hint string) { r.add(r.errorFor(key, message, hint)) }

func (r report) errorFor(key, message, hint string) Error {
	return r.source.errorFor(key, message, hint)
}

// IsSet reports whether the file or the command line gives the key.
func (r report) IsSet(key string) bool { return r.source.IsSet(key) }

func (r report) add(e Error) { *r.errs = append(*r.errs, e) }

// errorFor returns an error at the place where the file writes a key.
func (s *source) errorFor(key, message, hint string) Error {
	p := s.Pos(key)
	return Error{File: p.File, Line: p.Line, Col: p.Col, Key: s.written(key), Message: message, Hint: hint}
}

// written returns a key as the file writes it: with the number of its stage, if it stands there.
func (s *source) written(key string) string {
	if _, ok := s.whole[s.stage+key]; ok {
		return s.stage + key
	}
	return key
}

func (r report) warn(key, format string, args ...any) {
	text := fmt.Sprintf("%s: %s: %s", r.source.Pos(key), r.source.written(key), fmt.Sprintf(format, args...))
	*r.warnings = append(*r.warnings, safetext.Hidden(text))
}

// settleLengths applies the rules between the lengths of model, prompt and response.
func (model *Model) settleLengths(r report) {
	m := model
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
		m.MaxPromptTokens = remainder(r, "model.max_response_tokens", *m.MaxResponseTokens, *m.MaxModelLen)
	case m.MaxResponseTokens == nil:
		m.MaxResponseTokens = remainder(r, "model.max_prompt_tokens", *m.MaxPromptTokens, *m.MaxModelLen)
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

func remainder(r report, key string, given, whole int) *int {
	if given >= whole {
		r.fail(key, fmt.Sprintf("is %d, which leaves no tokens of max_model_len %d for the other part", given, whole),
			"make it smaller, or set max_model_len to prompt and response together")
		return ptr(1)
	}
	return ptr(whole - given)
}

// settleAlgorithm fills in the keys that follow from the algorithm type. IsSet still reports what the
// file sets.
func settleAlgorithm(r report, algorithm *Algorithm, method *Method, model *Model, trainer *Trainer, w Work) {
	if own := method.Parts; own != nil && (w.Trains || w.Explores || w.Records()) {
		a := algorithm
		setDefault(&a.AdvantageFn, own.Advantage)
		setDefault(&a.PolicyLossFn, own.PolicyLoss)
		setDefault(&a.KLPenaltyFn, own.KLPenalty)
		setDefault(&a.KLLossFn, own.KLLoss)
		setDefault(&a.EntropyLossFn, own.Entropy)
		setDefault(&a.SampleStrategy, own.SampleStrategy)
		if !own.Offline {
			a.RepeatTimes = ptr(method.GroupSize)
		}
	}
	settleGradClip(r, algorithm, trainer)
	algorithm.Optimizer.momentum()
	if trainer.MaxTokenLenPerGPU == nil {
		trainer.MaxTokenLenPerGPU = ptr(max(2048, 2**model.MaxModelLen)) // fewer would leave the matrix kernels idle
	}
}

// settleGradClip gives the two keys for the largest gradient norm one value.
func settleGradClip(r report, algorithm *Algorithm, trainer *Trainer) {
	const one, other = "trainer.grad_clip", "algorithm.optimizer.clip_grad"
	a, b := &trainer.GradClip, &algorithm.Optimizer.ClipGrad
	switch {
	case r.IsSet(one) && r.IsSet(other) && *a != *b:
		r.fail(other, fmt.Sprintf("is %g, but %s is %g, and both mean the same limit", *b, one, *a), "keep one of them")
	case r.IsSet(other):
		*a = *b
	default:
		*b = *a
	}
}

// settleTasksets fills in tasksets from the defaults of explorer_input and the sampling of the rollout model.
func settleTasksets(r report, buffer *Buffer, sets []tasksetPlace, explorer *Explorer, method *Method) {
	in, m := &buffer.ExplorerInput, &explorer.RolloutModel
	if in.DefaultEvalWorkflowType == "" {
		in.DefaultEvalWorkflowType = in.DefaultWorkflowType
	}
	for _, e := range sets {
		t, name, workflow := e.set, "taskset", in.DefaultWorkflowType
		if e.eval {
			name, workflow = "eval_taskset", in.DefaultEvalWorkflowType
		}
		setDefault(&t.Name, name+"_"+strconv.Itoa(e.index))
		setDefault(&t.DefaultWorkflowType, workflow)
		setDefault(&t.DefaultRewardFnType, in.DefaultRewardFnType)
		t.Format.chats(r.IsSet, e.key+".format.")
		inherit(&t.RolloutArgs.Temperature, m.Temperature)
		inherit(&t.RolloutArgs.TopP, m.TopP)
		inherit(&t.RolloutArgs.TopK, m.TopK)
		inherit(&t.RolloutArgs.Logprobs, m.Logprobs)
		inherit(&t.RolloutArgs.MaxTokens, m.MaxResponseTokens)
		if !e.eval {
			t.RepeatTimes = method.GroupSize
		}
	}
}

// chats makes messages_key the key of the prompts of a taskset whose section names it and not prompt_key.
func (f *Format) chats(isSet func(key string) bool, key string) {
	if isSet(key+"messages_key") && !isSet(key+"prompt_key") && f.PromptType == "messages" {
		f.PromptKey = f.MessagesKey
	}
}

// settleModels fills in rollout and auxiliary models from the sampling of model.
func settleModels(explorer *Explorer, model *Model, trainer *Trainer) {
	m := model
	setDefault(&m.CriticModelPath, m.ModelPath)
	setDefault(&explorer.RolloutModel.ModelPath, m.ModelPath)
	inherit(&trainer.TrustRemoteCode, &m.TrustRemoteCode)
	inherit(&m.EnableThinking, explorer.RolloutModel.EnableThinking)
	if m.ChatTemplatePath == "" {
		setDefault(&m.CustomChatTemplate, explorer.RolloutModel.ChatTemplate)
	}
	all := []*InferenceModel{&explorer.RolloutModel}
	for i := range explorer.AuxiliaryModels {
		all = append(all, &explorer.AuxiliaryModels[i])
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

// settleBuffers gives the trainer its queue, and every buffer its name and its kind of rows.
func settleBuffers(r report, algorithm *Algorithm, buffer *Buffer, method *Method, w *Work) {
	in := &buffer.TrainerInput
	if in.ExperienceBuffer == nil {
		in.ExperienceBuffer = newDefault[ExperienceBuffer]()
	}
	b := in.ExperienceBuffer
	setDefault(&b.Name, "experience_buffer")
	schema := "experience"
	if parts := method.Parts; parts != nil {
		schema = parts.Schema
	}
	if b.SchemaType != "" && b.SchemaType != schema {
		r.fail("buffer.trainer_input.experience_buffer.schema_type",
			fmt.Sprintf("is %q, but %s trains on %q", b.SchemaType, algorithm.AlgorithmType, schema),
			"leave it out")
	}
	setDefault(&b.SchemaType, schema)
	plainText(r, "buffer.trainer_input.experience_buffer", b)
	const storage = "buffer.trainer_input.experience_buffer.storage_type"
	if w.Offline {
		if r.IsSet(storage) && b.StorageType == "queue" {
			r.fail(storage, fmt.Sprintf("%s reads a dataset, not a queue", algorithm.AlgorithmType), "set it to file, or leave it out")
		}
		if b.StorageType == "queue" {
			b.StorageType = "file"
		}
	}
	if b.StorageType == "queue" && !w.Together && dburl.IsURL(b.Path) {
		b.StorageType = automatic("buffer", "auto") // Trinity-RFT keeps such a queue in the database
	}
	if b.StorageType == "file" && w.Together {
		r.warn(storage, "mode both passes experiences through a queue, not a file")
		b.StorageType = "queue"
	}
	w.Recorded = method.Parts != nil && w.mode == "train" && !w.Offline && b.StorageType == "file"
	w.ReadsDataset = w.Offline || w.Recorded
	w.SharedStore = !w.Offline && registry.Buffers.Has(b.StorageType)
}

// plainText sets prompt_type to plaintext for schema cpt, which has no other form.
func plainText(r report, key string, b *ExperienceBuffer) {
	if b.SchemaType == "cpt" && !r.IsSet(key+".format.prompt_type") {
		b.Format.PromptType = "plaintext"
	}
}

// warnOfShortSteps warns if a train step asks for more rollouts than one explore step makes.
func (batch *Batch) warnOfShortSteps(r report, buffer *Buffer, synchronizer *Synchronizer, w Work) {
	const key = "buffer.train_batch_size"
	if gives := batch.StepRollouts; w.Together && synchronizer.SyncStyle == "fixed" && !batch.CountsRollouts &&
		batch.Rollouts > gives {
		r.warn(key, "is %d, and an explore step gives %d rollouts: with sync_style fixed a train step only takes experiences of its version, "+
			"which are too few if a rollout is one experience",
			buffer.TrainBatchSize, gives)
	}
}

// settle replaces auto with the monitors that it stands for.
func (monitor *Monitor) settle() {
	if m := monitor.MonitorType; len(m) == 1 && m[0] == "auto" {
		if catalog, ok := registry.Find("monitor"); ok {
			monitor.MonitorType = catalog.Auto
		}
	}
}

// settlePaths fills in the directories of the run.
func (c *Config) settlePaths(w Work) {
	c.CheckpointJobDir = filepath.Join(c.CheckpointRootDir, c.Project, c.Group, c.Name)
	c.Buffer.CacheDir = filepath.Join(c.CheckpointJobDir, rundir.Buffer)
	b := c.Buffer.TrainerInput.ExperienceBuffer
	if s, ok := registry.Buffers.Default(b.StorageType).(StorePlace); ok && !w.Offline {
		setDefault(&b.Path, s.DefaultPath(c.Buffer.CacheDir, b.Name))
	}
	c.Monitor.CacheDir = filepath.Join(c.CheckpointJobDir, rundir.Monitor)
	c.Log.SaveDir = filepath.Join(c.CheckpointJobDir, "log")
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
