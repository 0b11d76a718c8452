package config

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Settled is the configuration of a run, or of one of its stages, together with the decisions that
// follow from its keys. Load makes these decisions once.
type Settled struct {
	Config
	Work

	Method  Method
	Batch   Batch
	Engines Engines
	Data    Data

	// Critic is how the trainer trains a critic beside the policy; nil if the advantage function
	// reads no values.
	Critic *Critic
	// Teachers are the models that the trainer asks for log-probabilities, in file order.
	Teachers []Teacher
	// Asked are the models that rollouts ask in words, in file order, and teachers, which they may ask too.
	Asked []AskedModel
	// TaskPipeline runs before this stage and writes its taskset; nil if there is none.
	TaskPipeline *TaskPipeline
	// InitSeed is the seed of random weights.
	InitSeed int
}

// Work is what a run does.
type Work struct {
	// What the mode does.
	Together bool // one process explores and trains
	Explores bool // it rolls out training tasks
	Trains   bool // it updates weights
	Samples  bool // it samples from the trained model

	// Where the trainer's experiences come from.
	Offline      bool // the algorithm trains on a dataset
	Recorded     bool // the trainer reads rollouts that an earlier run kept, as a dataset
	ReadsDataset bool // Offline or Recorded
	SharedStore  bool // a registered store, such as a database, passes experiences to the trainer

	mode      string
	records   bool
	stepLimit int
}

// Method is the algorithm of a run, with the changes that the file makes to its type.
type Method struct {
	Parts     *trinity.Algorithm     // nil if this program has no such type
	Advantage trinity.Advantage      // nil if there is none
	Strategy  trinity.SampleStrategy // chooses what the trainer reads; nil if it cannot be built
	Needs     trinity.Needs          // needs of the advantage function
	Sample    trinity.SampleNeeds    // needs of the strategy
	GroupSize int                    // rollouts per task

	Reference bool // training keeps the frozen reference model
	Distils   bool // the advantage function or the policy loss learns from a teacher
	Compares  bool // the policy loss is a divergence from a teacher's whole distribution
	Scores    bool // the policy loss trains a reward model
	// Imitates reports whether training learns the text of rollouts, whatever distribution sampled it: no
	// part weighs it by advantages, a teacher or a KL term.
	Imitates bool
	// Recomputes reports whether the trainer computes the logprobs before the update itself.
	Recomputes bool

	own     *trinity.Algorithm // the type, without the changes; nil if there is none
	unknown error              // why not
}

// Batch has the sizes of a run. Train, Mini and Rollouts count experiences or pairs of a dataset. If
// CountsRollouts is true, they count rollouts.
type Batch struct {
	PerRow         int  // sequences per row: two for a pair (chosen and rejected), else one
	CountsRollouts bool // the train batch is a number of rollouts, each with all its steps
	StepRollouts   int  // rollouts per explore step, including those that inputs add
	Train          int  // size of a train step
	Rollouts       int  // part of Train that does not come from auxiliary buffers
	Mini           int  // size of an optimizer step
	Whole          bool // a batch is one optimizer step, however many experiences it has
	Epochs         int  // passes over a batch
	MicroTokens    int  // largest number of tokens in a micro-batch
	Sequences      int  // largest number of concurrent rollouts: each runner works on one group
	StepsInFlight  int  // largest number of explore steps in flight
	Rereads        bool // the trainer reads rows of its dataset more than once
	// Recompute allows the trainer to compute activations again in the backward pass instead of
	// keeping them. It does so if memory is short. The results have the same bits.
	Recompute bool
}

// Engines are the names of the plug-ins that open models and carry weights between them.
type Engines struct {
	Train, Sample string
	Weights       string // brings weights to a sampler in the same process
	Launch        string // starts the programs of engines

	replaced         []string // keys of arguments of engines in whose place --engine puts another one
	insteadOfService bool     // the command line names engines in place of the service of model.tinker
}

// Data lists what a run reads.
type Data struct {
	Tasksets  []TasksetEntry // training tasksets, then evaluation tasksets
	Auxiliary []NamedBuffer  // the sample strategy reads them; sorted by name
	Measured  []NamedBuffer  // eval_buffers, which the trainer only measures; sorted by name
	Inputs    []NamedBuffer  // they join the rollouts in the experience pipeline; sorted by name
}

// Settled returns the stages of the run in their order, or the run itself if it has none.
func (c *Config) Settled() []*Settled { return c.settled }

// work returns what the mode does. With colocate, explorer and trainer take turns on the same GPUs. On a CPU it
// equals mode both: the two share cores and memory.
func (c *Config) work() Work {
	w := Work{mode: c.Mode, Together: c.Mode == "both" || c.Mode == "colocate", Samples: c.Mode != "train"}
	w.Explores, w.Trains = w.Together || c.Mode == "explore", w.Together || c.Mode == "train"
	w.records = c.Mode == "serve" && c.Explorer.PendingExpiry > 0
	w.stepLimit, _ = stepLimit(&c.Buffer, &c.Trainer)
	return w
}

// settle fills in the algorithm, if this program has its type. plugin finds the plug-ins that its names stand for.
func (m *Method) settle(algorithm *Algorithm, w *Work, batch *Batch, plugin pluginOf) {
	m.GroupSize, batch.PerRow = 1, 1
	m.Recomputes = !algorithm.BypassOldLogprobs
	if bypass := algorithm.RolloutCorrection.BypassMode; bypass != nil {
		m.Recomputes = !*bypass
	}
	if own := m.own; own != nil {
		w.Offline, batch.PerRow = own.Offline, trinity.PerRow(own.Schema)
		m.GroupSize = max(own.GroupSize, 1)
	}
	if algorithm.RepeatTimes != nil {
		m.GroupSize = *algorithm.RepeatTimes
	}
	if m.own == nil {
		return // the check of the plug-ins reports why
	}
	m.Parts = registry.PartsOf(m.own, algorithm.changes())
	resolveParts(m.Parts, plugin)
	p, name := m.Parts, m.Parts.SampleStrategy
	setDefault(&name, "default")
	if strategy, err := registry.SampleStrategies.Build(name, p.SampleStrategyArgs); err == nil {
		m.Strategy, m.Sample = strategy, strategy.Needs()
	}
	if advantage, err := registry.Advantages.Build(p.Advantage, p.AdvantageArgs); err == nil {
		m.Advantage, m.Needs = advantage, advantage.Needs()
	}
	policy := policyNeeds(p)
	_, m.Compares = policyLoss(p).(interface{ Compares() trinity.Divergence })
	_, m.Scores = policyLoss(p).(interface{ Scores() })
	m.Distils = m.Needs.Teacher || policy.Teacher || m.Compares
	weighed := weighs(p.KLLoss, p.KLLossArgs) || weighs(p.KLPenalty, p.KLPenaltyArgs)
	advantages, says := policyLoss(p).(interface{ ReadsAdvantages() bool })
	m.Imitates = says && !advantages.ReadsAdvantages() && !m.Distils && !weighed
	m.Reference = weighed || m.Needs.Reference || policy.Reference
}

// resolveParts puts the plug-ins that the names of an algorithm's parts stand for in their place.
func resolveParts(a *trinity.Algorithm, plugin pluginOf) {
	for _, part := range []struct {
		kind string
		name *string
		args *map[string]any
	}{
		{"advantage_fn", &a.Advantage, &a.AdvantageArgs}, {"policy_loss_fn", &a.PolicyLoss, &a.PolicyLossArgs},
		{"kl_fn", &a.KLPenalty, &a.KLPenaltyArgs}, {"kl_fn", &a.KLLoss, &a.KLLossArgs},
		{"entropy_loss_fn", &a.Entropy, &a.EntropyArgs}, {"sample_strategy", &a.SampleStrategy, &a.SampleStrategyArgs},
	} {
		if catalog, ok := registry.Find(part.kind); ok {
			*part.name, *part.args = plugin(catalog, *part.name, *part.args)
		}
	}
}

// settleSizes fills in the sizes that follow from all other keys.
func (b *Batch) settleSizes(buffer *Buffer, method *Method, trainer *Trainer, w Work) {
	b.Train = buffer.TrainBatchSize
	if b.CountsRollouts {
		b.Train = b.StepRollouts
	}
	b.Rollouts = b.Train
	if s := method.Strategy; w.Trains && s != nil {
		b.Rollouts = s.Rollouts(b.Train)
	}
	b.Mini, b.Epochs, b.Whole = b.Train, 1, trainer.actor("ppo_mini_batch_size") == nil
	if n, ok := trainer.actor("ppo_mini_batch_size").(int); ok && n > 0 {
		b.Mini = n
	}
	if n, ok := trainer.actor("ppo_epochs").(int); ok && n > 0 {
		b.Epochs = n
	}
	allowed, set := trainer.gradientCheckpointing().(bool)
	b.Recompute = allowed || !set
	epochs := buffer.TotalEpochs
	if own := buffer.TrainerInput.ExperienceBuffer.TotalEpochs; own != nil {
		epochs = *own
	}
	b.Rereads = w.ReadsDataset && (epochs > 1 || w.StepLimit() > 0)
}

// settleMicroTokens fills in the tokens of a micro-batch on a rank: it holds its part of a row at least, and no more than
// an optimizer step of the policy or the critic has.
func (b *Batch) settleMicroTokens(critic *Critic, engines *Engines, model *Model, trainer *Trainer) {
	mini := b.Mini
	if critic != nil && critic.PpoMiniBatchSize != nil {
		mini = max(mini, *critic.PpoMiniBatchSize)
	}
	row := b.PerRow * *model.MaxModelLen
	if n := trainer.Layout().Sequence; n > 1 && engines.divideRows() {
		row = (row + n - 1) / n
	}
	if trainer.MaxTokenLenPerGPU == nil {
		trainer.MaxTokenLenPerGPU = ptr(max(engines.microTokens(*model.MaxModelLen), row))
	}
	b.MicroTokens = max(min(*trainer.MaxTokenLenPerGPU, mini*row), row)
}

// settleConcurrency fills in the number of concurrent explore steps and rollouts. Several explore steps
// are in flight only in style fully_async, in which the explorer does not wait for new weights.
func (batch *Batch) settleConcurrency(r report, buffer *Buffer, explorer *Explorer, method *Method, synchronizer *Synchronizer, w Work) {
	b, e := batch, explorer
	b.StepsInFlight = 1
	if w.Explores && synchronizer.SyncStyle == "fully_async" && buffer.TrainerInput.ExperienceBuffer.StorageType != "file" {
		b.StepsInFlight = e.MaxInflightBatches
	}
	group := max(1, method.GroupSize)
	const key = "explorer.runner_per_model"
	b.Sequences = product(r, key, e.RunnerPerModel, "explorer.rollout_model.engine_num", e.RolloutModel.EngineNum)
	b.Sequences = product(r, key, b.Sequences, "engine_num and algorithm.repeat_times", group)
	if step := buffer.BatchSize * group; w.Explores && len(buffer.ExplorerInput.EvalTasksets) == 0 && step <= maxCount {
		b.Sequences = min(b.Sequences, b.StepsInFlight*step)
	}
}

// settleExplored fills in the rollouts of an explore step: batch_size × repeat_times, plus repeat_times for
// each group and 1 for each demonstration of an input.
func (batch *Batch) settleExplored(r report, buffer *Buffer, cod *Cod, data *Data, method *Method, w Work) {
	b, group := batch, method.GroupSize
	b.CountsRollouts = w.Explores && buffer.TrainBatchSize == 0
	b.StepRollouts = product(r, "buffer.batch_size", cod.packs(r, data, buffer.BatchSize), "algorithm.repeat_times", group)
	for _, in := range data.Inputs {
		if in.SchemaType == "sft" {
			b.StepRollouts += in.PerStep()
		} else {
			b.StepRollouts += product(r, in.Key+".batch_size", in.PerStep(), "algorithm.repeat_times", group)
		}
	}
}

// product multiplies the values of two keys. A product that is too large is an error of the first.
func product(r report, key string, n int, other string, m int) int {
	if n *= m; n > maxCount {
		r.fail(key, fmt.Sprintf("times %s is %d, must be at most %d", other, n, maxCount), "make one of them smaller")
		return 1
	}
	return n
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
