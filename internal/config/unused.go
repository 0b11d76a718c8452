package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Note is a key that is set but has no meaning for the run.
type Note struct {
	Key    string `json:"key"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Value  string `json:"value"` // in the file; stars for a secret
	Reason string `json:"reason"`
}

// String returns the key with its value, its place and the reason.
func (n Note) String() string {
	return fmt.Sprintf("%s = %s (%s): %s", n.Key, n.Value, Position{n.File, n.Line, 0}.line(), n.Reason)
}

const (
	dataset      = "this buffer is a dataset, which the run reads from files"
	runners      = "a setting of upstream's runner processes: rollouts are goroutines here"
	whileServing = "an engine that does not answer is left out until it does, and takes new weights while it serves"
	wholeStep    = "losses are normalised over the optimizer step, however it is cut"
)

const lossArgsKey = "algorithm.policy_loss_fn_args"

// unused lists keys that have no meaning for this program, whatever the engine. Each entry includes
// all keys below it. Load accepts them, because a run without them would be the same, and the plan
// lists them.
var unused = []struct{ key, reason string }{
	{"ray_namespace", "each run has a namespace of its own where it uses Ray"},
	{"monitor.enable_ray_timeline", "Ray only starts programs, and its timeline would have no steps"},
	{"monitor.shared_run", "explorer and trainer always share one run"},
	{"log.level", "the run always logs failed rollouts and metrics, and nothing else"},
	{"log.group_by_node", "each program writes a file of its own for each of its machines"},
	{lossArgsKey + ".use_dynamic_bsz", wholeStep},
	{lossArgsKey + ".ppo_mini_batch_size", wholeStep},
	{lossArgsKey + ".ppo_micro_batch_size_per_gpu", wholeStep},
	{lossArgsKey + ".ngpus_trainer", wholeStep},
	{lossArgsKey + ".train_batch_size_usual", wholeStep},
	{lossArgsKey + ".train_batch_size_expert", wholeStep},
	{"model.tinker", "the Tinker API is not used"},
	{"model.external_model", "no external model is used"},
	{"explorer.rollout_model.external_model_config", "no external model is used"},
	{"explorer.rollout_model.nnodes", "an engine has one machine"},
	{"explorer.concurrent_mode", runners},
	{"explorer.runner_prepare_concurrency", runners},
	{"explorer.runner_prepare_max_retries", runners},
	{"explorer.max_repeat_times_per_runner", runners},
	{"explorer.runner_state_report_interval", runners},
	{"explorer.dynamic_timeout", "it is off"},
	{"explorer.over_rollout", "it is off"},
	{"explorer.service_status_check_interval", whileServing},
	{"explorer.min_running_model_num", whileServing},
	{"explorer.rollout_model.enable_history",
		"what a rollout samples is always recorded, id by id, also what a program asks for at its endpoint"},
	{"explorer.rollout_model.enable_openai_api",
		"a workflow whose rollouts a program makes opens the API for it; mode serve opens it for everybody"},
	{"explorer.rollout_model.seed", "sampling draws from the run's seed"},
	{"buffer.trainer_input.experience_buffer.format.workflow_key", "no workflow runs the rows of a dataset"},
	{"buffer.trainer_input.experience_buffer.format.reward_fn_key", "no reward function scores the rows of a dataset"},
	{"trainer.name", "metrics and logs say trainer"},
	{"buffer.explorer_input.eval_tasksets.*.data_selector", "an evaluation runs every row once, in order"},
	{"buffer.explorer_input.eval_tasksets.*.teacher", "a run does not learn from an evaluation"},
	{"buffer.explorer_input.eval_tasksets.*.weight", "an evaluation runs every row once"},
	{"buffer.explorer_input.taskset.weight", "it is the only taskset"},
	{auxiliaryKey + ".*.name", "the sample strategy calls it by its key"},
	{auxiliaryKey + ".*.capacity", dataset},
	{auxiliaryKey + ".*.capacity_mb", dataset},
	{auxiliaryKey + ".*.max_read_timeout", dataset},
	{auxiliaryKey + ".*.replay_buffer", dataset},
	{evalBuffersKey + ".*.name", "metrics call it by its key"},
	{evalBuffersKey + ".*.capacity", dataset},
	{evalBuffersKey + ".*.capacity_mb", dataset},
	{evalBuffersKey + ".*.max_read_timeout", dataset},
	{evalBuffersKey + ".*.replay_buffer", dataset},
	{inputsKey + ".*.name", "the pipeline calls it by its key"},
	{inputsKey + ".*.capacity", dataset},
	{inputsKey + ".*.capacity_mb", dataset},
	{inputsKey + ".*.max_read_timeout", dataset},
	{inputsKey + ".*.replay_buffer", dataset},
	{"synchronizer.group_name", "weights reach the sampler without a group of GPUs"},
	{"synchronizer.wait_for_checkpoint", "upstream does not use it either"},
	{"trainer.enable_preview", "samples are in the logs, not in the monitor"},
}

// absentTerms are the keys whose value none switches a term of the loss or the reward off.
var absentTerms = []string{"algorithm.kl_loss_fn", "algorithm.kl_penalty_fn", "algorithm.entropy_loss_fn"}

// unusedReason returns why a key has no meaning for the run, "" if it has one.
func (s *Settled) unusedReason(key string) string {
	for _, u := range unused {
		if below(key, u.key) {
			return u.reason
		}
	}
	if slices.ContainsFunc(s.replaced, func(dropped string) bool { return below(key, dropped) }) {
		return "--engine replaces the engines that it is for"
	}
	if n := nodeOf(s.source.root, key); lastKey(key) == "logprobs" && n != nil && n.Value != "0" {
		return "nothing reads the log-probabilities of other tokens than the sampled ones, which are always recorded"
	}
	if fn, _, isArg := strings.Cut(key, "_args."); isArg && slices.Contains(absentTerms, fn) && s.at(fn) == "none" {
		return lastKey(fn) + " is none"
	}
	if (key == "model.critic_model_path" || below(key, criticKey)) && s.Critic == nil {
		return "no critic is trained"
	}
	if !s.Trains && (below(key, auxiliaryKey) || below(key, evalBuffersKey)) {
		return "only the trainer reads it"
	}
	if !s.Explores && below(key, inputsKey) {
		return "only the explorer reads it"
	}
	if reason := s.unusedOfStore(key); reason != "" {
		return reason
	}
	if reason := cmp.Or(s.unusedOfRows(key), s.unusedOfQueue(key)); reason != "" {
		return reason
	}
	if key == "explorer.rollout_model.tool_call_parser" && !s.Explorer.RolloutModel.EnableAutoToolChoice {
		return "enable_auto_tool_choice is false, so replies are text"
	}
	if s.Mode != "serve" && slices.Contains(ofServe, key) {
		return "only mode serve reads it"
	}
	if key == "explorer.max_inflight_batches" && s.Explores && s.Batch.StepsInFlight == 1 && s.Explorer.MaxInflightBatches > 1 {
		return "only sync_style fully_async explores several steps at once, for a trainer"
	}
	if key == "explorer.eval_parallel" && (!s.Explores || len(s.Buffer.ExplorerInput.EvalTasksets) == 0) {
		return "no taskset is evaluated beside the steps of an explorer"
	}
	if key == "trainer.listen_address" && (s.Mode != "train" || s.Offline) {
		return "no explorer of another process joins"
	}
	if !s.replay().Enable && below(key, replayKey) {
		return "replay is off"
	}
	if !s.Trains && below(key, replayKey) {
		return "only the trainer reads it"
	}
	if s.ReadsDataset && below(key, "synchronizer") {
		return "nobody samples while " + s.Algorithm.AlgorithmType + " trains on a dataset"
	}
	if d := &s.Service.DataJuicer; key == "service.data_juicer.server_url" && d.AutoStart || key == "service.data_juicer.port" &&
		!d.AutoStart {
		return "with auto_start the run starts a service at port; without it, it uses the service at server_url"
	}
	if below(key, taskPipelineKey) && s.TaskPipeline == nil {
		return "this mode does not read its output"
	}
	if below(key, taskPipelineKey+".output") && key != taskPipelineKey+".output.path" {
		return "the task pipeline writes rows as it read them, with their scores: only path is used"
	}
	if reason := s.unusedByTeachers(key); reason != "" {
		return reason
	}
	return s.unusedByEngines(key)
}

// ofServe are the keys that only mode serve reads.
var ofServe = []string{"explorer.proxy_port", "explorer.listen_address", "explorer.db_url", "explorer.pending_expiry",
	"explorer.rollout_model.api_key"}

// below reports whether a key equals the pattern or is under it; * matches any segment.
func below(key, pattern string) bool {
	k, p := strings.Split(key, "."), strings.Split(pattern, ".")
	if len(k) < len(p) {
		return false
	}
	for i := range p {
		if p[i] != "*" && p[i] != k[i] {
			return false
		}
	}
	return true
}

// Unused lists the keys that the file sets and that have no meaning for the run, in file order.
func (s *Settled) Unused() []Note {
	var notes []Note
	for _, key := range s.leaves("") {
		if reason := s.unusedReason(key); reason != "" {
			p := s.Pos(key)
			value := ""
			if n := nodeOf(s.source.root, key); n != nil {
				value = fmt.Sprint(Mask(key, n.Value))
			}
			notes = append(notes, Note{Key: key, File: p.File, Line: p.Line, Value: value, Reason: reason})
		}
	}
	return notes
}

// leaves lists the keys with values (not sections) that the file writes at or below root, in file
// order.
func (c *Config) leaves(root string) []string {
	inner := map[string]bool{}
	for key := range c.source.positions {
		inner[parent(key)] = true
	}
	var keys []string
	for key := range c.source.positions {
		if !inner[key] && (root == "" || below(key, root)) && !strings.HasPrefix(key, "stages.") {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		p, q := c.Pos(a), c.Pos(b)
		return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Col, q.Col), cmp.Compare(a, b))
	})
	return keys
}

// isEmpty reports whether the value of a key is null or a mapping without keys.
func (c *Config) isEmpty(key string) bool {
	n := nodeOf(c.source.root, key)
	return n != nil && (isNull(n) || n.Kind == yaml.MappingNode && len(n.Content) == 0)
}
