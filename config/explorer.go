package config

import (
	"strconv"
	"strings"
)

// Explorer is the rollout side.
type Explorer struct {
	// Name, which each of several explorers with one trainer has of its own. The tasks of one that has another name than the default one bear it in
	// their ids, so that each draws numbers of its own.
	Name string `yaml:"name" default:"explorer"`
	// Which of the training tasksets' rows are this explorer's, of several with one trainer: `2/3` is the second third, every third row from the second on; 1/1 is
	// all. Own key of Trinity-Go.
	Share string `yaml:"share" default:"1/1"`
	// Tasks in flight per engine.
	RunnerPerModel int `yaml:"runner_per_model" default:"8" range:"[1,)"`
	// Runners that start at the same time (upstream's process runners).
	RunnerPrepareConcurrency int `yaml:"runner_prepare_concurrency" default:"8" range:"[1,)"`
	// Attempts to start a runner (upstream's process runners).
	RunnerPrepareMaxRetries int `yaml:"runner_prepare_max_retries" default:"2" range:"[0,)"`
	// Seconds per attempt of a task.
	MaxTimeout float64 `yaml:"max_timeout" default:"1800" range:"(0,)"`
	// Attempts after the first failed one.
	MaxRetryTimes int `yaml:"max_retry_times" default:"2" range:"[0,)"`
	// Environment variables of runners.
	EnvVars map[string]any `yaml:"env_vars"`
	// How the rollouts of one task run beside each other (upstream's process runners).
	ConcurrentMode string `yaml:"concurrent_mode" default:"sequential" enum:"sequential|asynchronous|multi-threading"`
	// Split a group into parts of this many rollouts.
	MaxRepeatTimesPerRunner *int `yaml:"max_repeat_times_per_runner" range:"[1,)"`
	// Deprecated: use runner_per_model.
	RunnerNum *int `yaml:"runner_num" range:"[1,)"`
	// The engine that samples from the trained model.
	RolloutModel InferenceModel `yaml:"rollout_model"`
	// Models that are not trained: the teachers of an algorithm that distils, which see the same token ids as the trained model and so need its tokenizer.
	AuxiliaryModels []InferenceModel `yaml:"auxiliary_models"`
	// Explore steps between evaluations; train steps, where it is buffer.trainer_input.eval_buffers that are measured.
	EvalInterval int `yaml:"eval_interval" default:"100" range:"[1,)"`
	// Evaluate before the first step.
	EvalOnStartup bool `yaml:"eval_on_startup" default:"true"`
	// Mode bench: evaluate the newest checkpoint only.
	BenchOnLatestCheckpoint bool `yaml:"bench_on_latest_checkpoint"`
	// Mode serve: port of the API.
	ProxyPort int `yaml:"proxy_port" default:"8010" range:"[0,65535]"`
	// Mode serve: address of the API. One that other machines reach needs a key that clients bear: TRINITY_TOKEN, or rollout_model.api_key.
	ListenAddress string `yaml:"listen_address" default:"0.0.0.0"`
	// Seconds between upstream's looks at the engines of mode serve.
	ServiceStatusCheckInterval float64 `yaml:"service_status_check_interval" default:"60" range:"(0,)"`
	// Engines of upstream's mode serve that go on serving while weights change.
	MinRunningModelNum int `yaml:"min_running_model_num" default:"1" range:"[0,)"`
	// Database of the requests that upstream's mode serve records.
	DBURL          string         `yaml:"db_url"`
	OverRollout    OverRollout    `yaml:"over_rollout"`
	DynamicTimeout DynamicTimeout `yaml:"dynamic_timeout"`
	// Steps between tables of runner states; 0 is never.
	RunnerStateReportInterval int `yaml:"runner_state_report_interval" default:"0" range:"[0,)"`
	// Explore steps at once, with sync_style fully_async: while the slowest rollouts of one are under way those of the next begin. They are delivered in their order.
	MaxInflightBatches int `yaml:"max_inflight_batches" default:"2" range:"[1,)"`
}

// Part is the share, from 1 on, and of how many; 1 of 1 where all rows are this explorer's, and where the key is wrong.
func (e *Explorer) Part() (k, n int) {
	part, of, ok := strings.Cut(e.Share, "/")
	k, errPart := strconv.Atoi(part)
	n, errOf := strconv.Atoi(of)
	if !ok || errPart != nil || errOf != nil || k < 1 || k > n {
		return 1, 1
	}
	return k, n
}

// OnlyExplorer is the name of an explorer that is not one of several.
const OnlyExplorer = "explorer"

// OverRollout goes on with part of a batch and cancels the slow rest.
type OverRollout struct {
	// Share of the batch that need not finish.
	Ratio float64 `yaml:"ratio" default:"0.0" range:"[0,1)"`
	// Seconds to wait after the needed part finished.
	WaitAfterMin float64 `yaml:"wait_after_min" default:"30.0" range:"[0,)"`
	// Keep groups that finished in part.
	ReturnPartialTasks bool `yaml:"return_partial_tasks"`
}

// DynamicTimeout shortens the timeout to a multiple of the mean time of a task.
type DynamicTimeout struct {
	// Shorten the timeout.
	Enable bool `yaml:"enable"`
	// Steps observed before it acts.
	WarmupMinSteps int `yaml:"warmup_min_steps" default:"1" range:"[0,)"`
	// Multiple of the mean time.
	Ratio float64 `yaml:"ratio" default:"3.0" range:"(0,)"`
}

// InferenceModel is an engine that samples. What is not set of the sampling is inherited from model.
type InferenceModel struct {
	// Name of an auxiliary model, for `teacher` of a taskset; needed where there are several.
	Name string `yaml:"name"`
	// Model of an auxiliary engine; the rollout engine samples from model.model_path.
	ModelPath string `yaml:"model_path"`
	// The engine that samples; `trinity check` says what `auto` stands for. Mode train samples nothing, and may name any.
	EngineType string `yaml:"engine_type" default:"auto" plugin:"sampler"`
	// Arguments of that engine (`trinity explain sampler NAME`). Own key of Trinity-Go.
	EngineArgs map[string]any `yaml:"engine_args"`
	// Engines side by side.
	EngineNum int `yaml:"engine_num" default:"1" range:"[1,)"`
	// GPUs that share every layer.
	TensorParallelSize int `yaml:"tensor_parallel_size" default:"1" range:"[1,)"`
	// Copies of the model behind one engine.
	DataParallelSize int `yaml:"data_parallel_size" default:"1" range:"[1,)"`
	// GPUs that share the stack of layers.
	PipelineParallelSize int `yaml:"pipeline_parallel_size" default:"1" range:"[1,)"`
	// Spread experts over GPUs.
	EnableExpertParallel bool `yaml:"enable_expert_parallel"`
	// Passed to the GPU engine as they are.
	ExtraEngineArgs map[string]any `yaml:"extra_engine_args"`
	// vLLM's V1 engine.
	UseV1 bool `yaml:"use_v1" default:"true"`
	// No CUDA graphs.
	EnforceEager bool `yaml:"enforce_eager"`
	// Share the KV cache of equal prompt prefixes.
	EnablePrefixCaching bool `yaml:"enable_prefix_caching" default:"true"`
	// Prefill long prompts in pieces.
	EnableChunkedPrefill bool `yaml:"enable_chunked_prefill" default:"true"`
	// Share of GPU memory.
	GPUMemoryUtilization float64 `yaml:"gpu_memory_utilization" default:"0.9" range:"(0,1]"`
	// Number type of the weights that are sampled. Of an auxiliary model `bfloat16` rounds the weights, and
	// left out is `auto`, which takes them as the file has them.
	Dtype string `yaml:"dtype" default:"bfloat16" enum:"auto|bfloat16|float16|float32|half|float"`
	// Quantization of the sampler's weights, which is faster and makes its logprobs differ from the trainer's: `bf16` or `int8`, which
	// algorithm.rollout_correction goes with, or nothing. It is of layers and head; training keeps float32.
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
	// Go on after the end-of-sequence token.
	IgnoreEos bool `yaml:"ignore_eos"`
	// Accept images and videos.
	EnableMultimodal bool `yaml:"enable_multimodal"`
	// Record what was sampled, for workflows that speak HTTP.
	EnableHistory bool `yaml:"enable_history"`
	// Serve the OpenAI API.
	EnableOpenaiAPI bool `yaml:"enable_openai_api"`
	// Log every request.
	EnableLogRequests bool `yaml:"enable_log_requests"`
	// Port of the first engine's API; not set is any free port.
	BasePort *int `yaml:"base_port" range:"[0,65535]"`
	// Key of the API.
	APIKey string `yaml:"api_key" default:"EMPTY"`
	// Let the engine parse tool calls.
	EnableAutoToolChoice bool `yaml:"enable_auto_tool_choice"`
	// Parser of tool calls.
	ToolCallParser string `yaml:"tool_call_parser"`
	// Parser of thinking blocks.
	ReasoningParser string `yaml:"reasoning_parser"`
	// A model behind an OpenAI-compatible API.
	ExternalModelConfig *ExternalModel `yaml:"external_model_config"`
	// Return the experts that tokens were routed to.
	EnableReturnRoutedExperts bool `yaml:"enable_return_routed_experts"`
	// Megabytes per message of a weight update over NCCL.
	WeightSyncBufferSize int `yaml:"weight_sync_buffer_size" default:"1024" range:"[1,)"`
	// Change LoRA adapters while the engine runs.
	EnableRuntimeLoraUpdating bool `yaml:"enable_runtime_lora_updating"`
}
