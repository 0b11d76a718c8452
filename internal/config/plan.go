package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/wait"
)

// Facts are what a plan needs beside the configuration. For an unknown fact the plan has words.
type Facts struct {
	Model   ModelFacts
	Machine Machine
	Memory  []MemoryPlan // of the engines and the process around them; empty if not known
	Choices []MemoryChoice
	// DoesNotFit tells in one line why the run cannot start, such as how much memory it needs and
	// there is, and which setting would fit; "" if it fits.
	DoesNotFit string
	// TooLong tells how many prompts or rows of those looked at are too long; "" if none is.
	TooLong string
	// TaskPipeline has a line for each thing that the task pipeline does before the run.
	TaskPipeline []string
	// Chat has a line for each thing about the chat template that rollouts of several turns depend on.
	Chat []string
	// Programs has a line for each program that the launcher starts.
	Programs []string
	// Changed has a line for each difference from the checkpoint that the run resumes from.
	Changed []string
	Rows    map[string]int    // by the dotted key of the taskset or buffer; absent if not known
	Fetch   map[string]string // hub names to download, by the key that names them
	Missing map[string]string // paths that do not exist, by the key that names them
	Time    *TimeFacts        // nil if not known
	TimeWhy string            // why not; "" if the model or the data are not here
}

// TimeFacts are estimated seconds on this machine.
type TimeFacts struct {
	Explore, Train float64    // of a step
	Evaluation     float64    // of all evaluation tasksets
	Parts          []TimePart // of a step of both
	Lengths        string     // which lengths of prompts and responses the estimate assumes, in words
	Faster         []string   // settings that would make a step shorter, and by how much
}

// TimePart is a part of a step.
type TimePart struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// ModelFacts are the sizes of the model.
type ModelFacts struct {
	Known      bool
	Parameters int64
	Active     int64    // parameters that compute one token, if the model has experts
	Trained    int64    // parameters that training changes: all, or the adapter's
	Notes      []string // what its files say and the run leaves out
}

// Machine describes this machine.
type Machine struct {
	Cores  int
	Memory int64 // bytes that a new process can use; 0 if not known
	Disk   int64 // bytes that are free; 0 if not known
}

// Plan tells what a run will do, as far as that is known before it starts.
type Plan struct {
	File     string       `json:"file"`
	Warnings []string     `json:"warnings,omitempty"`
	Cores    int          `json:"cores,omitempty"` // 0 if not known
	Unused   []Note       `json:"unused,omitempty"`
	Stages   []*StagePlan `json:"stages"` // a run without stages has one

	missing Errors // local models and datasets
}

// StagePlan is the plan of one stage, in rows that people read and values that JSON has. It is built once, in the order
// of both.
type StagePlan struct {
	ExploreSteps, TrainSteps int64 // 0 if there are none or they are not known

	Memory     []MemoryPlan
	MemorySum  int64  // bytes of this machine
	MemoryHere int64  // bytes; 0 if not known
	DoesNotFit string // why the stage cannot start, and what would fit

	Seconds  float64 // of the run; 0 if not known
	TimeWhy  string  // why it is not known, if the model and the data are here
	EvalTime float64 // of all evaluations of the run

	name   string
	title  string
	rows   []planRow
	values []planValue
}

// MemoryChoice is a way to take less memory of this machine.
type MemoryChoice struct {
	Setting string `json:"setting"` // as on the command line, or in words what the run may do itself
	Saves   int64  `json:"saves"`   // bytes
	Costs   string `json:"costs"`
}

func (c MemoryChoice) words() string {
	return fmt.Sprintf("%s with %s: %s", Size(c.Saves), c.Setting, c.Costs)
}

// MemoryPlan is the memory of one kind, in bytes.
type MemoryPlan struct {
	Kind   string `json:"kind"`
	Bytes  int64  `json:"bytes"`
	Why    string `json:"why"`
	Device string `json:"device,omitempty"` // whose memory it is; "" is this machine
	Free   int64  `json:"free,omitempty"`   // bytes of the device; 0 if not known
}

// FilePlan is a file or directory that a run writes.
type FilePlan struct {
	Path string `json:"path"`
	What string `json:"what"`
}

// Plan returns what the run will do. It only calculates: it opens no file and downloads nothing.
// [Config.PlanStages] takes facts that differ between stages.
func (c *Config) Plan(f Facts) (*Plan, error) {
	return c.PlanStages(func(*Settled) (Facts, error) { return f, nil })
}

// PlanStages is [Config.Plan] with facts of each stage. facts looks them up.
func (c *Config) PlanStages(facts func(stage *Settled) (Facts, error)) (*Plan, error) {
	p := &Plan{File: c.File(), Warnings: c.Warnings}
	critic := "" // of an earlier stage
	for i, run := range c.settled {
		f, err := facts(run)
		if err != nil {
			return nil, err
		}
		p.Cores = f.Machine.Cores
		if f.Time == nil {
			f.Time = &TimeFacts{}
		}
		stage := planner{run: run, facts: f, earlier: c.settled[:i], model: run.Model.ModelPath,
			critic: run.Critic.words(&run.Algorithm, &run.Batch, &run.Model, &run.Trainer, critic)}
		if len(c.Stages) > 0 {
			stage.name = c.Stages[i].StageName
		}
		if i > 0 {
			stage.model = "the last checkpoint of stage " + c.Stages[i-1].StageName
		}
		if run.Critic != nil {
			critic = "the critic of stage " + stage.name
		}
		p.Stages = append(p.Stages, stage.plan())
		p.missing = append(p.missing, stage.missing...)
		p.Unused = append(p.Unused, run.Unused()...)
	}
	p.Unused = unique(p.Unused)
	return p, nil
}

// planner plans one stage.
type planner struct {
	run     *Settled
	facts   Facts
	earlier []*Settled // stages

	model, critic string // in words
	missing       Errors // local models and datasets
	StagePlan
}

// plan makes the rows of a stage, in the order in which people read them.
func (c *planner) plan() *StagePlan {
	f, algorithm := c.facts, ""
	if c.title = "plan: mode " + c.run.Mode; c.name != "" {
		c.title = fmt.Sprintf("stage %s: mode %s", c.name, c.run.Mode)
	}
	if c.run.Trains || c.run.Explores {
		algorithm = c.run.Algorithm.AlgorithmType
		c.title += ", algorithm " + algorithm
	}
	c.row("model", "%s%s", c.model, f.Model.words())
	c.has("name", c.name, "mode", c.run.Mode, "algorithm", algorithm, "model", c.model,
		"parameters", f.Model.Parameters, "active", f.Model.Active, "trainable", f.Model.Trained)
	c.list("left out", "left_out", f.Model.Notes)
	engines := c.engineWords()
	for _, e := range engines {
		name, words, _ := strings.Cut(e, ": ")
		c.row(name, "%s", words)
	}
	c.has("engines", engines)
	c.one("critic", "critic", c.critic)
	c.list("program", "programs", f.Programs)
	c.list("chat", "chat", f.Chat)
	c.list("changed", "changed", f.Changed)
	c.list("prepares", "task_pipeline", f.TaskPipeline)
	c.steps()
	c.sources()
	files := c.files()
	for i := range files {
		files[i].Path = safetext.Hidden(files[i].Path)
		c.detail("writes", "%s: %s", files[i].Path, files[i].What)
	}
	c.has("files", files)
	c.disk()
	c.list("faster", "faster", f.Time.Faster)
	c.memory()
	c.time()
	return &c.StagePlan
}

// wordsOf describes each item of a list.
func wordsOf[T any](all []T, words func(T) string) (lines []string) {
	for _, item := range all {
		lines = append(lines, words(item))
	}
	return lines
}

// Sources lists the keys of everything that the stage reads.
func (c *Settled) Sources() []string {
	keys := []string{modelPathKey}
	if c.Critic != nil {
		keys = append(keys, "model.critic_model_path")
	}
	for _, t := range c.Data.Tasksets {
		if t.Eval || c.Explores {
			keys = append(keys, t.Key+".path", t.Key+".reward_fn_args.model_path")
		}
	}
	if c.ReadsDataset {
		keys = append(keys, "buffer.trainer_input.experience_buffer.path")
	}
	for _, b := range c.Data.Besides() {
		keys = append(keys, b.Key+".path")
	}
	for _, t := range c.Teachers {
		if t.Served == nil {
			keys = append(keys, t.Key+".model_path")
		}
	}
	for _, a := range c.Asked {
		if key := a.Key + ".model_path"; !slices.Contains(keys, key) { // a teacher's is there
			keys = append(keys, key)
		}
	}
	return keys
}

// serverWords tells what the stage asks of which servers.
func (c *planner) serverWords() []string {
	at := c.run.Explorer.RolloutModel.BaseUrls
	if len(at) == 0 || !c.run.behindServers() {
		return nil
	}
	asks := "token ids"
	if c.run.Explores || c.run.Records() {
		asks = "token ids, and log-probabilities as sampled, which training reads"
	}
	if c.run.ServersFollow() {
		asks += "; each version of the weights, from a directory that they see under the same path"
	}
	return []string{
		"servers: " + strings.Join(at, ", "), "asked for: " + asks,
		"not exact: a server computes a request otherwise among others, so the run is no function of its seeds alone",
	}
}

// weightsWords tells how new weights reach the sampler. A value of Trinity-RFT that means a way between GPUs may
// stand for files here, whose time is longer.
func (c *planner) weightsWords() string {
	set := c.run.Synchronizer.SyncMethod
	why := fmt.Sprintf("sync_method is %s and explorer and trainer are one process", set)
	if slices.Contains(c.run.Engines.replaced, syncMethodKey) {
		why = "--engine replaces the engines of sync_method " + set
	}
	words := fmt.Sprintf("weights: %s, because %s", c.run.Engines.Weights, why)
	if set != "nccl" && set != "hccl" || c.run.Engines.Train == c.run.Engines.Sample {
		return words
	}
	words += fmt.Sprintf(": %s stands for files between these engines", set)
	if c.facts.Model.Trained == 0 {
		return words
	}
	number := int64(4)
	if m := &c.run.Explorer.RolloutModel; m.Dtype == "bfloat16" && c.run.startsServers() && len(c.run.Model.LoraConfigs) == 0 {
		number = 2 // servers that the run starts
	}
	bytes := float64(number * c.facts.Model.Trained)
	return words + fmt.Sprintf(", %s a version: about %s if a disk writes and reads 1 GB/s", Size(int64(bytes)),
		wait.Text(wait.Seconds(2*bytes/1e9)))
}

// engineWords tells which engines and which way of the weights the stage uses, and why.
func (c *planner) engineWords() []string {
	var words []string
	choice := func(what, key, set, got string) {
		why := fmt.Sprintf("%s is %s", key, set)
		if c.run.Model.Tinker.Enable && c.run.IsSet(enableKey) {
			why = enableKey + " is true"
		} else if key == engineTypeKey && c.run.Model.ExternalModel.Enable && !c.run.IsSet(key) {
			why = externalKey + ".enable is true"
		} else if c.run.source.opts.Engine != "" && c.run.source.opts.Engine != "auto" {
			why = "--engine " + c.run.source.opts.Engine
		} else if set == "auto" {
			why = key + " is auto"
		}
		words = append(words, fmt.Sprintf("%s: %s, because %s", what, got, why))
	}
	if c.run.Trains {
		choice("training", "trainer.trainer_type", c.run.Trainer.TrainerType, c.run.Engines.Train)
	}
	if c.run.Mode != "train" {
		choice("rollout", engineTypeKey, c.run.Explorer.RolloutModel.EngineType, c.run.Engines.Sample)
		words = append(words, c.serverWords()...)
	}
	words = append(words, c.serviceWords()...)
	words = append(words, c.externalWords()...)
	switch {
	case c.run.Together:
		words = append(words, c.weightsWords())
	case c.run.Explores || c.run.Trains && !c.run.ReadsDataset:
		words = append(words, "weights: through files, since explorer and trainer are different processes")
	}
	return words
}
