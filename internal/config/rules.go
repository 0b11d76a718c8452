package config

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
)

// checkRules checks the rules between keys.
func (s *Settled) checkRules() Errors {
	r := &rules{Settled: s}
	r.place()
	r.model()
	r.data()
	r.strategy()
	r.teachers()
	r.asked()
	r.evaluation()
	r.rewardModel()
	r.format()
	r.selectors()
	r.copies()
	r.inputs()
	r.recording()
	r.tasksets()
	r.packing()
	r.taskPipeline()
	r.store()
	r.engines()
	r.service()
	r.tables()
	r.optimizer(optimizerKey, &r.Algorithm.Optimizer)
	r.miniBatch()
	r.correction()
	r.traffic()
	r.scoring()
	r.critic()
	return r.errs
}

type rules struct {
	*Settled
	errs Errors
}

func (r *rules) fail(key, message, hint string) {
	r.errs = append(r.errs, r.errorFor(key, message, hint))
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

// place keeps the run inside checkpoint_root_dir.
func (r *rules) place() {
	for _, p := range []struct{ key, value string }{{"project", r.Project}, {"group", r.Group}, {"name", r.Name}} {
		if p.value != "" && !filepath.IsLocal(p.value) {
			r.fail(p.key, fmt.Sprintf("%q would put the run outside checkpoint_root_dir", p.value), "use a plain name")
		}
		if wrong := wrongName(p.value); wrong != "" && !r.IsStage() {
			r.fail(p.key, wrong, "use a plain name")
		}
	}
	if name := r.Explorer.Name; len(name) <= maxName && !IsPlain(name) {
		r.fail("explorer.name", fmt.Sprintf("%q is not a plain name", name), "it is part of file names: use letters, digits, - and _")
	}
	if wrong := wrongName(r.Explorer.Name); wrong != "" {
		r.fail("explorer.name", wrong, "use a shorter name")
	}
	if b := r.Buffer.TrainerInput.ExperienceBuffer; b != nil && wrongName(b.Name) != "" {
		r.fail("buffer.trainer_input.experience_buffer.name", wrongName(b.Name), "it is part of file names")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Explorer.EnvVars)) {
		if err := process.CheckVariable(name, r.Explorer.EnvVars[name]); err != nil {
			r.fail("explorer.env_vars", err.Error(), "rename it")
		}
	}
	if k, n := r.Explorer.Part(); r.Explorer.Share != fmt.Sprintf("%d/%d", k, n) {
		r.fail("explorer.share", fmt.Sprintf("%q is not a share", r.Explorer.Share), "write k/n, such as 2/3 for the second of three explorers")
	}
	if !isAddress(r.Trainer.ListenAddress) {
		r.fail("trainer.listen_address", fmt.Sprintf("%q is not an address: want host:port", r.Trainer.ListenAddress),
			"such as 0.0.0.0:7000; port 0 is any free one")
	}
	if strings.TrimSpace(r.Name) == "" {
		r.fail("name", "is empty", "it names the directory of the run")
	}
}

func (r *rules) model() {
	if r.Model.ModelPath == "" && !r.Model.ExternalModel.Enable {
		r.fail("model.model_path", "no model is given", "set it to a model directory, a GGUF file or a hub name")
	}
	r.adapters()
}

// data checks that the file gives the data that the mode needs.
func (r *rules) data() {
	const batch, path = "buffer.train_batch_size", "buffer.trainer_input.experience_buffer.path"
	switch {
	case r.Offline && r.Mode != "train":
		r.fail("algorithm.algorithm_type", fmt.Sprintf("%s trains on a dataset and does not roll out", r.Algorithm.AlgorithmType),
			"set mode: train")
	case r.Mode == "train" && r.Buffer.TrainBatchSize == 0:
		r.fail(batch, "mode train needs the number of experiences per train step", "set it to 1 or more")
	}
	if r.ReadsDataset && r.Buffer.TrainerInput.ExperienceBuffer.Path == "" {
		r.fail(path, fmt.Sprintf("%s needs a dataset", r.Algorithm.AlgorithmType), "set the path of a file, a directory or a hub dataset")
	}
	in := r.Buffer.ExplorerInput
	switch {
	case !r.Explores:
	case in.Taskset != nil && len(in.Tasksets) > 0:
		r.fail("buffer.explorer_input.tasksets", "taskset is set as well", "use one of the two")
	case in.Taskset == nil && len(in.Tasksets) == 0:
		r.fail("buffer.explorer_input", "mode "+r.Mode+" needs tasks", "set taskset")
	}
	if r.Mode == "bench" && len(in.EvalTasksets) == 0 {
		r.fail("buffer.explorer_input", "mode bench needs tasks to evaluate", "set eval_tasksets")
	}
}

// tasksets checks every taskset that is going to run.
func (r *rules) tasksets() {
	names := map[string]string{}
	for _, t := range r.Data.Tasksets {
		if !t.Eval && !r.Explores {
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
		if r.lacksReward(t) {
			r.fail(t.Key, fmt.Sprintf("the workflow %s needs a reward function", t.DefaultWorkflowType),
				"set default_reward_fn_type here or in buffer.explorer_input")
		}
		if n := *t.RolloutArgs.MaxTokens; n > *r.Model.MaxModelLen {
			r.fail(t.Key+".rollout_args.max_tokens", fmt.Sprintf("is %d, more than model.max_model_len %d", n, *r.Model.MaxModelLen), "")
		}
		r.tasksetAdapter(t)
		if t.IsQueue() {
			t.checkQueue(r)
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
func (r *rules) lacksReward(t TasksetEntry) bool {
	w, err := registry.Workflows.Build(t.DefaultWorkflowType, t.WorkflowArgs)
	needs := trinity.RequirementsOf(w)
	return err == nil && needs.Reward && t.DefaultRewardFnType == "" && needs.DefaultReward == ""
}

// miniBatch checks the keys of veRL's actor and model sections that this version reads.
func (r *rules) miniBatch() {
	if v := r.gradientCheckpointing(); v != nil {
		if _, ok := v.(bool); !ok {
			r.fail(gradientCheckpointingKey, fmt.Sprintf("is %v, must be true or false", v), "")
		}
	}
	for _, key := range []string{"ppo_mini_batch_size", "ppo_epochs"} {
		v := r.actor(key)
		if n, ok := v.(int); v != nil && (!ok || n < 1 || n > maxCount) {
			r.fail(actorKey+"."+key, fmt.Sprintf("is %v, must be a whole number of at least 1 and at most %d", v, maxCount), "")
		}
	}
	if n, batch := r.Batch.Mini, r.Batch.Train; batch > 0 && n > batch {
		r.fail(actorKey+".ppo_mini_batch_size", fmt.Sprintf("is %d, more than the %d experiences of a train step", n, batch),
			"it counts experiences per optimizer step; lower it or raise buffer.train_batch_size")
	}
}

// correction checks that the keys of rollout_correction fit together.
func (r *rules) correction() {
	const key = "algorithm.rollout_correction"
	c, bypass := &r.Algorithm.RolloutCorrection, r.Algorithm.RolloutCorrection.BypassMode
	if bypass != nil && r.IsSet("algorithm.bypass_old_logprobs") && *bypass != r.Algorithm.BypassOldLogprobs {
		r.fail(key+".bypass_mode", "contradicts algorithm.bypass_old_logprobs", "set one of the two")
	}
	if r.Method.Recomputes && r.Offline {
		set := key + ".bypass_mode"
		if bypass == nil {
			set = "algorithm.bypass_old_logprobs"
		}
		r.fail(set, fmt.Sprintf("%s trains on a dataset, which no policy sampled", r.Algorithm.AlgorithmType), "remove it")
	}
	for _, part := range []struct{ name, value string }{{"rollout_is", c.RolloutIs}, {"rollout_rs", c.RolloutRs}} {
		if part.value != "" && !r.Method.Recomputes {
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
