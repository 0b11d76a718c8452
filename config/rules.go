package config

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// checkRules checks the rules between keys.
func (s *Settled) checkRules(r report) {
	data, method, w := &s.Data, &s.Method, s.Work
	s.checkPlace(r)
	s.Model.check(r)
	checkData(r, &s.Algorithm, &s.Buffer, w)
	checkStrategy(r, &s.Algorithm, &s.Batch, &s.Buffer, method, w)
	checkTeachers(r, &s.Algorithm, data, method, s.Teachers, w)
	checkAsked(r, s.Asked)
	checkEvaluation(r, &s.Algorithm, &s.Buffer, data, method, w)
	s.Model.checkRewardModel(r, &s.Algorithm, method, w)
	checkFormat(r, &s.Algorithm, &s.Buffer, data, method)
	checkSelectors(r, &s.Buffer, data)
	s.DataProcessor.checkCopies(r, &s.Buffer, w)
	checkInputs(r, &s.Buffer, data, &s.DataProcessor)
	checkRecording(r, &s.Buffer, w)
	checkTasksets(r, &s.Buffer, data, &s.Model, s.TaskPipeline, w)
	s.Cod.checkPacking(r, &s.Buffer, data, w)
	s.TaskPipeline.check(r)
	checkStore(r, &s.Buffer, w)
	checkEngines(r, &s.Engines, &s.Explorer, &s.Model, &s.Synchronizer, w)
	s.Service.check(r, &s.DataProcessor, w)
	checkTables(r, &s.Buffer, data, w)
	s.Algorithm.Optimizer.check(r, w, optimizerKey)
	checkMiniBatch(r, &s.Batch, &s.Trainer)
	s.Algorithm.RolloutCorrection.check(r, &s.Algorithm, method, w)
	checkTraffic(r, &s.Algorithm, method, &s.Synchronizer, w)
	s.Algorithm.checkScoring(r, method, w)
	s.Critic.check(r, &s.Algorithm, &s.Batch, &s.Trainer, w)
}

var plainName = regexp.MustCompile(`^[\p{L}\p{N}_-]+$`)

// IsPlain reports whether a name can be part of file names, ids of tasks, lists and lines for
// people: it has only letters, digits, - and _.
func IsPlain(name string) bool { return plainName.MatchString(name) }

// maxName bounds a name, in bytes: file systems take 255 for a file, whose name has more parts.
const maxName = 128

// wrongName returns what is wrong with a name that stands in paths and lines for people; "" if
// nothing is.
func wrongName(name string) string {
	if len(name) > maxName {
		return fmt.Sprintf("has %d bytes: want at most %d", len(name), maxName)
	}
	if strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return fmt.Sprintf("%q has characters that cannot be printed", name)
	}
	return ""
}

// isAddress reports whether a text is host:port.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// checkPlace keeps the run inside checkpoint_root_dir.
func (c *Config) checkPlace(r report) {
	for _, p := range []struct{ key, value string }{{"project", c.Project}, {"group", c.Group}, {"name", c.Name}} {
		if p.value != "" && !filepath.IsLocal(p.value) {
			r.fail(p.key, fmt.Sprintf("%q would put the run outside checkpoint_root_dir", p.value), "use a plain name")
		}
		if wrong := wrongName(p.value); wrong != "" && !c.IsStage() {
			r.fail(p.key, wrong, "use a plain name")
		}
	}
	c.Explorer.checkPlace(r)
	if !isAddress(c.Trainer.ListenAddress) {
		r.fail("trainer.listen_address", fmt.Sprintf("%q is not an address: want host:port", c.Trainer.ListenAddress),
			"such as 0.0.0.0:7000; port 0 is any free one")
	}
	if strings.TrimSpace(c.Name) == "" {
		r.fail("name", "is empty", "it names the directory of the run")
	}
	if b := c.Buffer.TrainerInput.ExperienceBuffer; b != nil && wrongName(b.Name) != "" {
		r.fail(storeKey+".name", wrongName(b.Name), "it is part of file names")
	}
}

func (model *Model) check(r report) {
	if model.ModelPath == "" && !model.ExternalModel.Enable {
		r.fail("model.model_path", "no model is given", "set it to a model directory, a GGUF file or a hub name")
	}
	model.checkAdapters(r)
}

// checkData checks that the file gives the data that the mode needs.
func checkData(r report, algorithm *Algorithm, buffer *Buffer, w Work) {
	const batch, path = "buffer.train_batch_size", "buffer.trainer_input.experience_buffer.path"
	switch {
	case w.Offline && w.mode != "train":
		r.fail("algorithm.algorithm_type", fmt.Sprintf("%s trains on a dataset and does not roll out", algorithm.AlgorithmType),
			"set mode: train")
	case w.mode == "train" && buffer.TrainBatchSize == 0:
		r.fail(batch, "mode train needs the number of experiences per train step", "set it to 1 or more")
	}
	if w.ReadsDataset && buffer.TrainerInput.ExperienceBuffer.Path == "" {
		r.fail(path, fmt.Sprintf("%s needs a dataset", algorithm.AlgorithmType), "set the path of a file, a directory or a hub dataset")
	}
	in := buffer.ExplorerInput
	switch {
	case !w.Explores:
	case in.Taskset != nil && len(in.Tasksets) > 0:
		r.fail("buffer.explorer_input.tasksets", "taskset is set as well", "use one of the two")
	case in.Taskset == nil && len(in.Tasksets) == 0:
		r.fail("buffer.explorer_input", "mode "+w.mode+" needs tasks", "set taskset")
	}
	if w.mode == "bench" && len(in.EvalTasksets) == 0 {
		r.fail("buffer.explorer_input", "mode bench needs tasks to evaluate", "set eval_tasksets")
	}
}

// checkTasksets checks every taskset that is going to run.
func checkTasksets(r report, buffer *Buffer, data *Data, model *Model, pipeline *TaskPipeline, w Work) {
	names := map[string]string{}
	for _, t := range data.Tasksets {
		if !t.Eval && !w.Explores {
			continue
		}
		if t.Path == "" {
			r.fail(t.Key+".path", "the taskset has no path", "set the path of a file, a directory or a hub dataset")
		}
		if wrong := wrongName(t.Name); wrong != "" {
			r.fail(t.Key+".name", wrong, "it is part of metrics")
		}
		if t.DefaultWorkflowType == "" {
			r.fail(t.Key, "the taskset has no workflow", "set default_workflow_type here or in buffer.explorer_input")
		}
		if lacksReward(t) {
			r.fail(t.Key, fmt.Sprintf("the workflow %s needs a reward function", t.DefaultWorkflowType),
				"set default_reward_fn_type here or in buffer.explorer_input")
		}
		if n := *t.RolloutArgs.MaxTokens; n > *model.MaxModelLen {
			r.fail(t.Key+".rollout_args.max_tokens", fmt.Sprintf("is %d, more than model.max_model_len %d", n, *model.MaxModelLen), "")
		}
		model.checkTasksetAdapter(r, w, t)
		if t.IsQueue() {
			t.checkQueue(r, data, buffer, pipeline)
		}
		kind := fmt.Sprint(t.Eval, t.Name)
		if other, twice := names[kind]; twice {
			r.fail(t.Key+".name", fmt.Sprintf("%q is also the name of %s", t.Name, other), "metrics need different names")
		}
		names[kind] = t.Key
	}
}

// lacksReward reports whether a taskset's workflow needs a reward function, has no default, and the
// file names none.
func lacksReward(t TasksetEntry) bool {
	w, err := registry.Workflows.Build(t.DefaultWorkflowType, t.WorkflowArgs)
	needs := trinity.RequirementsOf(w)
	return err == nil && needs.Reward && t.DefaultRewardFnType == "" && needs.DefaultReward == ""
}

// checkMiniBatch checks the keys of veRL's actor and model sections that this version reads.
func checkMiniBatch(r report, batch *Batch, trainer *Trainer) {
	if v := trainer.gradientCheckpointing(); v != nil {
		if _, ok := v.(bool); !ok {
			r.fail(gradientCheckpointingKey, fmt.Sprintf("is %v, must be true or false", v), "")
		}
	}
	for _, key := range []string{"ppo_mini_batch_size", "ppo_epochs"} {
		v := trainer.actor(key)
		if n, ok := v.(int); v != nil && (!ok || n < 1 || n > maxCount) {
			r.fail(actorKey+"."+key, fmt.Sprintf("is %v, must be a whole number of at least 1 and at most %d", v, maxCount), "")
		}
	}
	if n, batch := batch.Mini, batch.Train; batch > 0 && n > batch {
		r.fail(actorKey+".ppo_mini_batch_size", fmt.Sprintf("is %d, more than the %d experiences of a train step", n, batch),
			"it counts experiences per optimizer step; lower it or raise buffer.train_batch_size")
	}
}

// check checks that the keys of rollout_correction fit together.
func (c *RolloutCorrection) check(r report, algorithm *Algorithm, method *Method, w Work) {
	const key = "algorithm.rollout_correction"
	bypass := c.BypassMode
	if bypass != nil && r.IsSet("algorithm.bypass_old_logprobs") && *bypass != algorithm.BypassOldLogprobs {
		r.fail(key+".bypass_mode", "contradicts algorithm.bypass_old_logprobs", "set one of the two")
	}
	if method.Recomputes && w.Offline {
		set := key + ".bypass_mode"
		if bypass == nil {
			set = "algorithm.bypass_old_logprobs"
		}
		r.fail(set, fmt.Sprintf("%s trains on a dataset, which no policy sampled", algorithm.AlgorithmType), "remove it")
	}
	for _, part := range []struct{ name, value string }{{"rollout_is", c.RolloutIs}, {"rollout_rs", c.RolloutRs}} {
		if part.value != "" && !method.Recomputes {
			r.fail(key+"."+part.name, "compares the rollout's logprobs with the trainer's, which bypass mode does not compute",
				"set bypass_mode: false beside it")
		}
	}
	switch {
	case c.RolloutIsBatchNormalize && c.RolloutIs == "":
		r.fail(key+".rollout_is_batch_normalize", "no weights exist to normalise", "set rollout_is")
	case c.RolloutRs == "" && c.RolloutRsThreshold != nil:
		r.fail(key+".rollout_rs_threshold", "nothing is rejected", "set rollout_rs")
	case c.RolloutRs != "" && c.RolloutRsThreshold == nil:
		r.fail(key+".rollout_rs", "needs the upper end of the band", "set rollout_rs_threshold, for example 2.0, or 1.01 with geometric")
	case c.RolloutRsThreshold == nil && c.RolloutRsThresholdLower != nil:
		r.fail(key+".rollout_rs_threshold_lower", "nothing is rejected", "set rollout_rs and rollout_rs_threshold")
	}
}
