package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/process"
)

// Explorer is the side that makes rollouts.
type Explorer struct {
	// Name of this explorer. If several explorers serve one trainer, each needs its own. Any name but
	// the default becomes part of the ids of tasks, so that each explorer draws other random numbers.
	Name string `yaml:"name" default:"explorer"`
	// Part of the training rows that this explorer takes, if several explorers serve one trainer:
	// `2/3` is the second of three parts, which is every third row from the second on; `1/1` is all
	// rows. Own key of Trinity-Go.
	Share string `yaml:"share" default:"1/1"`
	// Tasks in flight per engine.
	RunnerPerModel int `yaml:"runner_per_model" default:"8" range:"[1,)"`
	// Runners that start at the same time (upstream's process runners).
	RunnerPrepareConcurrency int `yaml:"runner_prepare_concurrency" default:"8" range:"[1,)"`
	// Attempts to start a runner (upstream's process runners).
	RunnerPrepareMaxRetries int `yaml:"runner_prepare_max_retries" default:"2" range:"[0,)"`
	// Seconds that one attempt of a task may take.
	MaxTimeout float64 `yaml:"max_timeout" default:"1800" range:"(0,)"`
	// Seconds that one call of a model may take, once it has its slot; 0 is no limit but max_timeout. A
	// call that takes longer fails its rollout. Own key of Trinity-Go.
	TurnTimeout float64 `yaml:"turn_timeout" default:"0" range:"[0,)"`
	// Seconds that a reward function may take for a reply, or for a group if it scores groups; 0 is no
	// limit but max_timeout. A reply that takes longer has no valid reward. Own key of Trinity-Go.
	RewardTimeout float64 `yaml:"reward_timeout" default:"0" range:"[0,)"`
	// Tokens that the policy may write in a rollout, in all of its turns; 0 is no limit. The last reply
	// is cut there and the rollout is truncated; a program's further calls are refused. Calls at once
	// may each take what is left. Own key of Trinity-Go.
	MaxRolloutTokens int `yaml:"max_rollout_tokens" default:"0" range:"[0,)"`
	// Rollouts under way at once; while their environments and rewards work, others sample. Default:
	// four for each sequence that the engine decodes at once. Own key of Trinity-Go.
	MaxRollouts *int `yaml:"max_rollouts" range:"[1,)"`
	// Share of the last 100 rollouts of a taskset that may fail, after their retries, before the run
	// ends; 1 lets all fail. Own key of Trinity-Go.
	MaxFailedRatio float64 `yaml:"max_failed_ratio" default:"1" range:"(0,1]"`
	// Further attempts of a task after a failed one.
	MaxRetryTimes int `yaml:"max_retry_times" default:"2" range:"[0,)"`
	// Environment variables of workflows, environments and rewards, and of the programs that they
	// start. Programs in a sandbox do not see them.
	EnvVars map[string]string `yaml:"env_vars" secret:"true"`
	// How the rollouts of one task share a runner (upstream's process runners).
	ConcurrentMode string `yaml:"concurrent_mode" default:"sequential" enum:"sequential|asynchronous|multi-threading"`
	// Split a group into parts of at most this many rollouts.
	MaxRepeatTimesPerRunner *int `yaml:"max_repeat_times_per_runner" range:"[1,)"`
	// Deprecated: use runner_per_model.
	RunnerNum *int `yaml:"runner_num" range:"[1,)"`
	// The engine that samples from the trained model.
	RolloutModel InferenceModel `yaml:"rollout_model"`
	// Models that the run does not train. Workflows and reward functions ask them in words, by their
	// names: judges, simulated users. If the algorithm distils, those of this machine are its teachers:
	// a teacher reads the token ids of the trained model, so both need the same tokenizer.
	AuxiliaryModels []InferenceModel `yaml:"auxiliary_models"`
	// Explore steps between evaluations. For buffer.trainer_input.eval_buffers, train steps.
	EvalInterval int `yaml:"eval_interval" default:"100" range:"[1,)"`
	// Evaluate before the first step.
	EvalOnStartup bool `yaml:"eval_on_startup" default:"true"`
	// Evaluate beside the steps, except after the last. The sampler keeps its version of the weights
	// meanwhile, so that one version is evaluated; steps that need a newer one wait. Needs a sync_style
	// other than fixed. Own key of Trinity-Go.
	EvalParallel bool `yaml:"eval_parallel"`
	// Mode bench: evaluate only the newest checkpoint.
	BenchOnLatestCheckpoint bool `yaml:"bench_on_latest_checkpoint"`
	// Mode serve: port of the API.
	ProxyPort int `yaml:"proxy_port" default:"8010" range:"[0,65535]"`
	// Mode serve: address of the API. If other machines can reach it, clients must send a key:
	// TRINITY_TOKEN, or rollout_model.api_key.
	ListenAddress string `yaml:"listen_address" default:"0.0.0.0"`
	// Mode serve: seconds between upstream's checks of the engines.
	ServiceStatusCheckInterval float64 `yaml:"service_status_check_interval" default:"60" range:"(0,)"`
	// Mode serve: engines of upstream that keep serving while weights change.
	MinRunningModelNum int `yaml:"min_running_model_num" default:"1" range:"[0,)"`
	// Mode serve: seconds that a rollout of real traffic waits for its reward, after its newest call;
	// then it expires. 0 records no traffic. Own key of Trinity-Go.
	PendingExpiry float64 `yaml:"pending_expiry" default:"0" range:"[0,)"`
	// Mode serve: database in which upstream records requests. Refused: pending_expiry records them in
	// files of the run.
	DBURL          string         `yaml:"db_url"`
	OverRollout    OverRollout    `yaml:"over_rollout"`
	DynamicTimeout DynamicTimeout `yaml:"dynamic_timeout"`
	// Steps between tables of runner states; 0 prints none.
	RunnerStateReportInterval int `yaml:"runner_state_report_interval" default:"0" range:"[0,)"`
	// Explore steps in flight at once, with sync_style fully_async. The next step begins while the
	// slowest rollouts of the one before still run. The explorer delivers steps in order.
	MaxInflightBatches int `yaml:"max_inflight_batches" default:"2" range:"[1,)"`
}

// checkPlace checks what becomes part of paths, and of the environment of programs.
func (e *Explorer) checkPlace(r report) {
	if len(e.Name) <= maxName && !IsPlain(e.Name) {
		r.fail("explorer.name", fmt.Sprintf("%q is not a plain name", e.Name), "it is part of file names: use letters, digits, - and _")
	}
	if wrong := wrongName(e.Name); wrong != "" {
		r.fail("explorer.name", wrong, "use a shorter name")
	}
	for _, name := range slices.Sorted(maps.Keys(e.EnvVars)) {
		if err := process.CheckVariable(name, e.EnvVars[name]); err != nil {
			r.fail("explorer.env_vars", err.Error(), "rename it")
		}
	}
	if k, n := e.Part(); e.Share != fmt.Sprintf("%d/%d", k, n) {
		r.fail("explorer.share", fmt.Sprintf("%q is not a share", e.Share), "write k/n, such as 2/3 for the second of three explorers")
	}
}

// checkDrafts checks the number of draft tokens.
func (e *Explorer) checkDrafts(r report) {
	value := e.RolloutModel.Speculate
	n, err := strconv.Atoi(value)
	if !named(value, "auto", "off") && (err != nil || n < 1 || n > mostDrafts) {
		r.fail("explorer.rollout_model.speculate", fmt.Sprintf("%q is no number of draft tokens", value),
			fmt.Sprintf("use auto, off or a number from 1 to %d", mostDrafts))
	}
}

// mostDrafts is the most draft tokens that an engine verifies for a sequence in one step.
const mostDrafts = 16

// Part returns the numbers of Share: k, counted from 1, and n. It returns 1, 1 if this explorer
// takes all rows or the key is wrong.
func (e *Explorer) Part() (k, n int) {
	part, of, ok := strings.Cut(e.Share, "/")
	k, errPart := strconv.Atoi(part)
	n, errOf := strconv.Atoi(of)
	if !ok || errPart != nil || errOf != nil || k < 1 || k > n {
		return 1, 1
	}
	return k, n
}

// OnlyExplorer is the default name, which an explorer has if it is the only one.
const OnlyExplorer = "explorer"

// ExplorerRole returns the role of an explorer in spans: one of several explorers has its name in it.
func ExplorerRole(role, explorer string) string {
	if explorer == OnlyExplorer {
		return role
	}
	return role + " " + explorer
}

// OverRollout continues with a part of a batch and cancels the slow rest.
type OverRollout struct {
	// Share of the batch that may stay unfinished.
	Ratio float64 `yaml:"ratio" default:"0.0" range:"[0,1)"`
	// Seconds to wait for the rest after the needed part is finished.
	WaitAfterMin float64 `yaml:"wait_after_min" default:"30.0" range:"[0,)"`
	// Keep groups in which some rollouts did not finish.
	ReturnPartialTasks bool `yaml:"return_partial_tasks"`
}

// DynamicTimeout shortens the timeout to a multiple of the mean time of a task.
type DynamicTimeout struct {
	// Shorten the timeout.
	Enable bool `yaml:"enable"`
	// Steps to observe before the timeout changes.
	WarmupMinSteps int `yaml:"warmup_min_steps" default:"1" range:"[0,)"`
	// The timeout as a multiple of the mean time.
	Ratio float64 `yaml:"ratio" default:"3.0" range:"(0,)"`
}

// InferenceModel is an engine that samples. A sampling key that is not set takes its value from
// model.
type InferenceModel struct {
	// Name of an auxiliary model, for `teacher` of a taskset and for the plug-ins that ask it. An only
	// teacher needs none; a model that is asked has its number in the list, from 0, if it is not set.
	Name string `yaml:"name"`
	// Model of an auxiliary engine. The rollout engine samples from model.model_path.
	ModelPath string `yaml:"model_path"`
	// The engine that samples; `trinity check` says what `auto` stands for. Mode train does not sample
	// and accepts any name. `external` is a model behind an API of text: in place of the rollout model
	// (model.external_model), or an auxiliary one. A teacher may be behind servers of its own: name their
	// sampler, and base_urls.
	EngineType string `yaml:"engine_type" default:"auto" plugin:"sampler"`
	// Arguments of that engine (`trinity explain sampler NAME`). Own key of Trinity-Go.
	EngineArgs map[string]any `yaml:"engine_args" args:"engine_type"`
	// Addresses of servers that run already, such as `[http://gpu1:8000, http://gpu2:8000]`, for an
	// engine_type that samples behind servers, also of a teacher. Own key of Trinity-Go.
	BaseUrls []string `yaml:"base_urls"`
	// Number of engines.
	EngineNum int `yaml:"engine_num" default:"1" range:"[1,)"`
	// GPUs over which an engine splits every layer.
	TensorParallelSize int `yaml:"tensor_parallel_size" default:"1" range:"[1,)"`
	// Copies of the model in one engine.
	DataParallelSize int `yaml:"data_parallel_size" default:"1" range:"[1,)"`
	// GPUs over which an engine splits the stack of layers.
	PipelineParallelSize int `yaml:"pipeline_parallel_size" default:"1" range:"[1,)"`
	// Spread experts over GPUs.
	EnableExpertParallel bool `yaml:"enable_expert_parallel"`
	// Arguments that go to the GPU engine unchanged.
	ExtraEngineArgs map[string]any `yaml:"extra_engine_args"`
	// Use vLLM's V1 engine.
	UseV1 bool `yaml:"use_v1" default:"true"`
	// Use no CUDA graphs.
	EnforceEager bool `yaml:"enforce_eager"`
	// Share the KV cache between prompts with an equal prefix.
	EnablePrefixCaching bool `yaml:"enable_prefix_caching" default:"true"`
	// Prefill long prompts in pieces.
	EnableChunkedPrefill bool `yaml:"enable_chunked_prefill" default:"true"`
	// Share of GPU memory that an engine may use.
	GPUMemoryUtilization float64 `yaml:"gpu_memory_utilization" default:"0.9" range:"(0,1]"`
	// Number type of the weights that the engine samples from. For an auxiliary model, `bfloat16`
	// rounds the weights, and leaving the key out is `auto`, which keeps the file's number type.
	Dtype string `yaml:"dtype" default:"bfloat16" enum:"auto|bfloat16|float16|float32|half|float"`
	// Quantization of the sampler's layers and head: `bf16`, `int8`, or empty for none. Keys and values
	// are then bf16. It makes sampling faster, and logprobs differ from the trainer's: combine it with
	// algorithm.rollout_correction. Training keeps float32.
	Quantization string `yaml:"quantization" enum:"|bf16|int8"`
	// Seed of sampling.
	Seed int `yaml:"seed" default:"42"`
	// Run Python code that comes with a model; not set is model.trust_remote_code.
	TrustRemoteCode *bool `yaml:"trust_remote_code"`
	// Not set is model.temperature.
	Temperature *float64 `yaml:"temperature" range:"[0,)"`
	// Not set is model.top_p.
	TopP *float64 `yaml:"top_p" range:"(0,1]"`
	// Not set is model.top_k.
	TopK *int `yaml:"top_k" range:"[-1,)"`
	// Not set is model.logprobs.
	Logprobs *int `yaml:"logprobs" range:"[0,)"`
	// Not set is model.repetition_penalty.
	RepetitionPenalty *float64 `yaml:"repetition_penalty" range:"(0,)"`
	// Not set is model.max_model_len.
	MaxModelLen *int `yaml:"max_model_len" range:"[2,)"`
	// Not set is model.max_prompt_tokens.
	MaxPromptTokens *int `yaml:"max_prompt_tokens" range:"[1,)"`
	// Not set is model.max_response_tokens.
	MaxResponseTokens *int `yaml:"max_response_tokens" range:"[1,)"`
	// Not set is model.min_response_tokens.
	MinResponseTokens *int `yaml:"min_response_tokens" range:"[0,)"`
	// Not set is model.enable_prompt_truncation.
	EnablePromptTruncation *bool `yaml:"enable_prompt_truncation"`
	// Not set is model.enable_thinking.
	EnableThinking *bool `yaml:"enable_thinking"`
	// Not set is model.custom_chat_template.
	ChatTemplate string `yaml:"chat_template"`
	// Not set is model.rope_scaling.
	RopeScaling map[string]any `yaml:"rope_scaling"`
	// Not set is model.rope_theta.
	RopeTheta *float64 `yaml:"rope_theta" range:"(0,)"`
	// Continue after the end-of-sequence token.
	IgnoreEos bool `yaml:"ignore_eos"`
	// Accept images in requests of programs. Rows with image_key need no key here.
	EnableMultimodal bool `yaml:"enable_multimodal"`
	// Upstream records with it what is sampled over HTTP. Here that is always recorded.
	EnableHistory bool `yaml:"enable_history"`
	// Upstream serves the OpenAI API with it. Here a workflow whose rollouts a program makes opens it,
	// and mode serve.
	EnableOpenaiAPI bool `yaml:"enable_openai_api"`
	// Log every request.
	EnableLogRequests bool `yaml:"enable_log_requests"`
	// Port of the first engine's API; not set is any free port.
	BasePort *int `yaml:"base_port" range:"[0,65535]"`
	// Key of the API: of the servers in base_urls, and of mode serve.
	APIKey string `yaml:"api_key" default:"EMPTY" secret:"true"`
	// Read the calls of tools in replies. `false` takes every reply as text.
	EnableAutoToolChoice bool `yaml:"enable_auto_tool_choice" default:"true"`
	// Format in which the model calls tools; `auto` finds it by the chat template, and `trinity check`
	// says which one it is. `plain` reads calls by tool_call_pattern.
	ToolCallParser string `yaml:"tool_call_parser" default:"auto" enum:"auto|hermes|llama3_json|mistral|pythonic|qwen3_coder|plain|none"`
	// Regular expression of a call, for tool_call_parser `plain`. Its group `name` is the tool's name; its
	// group `arguments` is a JSON object, or each further group is an argument. Own key of Trinity-Go.
	ToolCallPattern string `yaml:"tool_call_pattern"`
	// How the thinking in a reply is read: `auto` as the chat template writes it; `deepseek_r1` and
	// `qwen3` between <think> and </think>; `mistral` between [THINK] and [/THINK]; `none` as part of the
	// reply.
	ReasoningParser string `yaml:"reasoning_parser" default:"auto" enum:"auto|deepseek_r1|qwen3|mistral|none"`
	// Keep what the model thought in earlier turns although its chat template leaves that out, so that a
	// rollout of several turns stays one sequence. Own key of Trinity-Go.
	KeepThinking bool `yaml:"keep_thinking"`
	// What happens if the chat template writes earlier turns differently: `branch` begins a new sequence
	// for the reply, `fail` fails the rollout. Own key of Trinity-Go.
	OnRewrite string `yaml:"on_rewrite" default:"branch" enum:"branch|fail"`
	// What happens to the KV cache of a rollout of several turns when new weights come: `recompute`
	// computes earlier turns again, so that log-probabilities are those of the weights; `keep` lets
	// rollouts under way use it on, and the versions of their experiences begin with its oldest. Own key
	// of Trinity-Go.
	KvAcrossVersions string `yaml:"kv_across_versions" default:"recompute" enum:"recompute|keep"`
	// Draft tokens that a step verifies for each sequence: `auto` chooses their number by what it measures,
	// `off` is none, and a number from 1 to 16 is the most. Drafts come from the prompt and from other
	// replies to it. They change no token and no log-probability. Own key of Trinity-Go.
	Speculate string `yaml:"speculate" default:"auto"`
	// A model behind an OpenAI-compatible API.
	ExternalModelConfig *ExternalModel `yaml:"external_model_config"`
	// Number of machines over which upstream spreads one engine.
	Nnodes int `yaml:"nnodes" default:"1" range:"[1,)"`
	// Return the experts to which the router sent each token.
	EnableReturnRoutedExperts bool `yaml:"enable_return_routed_experts"`
	// Megabytes per message of weights that are sent without files.
	WeightSyncBufferSize int `yaml:"weight_sync_buffer_size" default:"1024" range:"[1,)"`
	// Change LoRA adapters while the engine runs.
	EnableRuntimeLoraUpdating bool `yaml:"enable_runtime_lora_updating"`
}

const runners = "a setting of upstream's runner processes: rollouts are goroutines here"

var unusedOfExplorer = []unusedKey{
	{"explorer.rollout_model.external_model_config", func(s *Settled, key string) string {
		if s.Model.ExternalModel.Enable && s.Samples {
			return ""
		}
		return "no external model is used"
	}},
	{"explorer.rollout_model.nnodes", func(s *Settled, _ string) string {
		switch {
		case s.startsServers():
			return "each server that the run starts has one machine"
		case s.behindServers():
			return "the servers that base_urls names run already"
		case s.Samples:
			return "the engine that samples is part of this process"
		}
		return "mode " + s.Mode + " opens no sampler"
	}},
	{"explorer.concurrent_mode", always(runners)},
	{"explorer.runner_prepare_concurrency", always(runners)},
	{"explorer.runner_prepare_max_retries", always(runners)},
	{"explorer.max_repeat_times_per_runner", always(runners)},
	{"explorer.runner_state_report_interval", always(runners)},
	{"explorer.dynamic_timeout", onlyIf(explores, noRollouts)},
	{"explorer.dynamic_timeout", unless(func(s *Settled) bool { return s.Explorer.DynamicTimeout.Enable },
		"explorer.dynamic_timeout.enable is false")},
	{"explorer.over_rollout", onlyIf(explores, noRollouts)},
	{"explorer.over_rollout", unless(func(s *Settled) bool { return s.Explorer.OverRollout.Ratio > 0 }, "explorer.over_rollout.ratio is 0")},
	{"explorer.service_status_check_interval", whileServing},
	{"explorer.min_running_model_num", whileServing},
	{"explorer.rollout_model.enable_history", func(s *Settled, _ string) string {
		switch {
		case s.Records():
			return "explorer.pending_expiry records real traffic, id by id"
		case serves(s.Work):
			return "explorer.pending_expiry, which is 0, would record real traffic"
		}
		return "what a rollout samples is always recorded, id by id, also what a program asks for at its endpoint"
	}},
	{"explorer.rollout_model.enable_openai_api", func(s *Settled, _ string) string {
		if serves(s.Work) {
			return "mode serve always opens the API"
		}
		return "a workflow whose rollouts a program makes opens the API for it; mode serve opens it for everybody"
	}},
	{"explorer.rollout_model.tool_call_parser", unless(func(s *Settled) bool { return s.Explorer.RolloutModel.EnableAutoToolChoice },
		"enable_auto_tool_choice is false, so replies are text")},
	{"explorer.proxy_port", onlyIf(serves, onlyServe)},
	{"explorer.listen_address", onlyIf(serves, onlyServe)},
	{"explorer.db_url", onlyIf(serves, onlyServe)},
	{"explorer.pending_expiry", onlyIf(serves, onlyServe)},
	{"explorer.rollout_model.api_key", func(s *Settled, _ string) string {
		switch {
		case serves(s.Work) || s.behindServers() && !s.startsServers():
			return ""
		case s.startsServers():
			return "the run gives the servers that it starts a key"
		}
		return "only mode serve and servers that base_urls names read it"
	}},
	{"explorer.max_inflight_batches", unless(func(s *Settled) bool {
		return !s.Explores || s.Batch.StepsInFlight > 1 || s.Explorer.MaxInflightBatches == 1
	}, "only sync_style fully_async explores several steps at once, for a trainer")},
	{"explorer.eval_parallel", unless(func(s *Settled) bool { return s.Explores && len(s.Buffer.ExplorerInput.EvalTasksets) > 0 },
		"no taskset is evaluated beside the steps of an explorer")},
}

const (
	noRollouts = "this mode makes no rollouts for training"
	onlyServe  = "only mode serve reads it"
)

// whileServing is the reason of upstream's keys of several engines behind mode serve.
func whileServing(s *Settled, _ string) string {
	switch {
	case !serves(s.Work):
		return "Trinity-RFT reads it only in mode serve"
	case s.behindServers():
		return "a server that does not answer is left out until it does, and takes new weights while it serves"
	}
	return "the engine is part of this process, and takes new weights while it serves"
}

// Records reports whether mode serve records real traffic for a trainer.
func (w Work) Records() bool { return w.records }

// checkTraffic checks that the algorithm can learn from real traffic.
func checkTraffic(r report, algorithm *Algorithm, method *Method, synchronizer *Synchronizer, w Work) {
	const key = "explorer.pending_expiry"
	if !w.Records() {
		return
	}
	if synchronizer.SyncStyle != "fully_async" {
		r.fail("synchronizer.sync_style", fmt.Sprintf("is %s, but real traffic waits for no version of the weights", synchronizer.SyncStyle),
			"set it to fully_async, for the trainer too")
	}
	if method.Needs.GreedyReward || method.Distils {
		r.fail(key, fmt.Sprintf("records traffic, and %s needs more than its replies and rewards", algorithm.AlgorithmType),
			"choose an algorithm without greedy rollouts and teachers")
	}
}

func moveRunnerNum(r report, explorer *Explorer) {
	e := explorer
	if e.RunnerNum == nil {
		return
	}
	const key = "explorer.runner_num"
	if r.IsSet("explorer.runner_per_model") {
		r.fail(key, "is deprecated, and runner_per_model is set as well", "keep runner_per_model alone")
		return
	}
	e.RunnerPerModel = (*e.RunnerNum + e.RolloutModel.EngineNum - 1) / max(e.RolloutModel.EngineNum, 1)
	r.warn(key, "is deprecated; taken as runner_per_model: %s", strconv.Itoa(e.RunnerPerModel))
	e.RunnerNum = nil
}
