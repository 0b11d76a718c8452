package config

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

// steps counts steps and tokens.
func (c *planner) steps(s *StagePlan) {
	length := int64(*c.run.Model.MaxModelLen)
	if c.run.Explores {
		s.Limits = c.limits()
		s.GroupSize, s.TasksPerStep = c.run.Method.GroupSize, c.run.Buffer.BatchSize
	}
	if c.run.Trains {
		s.ExperiencesPerStep = c.run.Batch.Train * c.run.Batch.PerRow
		s.OptimizerSteps = c.run.Batch.Epochs * ceil(c.run.Batch.Train, c.run.Batch.Mini)
		s.TokensPerStep = int64(s.ExperiencesPerStep) * length
		s.MicroBatchTokens = c.run.Batch.MicroTokens
	}
	switch {
	case c.run.Mode == "bench":
		s.StepsWhy = "evaluates checkpoints, without steps"
	case c.run.ReadsDataset:
		s.TrainSteps, s.StepsWhy = c.offlineSteps()
	case c.run.Mode == "train":
		s.StepsWhy = "as many as the explorer's experiences give"
		if n, key := stepLimit(&c.run.Buffer, &c.run.Trainer); n > 0 {
			s.TrainSteps, s.StepsWhy = int64(n), "as set by "+key
		}
	default:
		s.ExploreSteps, s.StepsWhy = c.exploreSteps()
		s.Tasksets = c.mixture()
		if c.run.Together {
			s.TrainSteps = c.run.TrainSteps(s.ExploreSteps)
			s.LastExperiences = c.lastBatch(s)
			if c.run.Trainer.TotalSteps != nil {
				s.StepsWhy += "; train steps as set by trainer.total_steps"
			}
		}
	}
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

// lastBatch returns the size of the last train step if each rollout gives one experience; 0 if it is
// a whole batch or not known.
func (c *planner) lastBatch(s *StagePlan) int {
	if b := &c.run.Batch; b.CountsRollouts || b.Rollouts != c.run.Buffer.TrainBatchSize || c.run.Trainer.TotalSteps != nil ||
		s.TrainSteps == s.ExploreSteps {
		return 0
	}
	return int(saturated(s.ExploreSteps, int64(c.run.Batch.StepRollouts)) % int64(c.run.Buffer.TrainBatchSize))
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
	steps, _ := c.exploreSteps()
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

// memory fills in the memory that the engines plan.
func (c *planner) memory(s *StagePlan) {
	f := c.facts
	s.Trainable, s.Memory, s.DoesNotFit = f.Model.Trained, f.Memory, f.DoesNotFit
	s.TooLong = f.TooLong
	for _, m := range s.Memory {
		if m.Device == "" {
			s.MemorySum += m.Bytes
		}
	}
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
		case s.DoesNotFit != "" && s.Name != "":
			return fmt.Errorf("stage %s: %s", s.Name, s.DoesNotFit)
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
	if t := &c.run.Monitor.Trace; t.Spans || t.Tokens != "off" {
		files = append(files, FilePlan{filepath.Join(job, rundir.Traces), fmt.Sprintf("traces of steps, at most %g GB", t.MaxGb)})
	}
	if c.run.Trains {
		when := "at the end"
		if n := c.run.Trainer.SaveInterval; n > 0 {
			when = fmt.Sprintf("every %d steps and at the end", n)
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

// time fills in how long a step and the run take.
func (c *planner) time(s *StagePlan) {
	t := c.facts.Time
	if s.TimeWhy = c.facts.TimeWhy; t == nil {
		return
	}
	s.StepTime, s.TimeIsFor, s.Faster = t.Parts, t.Lengths, t.Faster
	steps := s.TrainSteps
	if c.run.Explores {
		steps = s.ExploreSteps
	}
	if n := int64(c.run.Explorer.EvalInterval); t.Evaluation > 0 && n > 0 && steps > 0 {
		times := ceil(steps, n)
		if c.run.Explorer.EvalOnStartup {
			times++
		}
		s.EvalTime = float64(times) * t.Evaluation
	}
	s.Seconds = float64(s.ExploreSteps)*t.Explore + float64(s.TrainSteps)*t.Train + s.EvalTime
}

// disk fills in the bytes of the checkpoints that stay: in f32, the trained weights with two moments,
// and the model that transformers loads.
func (c *planner) disk(s *StagePlan) {
	if !c.run.Trains {
		return
	}
	checkpoints := int64(1)
	if n := int64(c.run.Trainer.SaveInterval); n > 0 && s.TrainSteps > 0 {
		checkpoints = ceil(s.TrainSteps, n)
	}
	if keep := int64(c.run.Trainer.MaxCheckpointsToKeep); keep > 0 {
		checkpoints = min(checkpoints, keep)
	}
	models := int64(0)
	switch c.run.Trainer.SaveHfCheckpoint {
	case "always":
		models = checkpoints
	case "last":
		models = 1
	}
	s.Disk = saturated(checkpoints, 12*s.Trainable) + saturated(models, 4*s.Trainable)
	s.DiskHere = c.facts.Machine.Disk
}
