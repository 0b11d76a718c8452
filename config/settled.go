package config

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Settled is the configuration of a run, or of one of its stages, with what follows from its keys.
// Load decides all of it once.
type Settled struct {
	*Config

	// What the mode does.
	Together bool // one process explores and trains
	Explores bool // it rolls out training tasks
	Trains   bool // it updates weights
	Samples  bool // it samples from the trained model

	// Where the trainer's experiences come from.
	Offline      bool // the algorithm trains on a dataset
	Recorded     bool // the trainer reads what an earlier run kept, as rows of a dataset
	ReadsDataset bool // either
	SharedStore  bool // a registered store, such as a database, keeps the experiences on their way

	Method  Method
	Batch   Batch
	Engines Engines
	Data    Data

	// Critic says how a critic is trained beside the policy; nil if the advantage function reads no
	// values.
	Critic *Critic
	// Teachers are asked by the trainer, in the order of the file.
	Teachers []Teacher
	// TaskPipeline runs before this stage and makes what it reads; nil if none does.
	TaskPipeline *TaskPipeline
	// InitSeed is the seed of random weights.
	InitSeed int
}

// Method is the algorithm of a run, with the changes that the file makes to its type.
type Method struct {
	Parts     *trinity.Algorithm     // nil if this program has no such type
	Advantage trinity.Advantage      // nil if there is none
	Strategy  trinity.SampleStrategy // how the trainer reads; nil if it cannot be built
	Needs     trinity.Needs          // of the advantage function
	Sample    trinity.SampleNeeds    // of the strategy
	GroupSize int                    // rollouts per task

	Reference bool // training keeps the frozen reference model
	Distils   bool // the advantage function or the policy loss learns from a teacher
	Compares  bool // the policy loss is over a divergence from a teacher's whole distribution
	// Recomputes reports whether the trainer computes the old logprobs, those before the update.
	Recomputes bool
}

// Batch has the sizes of a run. Train, Mini and Rollouts count experiences, pairs of a dataset or,
// if CountsRollouts, rollouts.
type Batch struct {
	PerRow         int  // sequences of a row: two of a pair, chosen and rejected, else one
	CountsRollouts bool // the train batch is a number of rollouts, each with all its steps
	StepRollouts   int  // that an explore step gives, with what inputs add
	Train          int  // that a train step reads
	Rollouts       int  // those of Train that auxiliary buffers do not give
	Mini           int  // of an optimizer step
	Whole          bool // a batch is one optimizer step, however many experiences it has
	Epochs         int  // passes over a batch
	MicroTokens    int  // tokens of a micro-batch, at most
	Sequences      int  // rollouts that run at once, at most: each runner works on one group
	UnderWay       int  // explore steps at once, at most
	Rereads        bool // rows of the trainer's dataset come more than once
	// Recompute allows the trainer to compute activations again in the backward pass instead of
	// keeping them. It does so if memory is short. The results have the same bits.
	Recompute bool
}

// Engines are the names of the plug-ins that open models and carry weights between them.
type Engines struct {
	Train, Sample string
	Weights       string // brings weights to a sampler of the same process
}

// Data lists what a run reads.
type Data struct {
	Tasksets  []TasksetEntry // for training, then for evaluations
	Auxiliary []NamedBuffer  // that the sample strategy reads, by name
	Measured  []NamedBuffer  // eval_buffers: the trainer measures them and does not train on them, by name
	Inputs    []NamedBuffer  // that join the rollouts in the experience pipeline, by name
}

// Settled returns the stages of the run in their order, or the run itself if it has none.
func (c *Config) Settled() []*Settled { return c.settled }

// mode fills in what the mode does. Colocation, where explorer and trainer take turns on one GPU,
// is mode both on a CPU: the two share its cores and memory.
func (r *resolution) mode() {
	r.Together = r.Mode == "both" || r.Mode == "colocate"
	r.Explores = r.Together || r.Mode == "explore"
	r.Trains = r.Together || r.Mode == "train"
	r.Samples = r.Mode != "train"
	r.InitSeed = r.Seed
	if seed := r.Model.Init.Seed; seed != nil {
		r.InitSeed = *seed
	}
	r.Data.Tasksets = tasksetsOf(&r.Buffer.ExplorerInput)
}

// method fills in what the algorithm is, for a type that this program has.
func (r *resolution) method() {
	m, s := &r.Method, &r.Algorithm
	m.GroupSize, r.Batch.PerRow = 1, 1
	m.Recomputes = !s.BypassOldLogprobs
	if bypass := s.RolloutCorrection.BypassMode; bypass != nil {
		m.Recomputes = !*bypass
	}
	own, err := registry.Algorithms.Build(s.AlgorithmType)
	if err == nil {
		r.Offline, r.Batch.PerRow = own.Offline, trinity.PerRow(own.Schema)
		m.GroupSize = max(own.GroupSize, 1)
	}
	if s.RepeatTimes != nil {
		m.GroupSize = *s.RepeatTimes
	}
	if m.Parts, err = registry.Parts(s.changes()); err != nil {
		return // the check of the plug-ins reports it
	}
	p, name := m.Parts, m.Parts.SampleStrategy
	setDefault(&name, "default")
	if strategy, err := registry.SampleStrategies.Build(name, p.SampleStrategyArgs); err == nil {
		m.Strategy, m.Sample = strategy, strategy.Needs()
	}
	if advantage, err := registry.Advantages.Build(p.Advantage, p.AdvantageArgs); err == nil {
		m.Advantage, m.Needs = advantage, advantage.Needs()
	}
	policy := policyNeeds(p)
	_, m.Compares = policyLoss(p.PolicyLoss).(interface{ Compares() trinity.Divergence })
	m.Distils = m.Needs.Teacher || policy.Teacher || m.Compares
	m.Reference = weighs(p.KLLoss, p.KLLossArgs) || weighs(p.KLPenalty, p.KLPenaltyArgs) || m.Needs.Reference || policy.Reference
}

// sizes fills in the sizes that follow from all other keys.
func (r *resolution) sizes() {
	b, length := &r.Batch, *r.Model.MaxModelLen
	b.Train = r.Buffer.TrainBatchSize
	if b.CountsRollouts {
		b.Train = b.StepRollouts
	}
	b.Rollouts = b.Train
	if s := r.Method.Strategy; r.Trains && s != nil {
		b.Rollouts = s.Rollouts(b.Train)
	}
	b.Mini, b.Epochs, b.Whole = b.Train, 1, r.actor("ppo_mini_batch_size") == nil
	if n, ok := r.actor("ppo_mini_batch_size").(int); ok && n > 0 {
		b.Mini = n
	}
	if n, ok := r.actor("ppo_epochs").(int); ok && n > 0 {
		b.Epochs = n
	}
	allowed, set := r.gradientCheckpointing().(bool)
	b.Recompute = allowed || !set
	epochs := r.Buffer.TotalEpochs
	if own := r.Buffer.TrainerInput.ExperienceBuffer.TotalEpochs; own != nil {
		epochs = *own
	}
	b.Rereads = r.ReadsDataset && (epochs > 1 || firstSet(r.Buffer.TotalSteps, r.Trainer.TotalSteps) != nil)
	r.critic()
	// A micro-batch holds a row at least, and no more than an optimizer step.
	mini := b.Mini
	if r.Critic != nil && r.Critic.PpoMiniBatchSize != nil {
		mini = max(mini, *r.Critic.PpoMiniBatchSize)
	}
	row := b.PerRow * length
	b.MicroTokens = max(min(*r.Trainer.MaxTokenLenPerGPU, mini*row), row)
	r.concurrency()
}

// concurrency fills in how much is explored at once. Several explore steps are under way only if
// nobody waits for weights.
func (r *resolution) concurrency() {
	b, e := &r.Batch, &r.Explorer
	b.UnderWay = 1
	if r.Explores && r.Synchronizer.SyncStyle == "fully_async" && r.Buffer.TrainerInput.ExperienceBuffer.StorageType != "file" {
		b.UnderWay = e.MaxInflightBatches
	}
	group := max(1, r.Method.GroupSize)
	b.Sequences = e.RunnerPerModel * e.RolloutModel.EngineNum * group
	if r.Explores && len(r.Buffer.ExplorerInput.EvalTasksets) == 0 {
		b.Sequences = min(b.Sequences, b.UnderWay*r.Buffer.BatchSize*group)
	}
}

// explored fills in what an explore step gives: batch_size × repeat_times, and what inputs add. A
// group of an input counts as repeat_times, a demonstration as one.
func (r *resolution) explored() {
	b, group := &r.Batch, r.Method.GroupSize
	b.CountsRollouts = r.Explores && r.Buffer.TrainBatchSize == 0
	b.StepRollouts = r.Buffer.BatchSize * group
	for _, in := range r.Data.Inputs {
		if in.SchemaType == "sft" {
			b.StepRollouts += in.PerStep()
		} else {
			b.StepRollouts += in.PerStep() * group
		}
	}
}
