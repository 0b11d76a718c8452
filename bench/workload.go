package main

import "github.com/trinity-go/trinity/modelfile"

// workload is one thing that is measured.
type workload struct {
	name string
	unit string // tok/s, where more is better, or s and ms, where less is

	rows   int  // sequences at once
	prompt int  // tokens
	new    int  // tokens to sample
	copies int  // completions of each prompt; 0 means 1
	whole  bool // the time of the prompts counts with that of the completions

	ours    func(a *assignment) (task, error) // in a child process; nil for whole processes
	command func(s *session) []string         // a whole process of ours
	script  string                            // the peer's, in peers/
	peer    string
	limit   func(c *modelfile.Config, l limits, w *workload) float64 // in the unit; nil if there is none that says something
	asked   bool                                                     // measured only when it is named
}

const (
	group      = 8   // rollouts of a GRPO task
	promptSize = 150 // tokens of a prompt to sample from
	newTokens  = 64
)

var workloads = []workload{
	{name: "train_step_f32", unit: "tok/s", rows: 8, prompt: 256, ours: newTraining, script: "train_torch.py", peer: "PyTorch eager f32", limit: trainLimit},
	{name: "train_step_f32_compiled", unit: "tok/s", rows: 8, prompt: 256, ours: newTraining, script: "train_torch.py", peer: "PyTorch torch.compile f32", limit: trainLimit, asked: true},
	{name: "grpo_step", unit: "s", rows: 4 * group, copies: group, new: newTokens, ours: newGRPO, script: "grpo_trl.py", peer: "TRL GRPOTrainer f32", limit: grpoLimit},
	decode("decode_1", 1), decode("decode_8", 8), decode("decode_32", 32), decode("decode_64", 64),
	{name: "prefill", unit: "tok/s", rows: 16, prompt: promptSize, new: 1, ours: newSampling, script: "generate_transformers.py", peer: "transformers generate f32", limit: prefillLimit},
	{name: "group_rollout", unit: "tok/s", rows: 4 * group, copies: group, whole: true, prompt: promptSize, new: newTokens, ours: newSampling, script: "generate_transformers.py", peer: "transformers generate f32", limit: rolloutLimit},
	{name: "start", unit: "ms", command: (*session).firstToken, script: "first_token.py", peer: "transformers f32"},
	{name: "version", unit: "ms", command: (*session).version, script: "import_torch.py", peer: "import torch"},
}

// decode is sampling after the prompts are in the cache.
func decode(name string, rows int) workload {
	return workload{name: name, unit: "tok/s", rows: rows, prompt: promptSize, new: newTokens, ours: newSampling,
		script: "generate_transformers.py", peer: "transformers generate f32", limit: decodeLimit}
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
