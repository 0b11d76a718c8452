package main

import "cmp"

// workload is one thing that is measured.
type workload struct {
	name string
	unit string // tok/s, exp/s and rows/s, where more is better, or s, ms, % and MB, where less is

	model   bool // it needs one
	rows    int  // sequences at once
	prompt  int  // tokens
	new     int  // tokens to sample
	copies  int  // completions of each prompt; 0 means 1
	browser bool // our side shows a page in one
	server  bool // both sides ask a server that runs already
	packed  bool // sequences for the PyTorch worker: as long as the rows of GSM8K, or groups of replies to prompts
	steps   bool // its sequences decode together, and --phases can measure how
	whole   bool // the time of the prompts counts with that of the completions

	ours    func(a *assignment) (task, error)    // in a child process; nil for whole processes
	command func(s *session) *command            // a whole process of ours
	needs   []string                             // peers whose Pythons our side runs
	rivals  []rival                              // a row each
	goal    float64                              // what ours is to reach, in the unit; 0 for none
	proof   float64                              // share of a delivery for hashing and proof
	limit   func(b *bound, w *workload) possible // nil if there is none that says something
}

// rival is what a workload is compared with: a program that does the same work.
type rival struct {
	name    string              // in the row
	program string              // as --peers names it
	script  string              // in peers/; "" for ourselves
	compile bool                // with torch.compile
	gguf    string              // storage of the GGUF file that it reads; a Hugging Face directory if empty
	dtype   string              // storage of our sampler's weights in this row, unless --dtype says another
	target  float64             // ratio that we want to reach at least; 0 for none
	differs func(a *assignment) // what is not as in ours when we are our own rival
	past    bool                // ourselves at the commit of --compare
}

// wanting is the rival with a target.
func (r rival) wanting(ratio float64) rival {
	r.target = ratio
	return r
}

// int8Weights is the storage that the engine knows as a quantization.
const int8Weights = "int8"

const (
	group      = 8   // rollouts of a GRPO task
	promptSize = 150 // tokens of a prompt to sample from
	newTokens  = 64
)

var (
	vllm         = rival{name: "vLLM f32", program: "vllm", script: "generate_vllm.py"}
	transformers = rival{name: "transformers generate f32", program: "transformers", script: "generate_transformers.py"}
	// llama.cpp reads the files that it is fastest with, and ours has the storage nearest to each.
	llamaBF16 = rival{name: "llama.cpp bf16", program: "llama.cpp", script: "generate_llama.py", gguf: "bf16", dtype: "bf16", target: 1.7}
	llamaQ4   = rival{name: "llama.cpp Q4_1", program: "llama.cpp", script: "generate_llama.py", gguf: "q4_1", dtype: int8Weights, target: 1}
	skyrl     = rival{name: "SkyRL-tx, JAX", program: "skyrl-tx", script: "service_skyrl.py"}
	plainLoop = rival{name: "PyTorch, a plain loop", program: "packed pytorch", script: "train_packed.py"}
	// On a CPU ours is not compiled either.
	uncompiled = rival{name: "layers not compiled", program: "ourselves", differs: func(a *assignment) { a.Uncompiled = true }}
	oneThread  = rival{name: "ourselves, one thread", program: "ourselves", target: 1.85, differs: func(a *assignment) { a.Threads = 1 }}
)

var workloads = []workload{
	{name: "train_step_f32", model: true, unit: "tok/s", rows: 8, prompt: 256, ours: newTraining, limit: trainLimit, rivals: []rival{
		{name: "PyTorch eager f32", program: "pytorch", script: "train_torch.py", target: 1.5},
		{name: "PyTorch torch.compile f32", program: "torch.compile", script: "train_torch.py", compile: true, target: 1.5}}},
	{name: "train_branches", model: true, unit: "tok/s", rows: 8, prompt: branchTokens, ours: newBranches, rivals: []rival{
		{name: "one sequence a rollout", program: "ourselves", target: 1 / 1.1, differs: func(a *assignment) { a.Unbranched = true }}}},
	{name: "torch_step", model: true, unit: "tok/s", rows: 32, packed: true, ours: newPacked, rivals: []rival{
		plainLoop.wanting(1), uncompiled,
		{name: "two passes, no graph held", program: "ourselves", target: 1.2, differs: func(a *assignment) { a.Twice = true }}}},
	{name: "torch_groups", model: true, unit: "tok/s", rows: 4 * group, copies: group, packed: true, prompt: promptSize, new: newTokens,
		ours: newPacked, rivals: []rival{plainLoop.wanting(1.5), uncompiled}},
	{name: "grpo_step", model: true, unit: "s", rows: 4 * group, copies: group, new: newTokens, ours: newGRPO, limit: grpoLimit,
		rivals: []rival{{name: "TRL GRPOTrainer f32", program: "trl", script: "grpo_trl.py", target: 6}}},
	{name: "grpo_vllm", model: true, unit: "s", rows: 4 * group, copies: group, new: newTokens, ours: newGRPOServed,
		needs:  []string{"vllm", "packed pytorch"},
		rivals: []rival{{name: "TRL GRPOTrainer f32", program: "trl", script: "grpo_trl.py", target: 2}}},
	decode("decode_1", 1, llamaBF16, llamaQ4, transformers),
	decode("decode_8", 8, vllm.wanting(2), transformers), decode("decode_32", 32, vllm.wanting(1.8), transformers),
	decode("decode_64", 64, vllm.wanting(1.8), transformers),
	{name: "prefill", model: true, unit: "tok/s", rows: 16, prompt: promptSize, new: 1, ours: newSampling, limit: prefillLimit,
		rivals: []rival{vllm.wanting(1.1), transformers}},
	{name: "group_rollout", model: true, unit: "tok/s", rows: 4 * group, copies: group, whole: true, prompt: promptSize, new: newTokens,
		steps: true, ours: newSampling, limit: rolloutLimit,
		rivals: []rival{vllm.wanting(1.5), transformers}},
	{name: "served_rollouts", model: true, server: true, unit: "tok/s", rows: 32, prompt: promptSize, new: newTokens, ours: newServed,
		rivals: []rival{{name: "asyncio client", program: "vllm", script: "served_vllm.py", target: .97}}},
	{name: "served_added", model: true, unit: "ms", rows: 32, new: newTokens, ours: newQueue, goal: 2},
	{name: "served_queue", model: true, unit: "ms", rows: queued, new: newTokens, ours: newQueue, goal: 60_000},
	deliveryBy("delivery_vllm_reload"), deliveryBy("delivery_vllm_files"), deliveryBy("delivery_vllm_lora"), deliveryBy("delivery_sglang"),
	{name: "start", model: true, unit: "ms", command: (*session).firstToken, rivals: []rival{
		{name: "transformers f32", program: "transformers", script: "first_token.py"},
		{name: "TRL f32", program: "trl", script: "first_token_trl.py"},
		{name: "vLLM f32", program: "vllm", script: "first_token_vllm.py"}}},
	{name: "quickstart", unit: "s", command: (*session).quickstart},
	{name: "threads_train_step_f32", model: true, unit: "tok/s", rows: 8, prompt: 256, ours: newTraining, limit: trainLimit, rivals: []rival{oneThread}},
	decode("threads_decode_32", 32, oneThread),
	decode("int8_rollout", 32, inStorage("f32"), inStorage("bf16")),
	store("store_encode", 172_000, newEncoding), // 1 GB/s
	store("store_decode", 0, newDecoding), store("store_memory", 500_000, newMemoryQueue), store("store_durable", 50_000, newDurableQueue),
	store("store_sqlite", 10_000, newSQLite),
	{name: "store_recovery", unit: "s", goal: 2, ours: newRecovery},
	{name: "unequal_rollouts", unit: "s", rows: 4 * group, copies: group, ours: newUnequal, limit: noSlotIdle,
		rivals: []rival{stepsInFlight("one step at a time", 1, 1.4), stepsInFlight("four steps at once", 4, 0)}},
	{name: "rollouts", unit: "rollouts/s", rows: 128 * group, copies: group, ours: newRollouts, goal: 100_000},
	{name: "turns_prefill", model: true, unit: "%", rows: 2, prompt: promptSize, new: 48, ours: newPrefilling, goal: 5, rivals: []rival{
		{name: "pages of all rollouts alike", program: "ourselves", target: 10, differs: func(a *assignment) { a.Unheld = true }}}},
	{name: "turns", unit: "s", rows: 32, copies: group, ours: newTurns, limit: noSamplerIdle, rivals: []rival{
		{name: "environments that answer at once", program: "ourselves", target: .9, differs: func(a *assignment) { a.Unwaiting = true }},
		{name: "slots held by rollouts", program: "ourselves", target: 1.5, differs: func(a *assignment) { a.Held = true }}}},
	{name: "gateway_streams", unit: "ms", rows: streamCount, ours: newGatewayStreams, goal: 50},
	{name: "stream", unit: "rows/s", ours: newStreaming, rivals: []rival{
		{name: "datasets", program: "transformers", script: "stream_datasets.py", target: 1}}},
	{name: "studio_first", unit: "s", goal: 1, ours: newCurves(true, false)},
	{name: "studio_cold", unit: "s", goal: 1, ours: newCurves(false, false)},
	{name: "studio_again", unit: "ms", goal: 150, ours: newCurves(false, true)},
	{name: "studio_spans_open", unit: "ms", goal: 200, ours: newZooms(true)},
	{name: "studio_spans", unit: "ms", goal: 200, ours: newZooms(false)},
	{name: "studio_tokens", unit: "ms", goal: 300, browser: true, ours: newLook(paint)},
	{name: "studio_scroll", unit: "frames/s", goal: 50, browser: true, ours: newLook(scroll)},
	{name: "studio_live", unit: "ms", goal: 300, browser: true, ours: newLook(live)},
	tracing("studio_trace", "{}", .99), tracing("studio_trace_all", "{tokens: all}", .97),
	{name: "studio_trace_step", unit: "ms", goal: 50, ours: newStep(false)},
	{name: "studio_trace_bytes", unit: "B/token", goal: 12, ours: newStep(true)},
	{name: "studio_beside", unit: "s", ours: newBeside, rivals: []rival{
		{name: "TensorBoard", program: "tensorboard", script: "curves_tensorboard.py", target: 1},
		{name: "MLflow", program: "mlflow", script: "curves_mlflow.py", target: 1},
		{name: "Trackio", program: "trackio", script: "curves_trackio.py", target: 1}}},
	startOf("sandbox_start", 15), startOf("sandbox_start_python", 80),
	{name: "exec_workers", unit: "ms", ours: newAgents, rivals: []rival{
		{name: "a process for each rollout", program: "ourselves", target: 10, differs: func(a *assignment) { a.Unkept = true }}}},
	{name: "python_start", unit: "ms", goal: 500, ours: newPythonStart, rivals: []rival{
		{name: "a bare python3", program: "ourselves", differs: func(a *assignment) { a.Unkept = true }}}},
	{name: "python_rollout", unit: "ms", goal: 3, ours: newPythonRollouts, rivals: []rival{
		{name: "simple_workflow", program: "ourselves", differs: func(a *assignment) { a.Unkept = true }}}},
	{name: "python_loss", unit: "ms", goal: 25, ours: newPythonLoss},
	serviceStep,
	{name: "service_own", model: true, unit: "%", rows: 64, prompt: 512, ours: newOwnWork, goal: 2},
	{name: "service_tenants", model: true, unit: "tok/s", rows: 1, prompt: 256, ours: newTenants, rivals: []rival{
		{name: "one tenant", program: "ourselves", target: .9, differs: func(a *assignment) { a.Lone = true }}}},
	{name: "service_adapters", model: true, unit: "tok/s", rows: 32, prompt: 16, new: newTokens, ours: newAdapters, rivals: []rival{
		{name: "one adapter", program: "ourselves", target: .85, differs: func(a *assignment) { a.Lone = true }}}},
	{name: "service_memory", model: true, unit: "MB", rows: 2, prompt: 256, ours: newFurther(true), goal: 160},
	{name: "service_open", model: true, unit: "s", rows: 2, prompt: 256, ours: newFurther(false), goal: .5},
	{name: "service_restored", model: true, unit: "s", rows: 2, prompt: 256, ours: newRestored, goal: .5},
	{name: "service_logprobs", model: true, unit: "tok/s", rows: 1, prompt: 2048, new: 1, ours: newScoring, rivals: []rival{
		{name: "prefill", program: "ourselves", target: 1 / 1.5, differs: func(a *assignment) { a.Unscored = true }}}},
	{name: "service_forward_backward", model: true, unit: "tok/s", rows: 8, prompt: 256, ours: newForwardBackward,
		rivals: []rival{skyrl.wanting(1)}},
	{name: "service_sample", model: true, unit: "tok/s", rows: 32, prompt: 16, new: newTokens, ours: newOneAdapter,
		rivals: []rival{skyrl.wanting(1)}},
	{name: "service_mask", model: true, unit: "ms", new: 500, ours: newMasks, goal: .1},
	{name: "service_masked_decode", model: true, unit: "tok/s", rows: 32, prompt: 16, new: 32, ours: newMasked, rivals: []rival{
		{name: "replies without a form", program: "ourselves", target: .9, differs: func(a *assignment) { a.Formless = true }}}},
	{name: "version", unit: "ms", command: (*session).version, rivals: []rival{{name: "import torch", program: "pytorch", script: "import_torch.py"}}},
}

// inStorage is our own sampler with weights wider than the 8 bits of our side, which are explorer.rollout_model.quantization of a run.
func inStorage(dtype string) rival {
	return rival{name: "ourselves, " + dtype, program: "ourselves", dtype: int8Weights, target: 1.8, differs: func(a *assignment) { a.DType = dtype }}
}

// decode is sampling after the prompts are in the cache.
func decode(name string, rows int, rivals ...rival) workload {
	return workload{name: name, model: true, unit: "tok/s", rows: rows, prompt: promptSize, new: newTokens, steps: true,
		ours: newSampling, limit: decodeLimit, rivals: rivals}
}

// store is experiences that go through a part of the buffer.
func store(name string, goal float64, ours func(*assignment) (task, error)) workload {
	peer := rival{name: "Trinity-RFT without Ray", program: "trinity-rft", script: "stores_trinity.py"}
	return workload{name: name, unit: "exp/s", goal: goal, ours: ours, rivals: []rival{peer}}
}

// startOf is the time of a program in the sandbox, from its start to its end.
func startOf(name string, goal float64) workload {
	return workload{name: name, unit: "ms", goal: goal, ours: newSandbox, rivals: []rival{
		{name: "without a sandbox", program: "ourselves", differs: func(a *assignment) { a.Unconfined = true }}}}
}

// tracing is the quickstart with traces.
func tracing(name, how string, target float64) workload {
	with := func(a *assignment) (task, error) {
		a.Trace = cmp.Or(a.Trace, how)
		return newQuickstart(a)
	}
	return workload{name: name, unit: "s", ours: with, rivals: []rival{
		{name: "without traces", program: "ourselves", target: target, differs: func(a *assignment) { a.Trace = "{tokens: off, spans: false}" }}}}
}

func names() []string {
	var out []string
	for _, w := range workloads {
		out = append(out, w.name)
	}
	return out
}

// find is the workload of a name that [names] has.
func find(name string) *workload {
	for i := range workloads {
		if workloads[i].name == name {
			return &workloads[i]
		}
	}
	return nil
}
