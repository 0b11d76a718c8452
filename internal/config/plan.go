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
	Active     int64 // parameters that compute one token, if the model has experts
	Trained    int64 // parameters that training changes: all, or the adapter's
}

// Machine describes this machine.
type Machine struct {
	Cores  int
	Memory int64 // bytes that a new process can use; 0 if not known
	Disk   int64 // bytes that are free; 0 if not known
}

// Plan tells what a run will do, as far as that is known before it starts.
type Plan struct {
	File     string      `json:"file"`
	Cores    int         `json:"cores,omitempty"` // 0 if not known
	Stages   []StagePlan `json:"stages"`
	Warnings []string    `json:"warnings,omitempty"`
	Unused   []Note      `json:"unused,omitempty"`

	missing Errors // local models and datasets
}

// StagePlan is the plan of one stage. A run without stages has one StagePlan, without a name.
type StagePlan struct {
	Name      string `json:"name,omitempty"`
	Mode      string `json:"mode"`
	Algorithm string `json:"algorithm,omitempty"`
	Model     string `json:"model"`

	Engines []string `json:"engines"`          // how each choice was resolved, in words
	Critic  string   `json:"critic,omitempty"` // what is trained beside the policy, in words

	TaskPipeline []string `json:"task_pipeline,omitempty"` // what is done before anything else, in words
	Auxiliary    []string `json:"auxiliary,omitempty"`     // buffers that are read beside the experience buffer, in words
	Inputs       []string `json:"inputs,omitempty"`        // what joins the rollouts in the experience pipeline, in words
	Measured     []string `json:"measured,omitempty"`      // datasets that are not trained on, in words
	Teachers     []string `json:"teachers,omitempty"`      // in words
	Asked        []string `json:"asked,omitempty"`         // models that rollouts ask, in words
	Tasksets     []string `json:"tasksets,omitempty"`      // the shares of several, in words
	Limits       string   `json:"limits,omitempty"`        // of rollouts, as far as keys set them, in words
	Chat         []string `json:"chat,omitempty"`          // about the chat template, in words
	Programs     []string `json:"programs,omitempty"`      // that the launcher starts
	Changed      []string `json:"changed,omitempty"`       // since the checkpoint that is gone on from, in words

	GroupSize          int    `json:"group_size,omitempty"`            // rollouts per task
	TasksPerStep       int    `json:"tasks_per_step,omitempty"`        // of an explore step
	ExperiencesPerStep int    `json:"experiences_per_step,omitempty"`  // of a train step
	LastExperiences    int    `json:"experiences_last_step,omitempty"` // of the last train step if it has fewer
	OptimizerSteps     int    `json:"optimizer_steps,omitempty"`       // of a train step
	ExploreSteps       int64  `json:"explore_steps,omitempty"`         // 0 if there are none or they are not known
	TrainSteps         int64  `json:"train_steps,omitempty"`           // 0 if there are none or they are not known
	StepsWhy           string `json:"steps_why"`                       // where the numbers come from, or what is missing
	TokensPerStep      int64  `json:"tokens_per_step,omitempty"`       // of a train step, at most
	MicroBatchTokens   int    `json:"micro_batch_tokens,omitempty"`    // budget of a micro-batch

	Parameters int64        `json:"parameters,omitempty"` // 0 if not known
	Active     int64        `json:"active,omitempty"`     // parameters that one token is computed with, if the model has experts
	Trainable  int64        `json:"trainable,omitempty"`
	Memory     []MemoryPlan `json:"memory,omitempty"`
	MemorySum  int64        `json:"memory_sum,omitempty"`     // bytes of this machine
	MemoryHere int64        `json:"memory_machine,omitempty"` // bytes; 0 if not known
	DoesNotFit string       `json:"does_not_fit,omitempty"`   // why the stage cannot start, and what would fit
	Disk       int64        `json:"disk,omitempty"`           // bytes of the checkpoints that stay
	DiskHere   int64        `json:"disk_free,omitempty"`      // bytes; 0 if not known

	Seconds   float64    `json:"seconds,omitempty"`        // of the run; 0 if not known
	TimeWhy   string     `json:"seconds_why,omitempty"`    // why it is not known, if the model and the data are here
	StepTime  []TimePart `json:"seconds_step,omitempty"`   // of a step, by part
	EvalTime  float64    `json:"seconds_eval,omitempty"`   // of all evaluations of the run
	TooLong   string     `json:"too_long,omitempty"`       // how many prompts or rows are, in words
	TimeIsFor string     `json:"seconds_assume,omitempty"` // assumed lengths, in words
	Faster    []string   `json:"faster,omitempty"`         // what would make a step shorter

	Fetch   []string   `json:"fetch,omitempty"`   // what is downloaded first
	Missing []string   `json:"missing,omitempty"` // what has to be put there before the run can start
	Files   []FilePlan `json:"files"`             // what is written
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
	stages := c.settled
	critic := "" // of an earlier stage
	for i, s := range stages {
		f, err := facts(s)
		if err != nil {
			return nil, err
		}
		p.Cores = f.Machine.Cores
		sp := (&planner{s, f}).plan()
		sp.Critic = s.Critic.words(&s.Algorithm, &s.Batch, &s.Model, &s.Trainer, critic)
		if len(c.Stages) > 0 {
			sp.Name = c.Stages[i].StageName
			if i > 0 {
				sp.Fetch, sp.Missing = without(sp.Fetch, "model.model_path"), without(sp.Missing, "model.model_path")
				sp.Model = "the last checkpoint of stage " + c.Stages[i-1].StageName
				sp.Missing = slices.DeleteFunc(sp.Missing, func(missing string) bool {
					_, path, _ := strings.Cut(missing, ": ")
					return slices.ContainsFunc(stages[:i], func(s *Settled) bool { return s.Leaves(path) })
				})
			}
			if s.Critic != nil {
				critic = "the critic of stage " + sp.Name
			}
		}
		for _, missing := range sp.Missing {
			key, path, _ := strings.Cut(missing, ": ")
			p.missing = append(p.missing, s.source.errorFor(key, path+": no such file or directory", ""))
		}
		p.Stages = append(p.Stages, sp)
		p.Unused = append(p.Unused, s.Unused()...)
	}
	p.Unused = unique(p.Unused)
	return p, nil
}

// hide leaves no password in what the plan names.
func (s *StagePlan) hide() {
	s.Model = safetext.Hidden(s.Model)
	for _, lines := range [][]string{s.TaskPipeline, s.Auxiliary, s.Inputs, s.Measured, s.Teachers, s.Asked, s.Tasksets, s.Fetch, s.Missing} {
		for i := range lines {
			lines[i] = safetext.Hidden(lines[i])
		}
	}
	for i := range s.Files {
		s.Files[i].Path = safetext.Hidden(s.Files[i].Path)
	}
}

// without drops what a key names.
func without(named []string, key string) []string {
	return slices.DeleteFunc(named, func(f string) bool { return strings.HasPrefix(f, key+": ") })
}

// planner plans one stage.
type planner struct {
	run   *Settled
	facts Facts
}

func (c *planner) plan() StagePlan {
	f := c.facts
	s := StagePlan{Mode: c.run.Mode, Model: c.run.Model.ModelPath, Engines: c.engineWords(),
		Parameters: f.Model.Parameters, Active: f.Model.Active, MemoryHere: f.Machine.Memory}
	if c.run.Trains || c.run.Explores {
		s.Algorithm = c.run.Algorithm.AlgorithmType
	}
	c.steps(&s)
	s.TaskPipeline, s.Chat, s.Programs, s.Changed = f.TaskPipeline, f.Chat, f.Programs, f.Changed
	s.Auxiliary = wordsOf(c.run.Data.Auxiliary, func(b NamedBuffer) string { return b.auxiliaryWords(f.Rows) })
	s.Inputs = wordsOf(c.run.Data.Inputs, func(b NamedBuffer) string { return b.inputWords(f.Rows) })
	s.Measured = wordsOf(c.run.Data.Measured, func(b NamedBuffer) string { return b.words("eval buffer", f.Rows) })
	s.Teachers, s.Asked = wordsOf(c.run.Teachers, Teacher.words), wordsOf(c.run.Asked, AskedModel.words)
	if f.Model.Known {
		c.memory(&s)
		c.disk(&s)
	}
	c.time(&s)
	for _, key := range c.run.Sources() {
		if name, ok := f.Fetch[key]; ok {
			s.Fetch = append(s.Fetch, fmt.Sprintf("%s: %s", key, name))
		}
		if name, ok := f.Missing[key]; ok {
			s.Missing = append(s.Missing, fmt.Sprintf("%s: %s", key, name))
		}
	}
	s.Files = c.files()
	s.hide()
	return s
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
	keys := []string{"model.model_path"}
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
		keys = append(keys, a.Key+".model_path")
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
	if c.run.Together || c.run.Explores && c.run.Buffer.TrainerInput.ExperienceBuffer.StorageType != "file" {
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
		if c.run.source.opts.Engine != "" && c.run.source.opts.Engine != "auto" {
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
	switch {
	case c.run.Together:
		words = append(words, c.weightsWords())
	case c.run.Explores || c.run.Trains && !c.run.ReadsDataset:
		words = append(words, "weights: through files, since explorer and trainer are different processes")
	}
	return words
}
