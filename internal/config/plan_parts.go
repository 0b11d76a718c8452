package config

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

// steps counts steps and tokens, and tells what they read.
func (c *planner) steps() {
	run, b, rows, why := c.run, &c.run.Batch, c.facts.Rows, c.countSteps()
	c.has("steps_why", why)
	if run.Explores {
		group, tasks := run.Method.GroupSize, run.Buffer.BatchSize
		c.row("explore", "%s steps of %d tasks × %d rollouts (%s)", steps(c.ExploreSteps), tasks, group, why)
		c.has("explore_steps", c.ExploreSteps, "tasks_per_step", tasks, "group_size", group)
		c.one("limits", "limits", c.limits())
	}
	c.list("tasks", "tasksets", c.mixture())
	c.list("teacher", "teachers", wordsOf(run.Teachers, Teacher.words))
	c.list("asks", "asked", wordsOf(onlyAsked(run.Asked), AskedModel.words))
	c.list("reads", "auxiliary", wordsOf(run.Data.Auxiliary, func(b NamedBuffer) string { return b.auxiliaryWords(rows) }))
	c.list("joins", "inputs", wordsOf(run.Data.Inputs, func(b NamedBuffer) string { return b.inputWords(rows) }))
	c.list("measures", "measured", wordsOf(run.Data.Measured, func(b NamedBuffer) string { return b.words("eval buffer", rows) }))
	if !run.Trains {
		return
	}
	each, last, end := b.Train*b.PerRow, c.lastBatch(), ""
	if last > 0 {
		end = fmt.Sprintf(" (the last of %d)", last)
	}
	if run.Explores {
		why = ""
	} else {
		why = " (" + why + ")"
	}
	optimizes, tokens := b.Epochs*ceil(b.Train, b.Mini), int64(b.Train*b.PerRow)*int64(*run.Model.MaxModelLen)
	c.row("train", "%s steps of %d experiences%s, %s each%s", steps(c.TrainSteps), each, end, optimizerSteps(optimizes), why)
	c.row("tokens", "at most %s a train step, micro-batches of %d", thousands(tokens), b.MicroTokens)
	if left := 2*b.StepRollouts - b.Train; run.Explores && !b.CountsRollouts && left > 0 && c.hasParts() {
		c.row("left over", "up to %d of %d experiences of an explore step, if each rollout has a further part: later steps train on them, or "+
			"none does; set train_batch_size to %d, or leave it out", left, 2*b.StepRollouts, 2*b.StepRollouts)
	}
	c.has("train_steps", c.TrainSteps, "experiences_per_step", each, "experiences_last_step", last, "optimizer_steps", optimizes,
		"tokens_per_step", tokens, "micro_batch_tokens", b.MicroTokens)
}

// countSteps counts the steps, and returns where the numbers come from, or what is missing.
func (c *planner) countSteps() (why string) {
	switch {
	case c.run.Mode == "bench":
		return "evaluates checkpoints, without steps"
	case c.run.ReadsDataset:
		c.TrainSteps, why = c.offlineSteps()
	case c.run.Mode == "train":
		why = "as many as the explorer's experiences give"
		if n, key := stepLimit(&c.run.Buffer, &c.run.Trainer); n > 0 {
			c.TrainSteps, why = int64(n), "as set by "+key
		}
	default:
		if c.ExploreSteps, why = c.exploreSteps(); !c.run.Together {
			return why
		}
		if c.TrainSteps = c.run.TrainSteps(c.ExploreSteps); c.run.Trainer.TotalSteps != nil {
			why += "; train steps as set by trainer.total_steps"
		}
	}
	return why
}

// limits names the limits of rollouts that keys set, "" if there are none beside explorer.max_timeout.
func (c *planner) limits() string {
	e := &c.run.Explorer
	var limits []string
	for _, t := range []struct {
		of      string
		seconds float64
	}{{"a call of a model", e.TurnTimeout}, {"a reward function", e.RewardTimeout}} {
		if t.seconds > 0 {
			limits = append(limits, fmt.Sprintf("%s takes at most %s", t.of, wait.Text(wait.Seconds(t.seconds))))
		}
	}
	if e.MaxRolloutTokens > 0 {
		limits = append(limits, fmt.Sprintf("the policy writes at most %s tokens in a rollout", thousands(int64(e.MaxRolloutTokens))))
	}
	return strings.Join(limits, "; ")
}

// TrainSteps returns the number of train steps in mode both: trainer.total_steps, or as many as the
// explore steps feed. A train step that finds less than it asks for takes what there is, so each
// explore step feeds at least one.
func (c *Settled) TrainSteps(exploreSteps int64) int64 {
	if n := c.Trainer.TotalSteps; n != nil {
		return int64(*n)
	}
	return max(exploreSteps, ceil(saturated(exploreSteps, int64(c.Batch.StepRollouts)), int64(c.Batch.Rollouts)))
}

// hasParts reports whether a workflow gives a rollout experiences of several parts.
func (c *planner) hasParts() bool {
	return slices.ContainsFunc(c.run.Data.Tasksets, func(t TasksetEntry) bool {
		w, err := registry.Workflows.Build(t.DefaultWorkflowType, c.run.Cod.ArgsOfWorkflow(t)) // another check reports the error
		return !t.Eval && err == nil && trinity.RequirementsOf(w).Parts
	})
}

// lastBatch returns the size of the last train step if each rollout gives one experience; 0 if it is
// a whole batch or not known.
func (c *planner) lastBatch() int {
	if b := &c.run.Batch; !c.run.Together || b.CountsRollouts ||
		b.Rollouts != c.run.Buffer.TrainBatchSize || c.run.Trainer.TotalSteps != nil ||
		c.TrainSteps == c.ExploreSteps {
		return 0
	}
	return int(saturated(c.ExploreSteps, int64(c.run.Batch.StepRollouts)) % int64(c.run.Buffer.TrainBatchSize))
}

func (c *planner) exploreSteps() (int64, string) {
	if n := c.run.Buffer.TotalSteps; n != nil {
		return int64(*n), "as set by buffer.total_steps"
	}
	rows, known := 0, true
	for _, t := range c.run.Data.Tasksets {
		if n, ok := c.facts.Rows[t.Key]; !t.Eval {
			rows, known = rows+n, known && ok
		}
	}
	if !known {
		return 0, "one pass over the taskset, whose length is not known yet" + times(c.run.Buffer.TotalEpochs)
	}
	return int64(max(1, rows*c.run.Buffer.TotalEpochs/c.run.Buffer.BatchSize)),
		fmt.Sprintf("%d tasks × total_epochs %d / batch_size %d", rows, c.run.Buffer.TotalEpochs, c.run.Buffer.BatchSize)
}

func (c *planner) offlineSteps() (int64, string) {
	if n, key := stepLimit(&c.run.Buffer, &c.run.Trainer); n > 0 {
		return int64(n), "as set by " + key
	}
	epochs := c.run.Buffer.TotalEpochs
	if n := c.run.Buffer.TrainerInput.ExperienceBuffer.TotalEpochs; n != nil {
		epochs = *n
	}
	rows, ok := c.facts.Rows["buffer.trainer_input.experience_buffer"]
	if c.run.Buffer.TrainerInput.ExperienceBuffer.Format.Packing {
		return 0, fmt.Sprintf("one pass over texts packed into sequences of %d tokens, which are counted when the run starts",
			*c.run.Model.MaxModelLen) + times(epochs)
	}
	if !ok {
		return 0, "one pass over the dataset, whose length is not known yet" + times(epochs)
	}
	why := fmt.Sprintf("%d rows × total_epochs %d / train_batch_size %d", rows, epochs, c.run.Buffer.TrainBatchSize)
	if c.run.Buffer.TrainerInput.ExperienceBuffer.Format.EnableConcatenatedMultiTurn {
		why += "; more if the chat template rewrites earlier turns, because each turn is then a sequence"
	}
	return int64(max(1, rows*epochs/c.run.Buffer.TrainBatchSize)), why
}

// saturated multiplies two numbers that are not negative. Instead of an overflow it returns a
// quarter of the largest number.
func saturated(a, b int64) int64 {
	if high, low := bits.Mul64(uint64(a), uint64(b)); high == 0 && low < math.MaxInt64/4 {
		return int64(low)
	}
	return math.MaxInt64 / 4
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", %d times", n)
}

// StepLimit returns the number of train steps of a run without an explorer if the configuration
// sets it, else 0.
func (w Work) StepLimit() int { return w.stepLimit }

// stepLimit returns the number of train steps of a run without an explorer, and the key that sets it.
func stepLimit(buffer *Buffer, trainer *Trainer) (n int, key string) {
	if b := buffer.TotalSteps; b != nil {
		n, key = *b, "buffer.total_steps"
	}
	if t := trainer.TotalSteps; t != nil && (n == 0 || *t < n) {
		n, key = *t, "trainer.total_steps"
	}
	return n, key
}

func ceil[T int | int64](a, b T) T { return (a + b - 1) / max(b, 1) }

// mixture tells, for each of several training tasksets, its share of the tasks and how often a run
// reads each of its rows. Of a queue it tells where the tasks come from.
func (c *planner) mixture() []string {
	if c.run.Mode == "bench" || c.run.Mode == "train" || c.run.ReadsDataset { // it reads no tasks to learn from
		return nil
	}
	var sets []TasksetEntry
	sum, known := 0., true
	weight := func(t TasksetEntry) float64 {
		if t.Weight != nil {
			return *t.Weight
		}
		return float64(c.facts.Rows[t.Key])
	}
	for _, t := range c.run.Data.Tasksets {
		if t.Eval {
			continue
		}
		if t.IsQueue() {
			if !c.run.Explores { // mode serve reads no tasks
				return nil
			}
			return []string{t.queueWords(c.facts.Rows[t.Key])}
		}
		_, counted := c.facts.Rows[t.Key]
		sets, sum, known = append(sets, t), sum+weight(t), known && (counted || t.Weight != nil)
	}
	if len(sets) < 2 {
		return nil
	}
	steps := c.ExploreSteps
	words := make([]string, len(sets))
	for i, t := range sets {
		rows, counted := c.facts.Rows[t.Key]
		switch share := weight(t) / sum; {
		case !known:
			words[i] = t.Name + ": a share that follows from numbers of rows that are not known yet"
		case !counted || steps == 0:
			words[i] = fmt.Sprintf("%s: %.1f %% of them", t.Name, 100*share)
		default:
			passes := share * float64(steps) * float64(c.run.Buffer.BatchSize) / float64(rows)
			words[i] = fmt.Sprintf("%s: %.1f %% of them, %.2f for each of its %d rows", t.Name, 100*share, passes, rows)
		}
	}
	return words
}

// sources adds the models and datasets that the run downloads, and those that are missing.
func (c *planner) sources() {
	var fetch, missing []string
	c.one("too long", "too_long", c.facts.TooLong)
	for _, key := range c.run.Sources() {
		if key == modelPathKey && len(c.earlier) > 0 {
			continue
		}
		if name, ok := c.facts.Fetch[key]; ok {
			fetch = append(fetch, key+": "+name)
		}
		path, ok := c.facts.Missing[key]
		if ok && !slices.ContainsFunc(c.earlier, func(s *Settled) bool { return s.Leaves(path) }) {
			missing = append(missing, safetext.Hidden(key+": "+path))
			c.missing = append(c.missing, c.run.source.errorFor(key, safetext.Hidden(path)+": no such file or directory", ""))
		}
	}
	c.list("fetches", "fetch", fetch)
	for _, m := range missing {
		c.row("missing", "%s, which is no hub name either: the run cannot start before it is there", m)
	}
	c.has("missing", missing)
}

// memory tells the memory that the engines plan, on each device.
func (c *planner) memory() {
	f := c.facts
	if c.MemoryHere = f.Machine.Memory; f.Model.Known {
		c.Memory, c.DoesNotFit = f.Memory, f.DoesNotFit
	}
	hint := ""
	if f.Fetch[modelPathKey] == c.model {
		hint = fmt.Sprintf(", or its config.json alone (hf download %s config.json)", c.model)
	}
	if c.addMemory(); len(c.Memory) == 0 {
		c.row("memory", "not known before the model is there%s", hint)
	}
	for _, words := range wordsOf(f.Choices, MemoryChoice.words) {
		c.row("saves", "%s", words)
	}
	c.has("memory", c.Memory, "memory_sum", c.MemorySum, "memory_machine", c.MemoryHere, "memory_choices", f.Choices,
		"does_not_fit", c.DoesNotFit)
}

// Fits returns an error if the run cannot start on this machine: local models or datasets are
// missing, a stage needs more memory than there is, or its data is too long for the model. The error
// then names what would fit.
func (p *Plan) Fits() error {
	if err := p.missing.orNil(); err != nil {
		return err
	}
	for _, s := range p.Stages {
		switch {
		case s.DoesNotFit != "" && s.name != "":
			return fmt.Errorf("stage %s: %s", s.name, s.DoesNotFit)
		case s.DoesNotFit != "":
			return errors.New(s.DoesNotFit)
		}
	}
	return nil
}

// files lists what the stage writes.
func (c *planner) files() []FilePlan {
	job := c.run.CheckpointJobDir
	files := []FilePlan{{c.run.Log.SaveDir, "logs, failed rollouts among them"}}
	if catalog, ok := registry.Find("monitor"); ok {
		unnamed := slices.DeleteFunc(slices.Clone(catalog.Always), func(m string) bool { return slices.Contains(c.run.Monitor.MonitorType, m) })
		for _, m := range slices.Concat(c.run.Monitor.MonitorType, unnamed) {
			if w, ok := catalog.Default(m).(interface{ Writes() (path, what string) }); ok {
				path, what := w.Writes()
				files = append(files, FilePlan{filepath.Join(c.run.Monitor.CacheDir, path), what})
			}
		}
	}
	if t := &c.run.Monitor.Trace; t.IsKept() {
		files = append(files, FilePlan{filepath.Join(job, rundir.Traces), fmt.Sprintf("traces of steps, at most %g GB", t.MaxGb)})
	}
	if c.run.Trains {
		when := "at the end"
		if n := c.run.Trainer.SaveInterval; n > 0 {
			when = fmt.Sprintf("every %d steps and at the end", n)
		}
		if t := &c.run.Trainer; t.KeepBest != "" {
			when += "; of evaluated versions the best and the newest"
			files = append(files, FilePlan{filepath.Join(job, rundir.BestFile), "the evaluations by " + t.KeepBest + ", and so the best checkpoint"})
		}
		files = append(files, FilePlan{filepath.Join(job, rundir.StepPrefix+"<N>"), "checkpoint with optimizer and counters, " + when})
		model, what := "huggingface", "a model directory for transformers"
		if len(c.run.Model.LoraConfigs) > 0 {
			model, what = "lora_adapter", "a PEFT adapter"
		}
		if keep := c.run.Trainer.SaveHfCheckpoint; keep != "never" {
			which := ", in the " + strings.Replace(keep, "always", "every", 1) + " checkpoint"
			files = append(files, FilePlan{filepath.Join(job, rundir.StepPrefix+"<N>", "actor", model), what + which})
			if c.run.Critic != nil {
				files = append(files, FilePlan{filepath.Join(job, rundir.StepPrefix+"<N>", "critic", "huggingface"),
					"the critic, for model.critic_model_path of another run" + which})
			}
		}
	}
	switch b := c.run.Buffer.TrainerInput.ExperienceBuffer; {
	case c.run.SharedStore && c.run.Mode != "bench":
		files = append(files, FilePlan{b.Path, "experiences on their way to the trainer"})
	case c.run.Trains && !c.run.ReadsDataset:
		files = append(files, FilePlan{filepath.Join(c.run.Buffer.CacheDir, "experience_buffer"), "experiences on their way to the trainer"})
	case c.run.Mode == "explore" && b.StorageType == "file":
		files = append(files, FilePlan{c.run.Buffer.ExperienceFile(), "experiences for the trainer"})
	}
	if p := &c.run.DataProcessor.ExperiencePipeline; c.run.Explores {
		if p.SaveInput {
			files = append(files, FilePlan{c.run.DataProcessor.InputCopy(&c.run.Buffer), "a copy of the experiences as they came in (save_input)"})
		}
		if p.OutputSavePath != "" {
			files = append(files, FilePlan{p.OutputSavePath, "a copy of the experiences that the operators leave"})
		}
	}
	return files
}

// time tells how long a step and the run take.
func (c *planner) time() {
	t, steps := c.facts.Time, c.TrainSteps
	if c.run.Explores {
		steps = c.ExploreSteps
	}
	if n := int64(c.run.Explorer.EvalInterval); t.Evaluation > 0 && n > 0 && steps > 0 {
		times := ceil(steps, n)
		if c.run.Explorer.EvalOnStartup {
			times++
		}
		c.EvalTime = float64(times) * t.Evaluation
	}
	c.TimeWhy = c.facts.TimeWhy
	c.Seconds = float64(c.ExploreSteps)*t.Explore + float64(c.TrainSteps)*t.Train + c.EvalTime
	switch {
	case !c.run.Trains && !c.run.Explores: // it makes no steps
	case c.TimeWhy != "":
		c.row("time", "not known: %s", c.TimeWhy)
	case len(t.Parts) == 0:
		c.row("time", "not known before the model and the data are here")
	default:
		step, parts := 0., wordsOf(t.Parts, func(p TimePart) string { return p.Name + " " + wait.Text(wait.Seconds(p.Seconds)) })
		for _, p := range t.Parts {
			step += p.Seconds
		}
		c.detail("a step", "about %s: %s", wait.Text(wait.Seconds(step)), strings.Join(parts, ", "))
		c.rows[len(c.rows)-1].isDetail = c.Seconds > 0
		c.detail("assumes", "%s; measured runs took 0.7 to 1.6 times as long", t.Lengths)
		c.addTime()
	}
	c.has("seconds", c.Seconds, "seconds_why", c.TimeWhy, "seconds_step", t.Parts, "seconds_eval", c.EvalTime, "seconds_assume", t.Lengths)
}

// disk tells the bytes of the checkpoints that stay: in f32, the trained weights with two moments,
// and the model that transformers loads.
func (c *planner) disk() {
	trained, here := c.facts.Model.Trained, c.facts.Machine.Disk
	if !c.run.Trains || !c.facts.Model.Known {
		return
	}
	checkpoints := int64(1)
	if n := int64(c.run.Trainer.SaveInterval); n > 0 && c.TrainSteps > 0 {
		checkpoints = ceil(c.TrainSteps, n)
	}
	if keep := int64(c.run.Trainer.MaxCheckpointsToKeep); keep > 0 {
		checkpoints = min(checkpoints, keep)
	}
	models := map[string]int64{"always": checkpoints, "last": 1}[c.run.Trainer.SaveHfCheckpoint]
	bytes := saturated(models, 4*trained)
	if !c.run.Model.Tinker.Enable { // a service keeps the states itself
		bytes += saturated(checkpoints, 12*trained)
	}
	if bytes > 0 {
		c.row("disk", "about %s of checkpoints%s", Size(bytes), against(bytes, here, "free"))
	}
	c.has("disk", bytes, "disk_free", here)
}
