package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/model/renderer"
)

// assignment is what both sides of a workload are told: the same tokens of the same model.
type assignment struct {
	Workload      string      `json:"workload"`
	Model         string      `json:"model"`
	PeerModel     string      `json:"peer_model"` // the same weights as the peer reads them
	Threads       int         `json:"threads"`
	Runs          int         `json:"runs"`
	Batch         int         `json:"batch"` // sequences
	Prompt        int         `json:"prompt"`
	New           int         `json:"new"`        // tokens to sample
	Group         int         `json:"group"`      // completions of each prompt
	Whole         bool        `json:"whole"`      // the time of the prompts counts with that of the completions
	PeerMicro     int         `json:"peer_micro"` // sequences that the peer trains at once
	Compile       bool        `json:"compile"`
	Train         []int32     `json:"train"`
	Lengths       []int       `json:"lengths"`    // of the sequences in train that are as long as the rows of GSM8K
	Python        string      `json:"python"`     // of the PyTorch worker
	VLLM          string      `json:"vllm"`       // Python of a vLLM server that the run starts
	Twice         bool        `json:"twice"`      // a forward pass without a graph comes first
	Uncompiled    bool        `json:"uncompiled"` // PyTorch does not compile layers
	Calls         [][][]int32 `json:"calls"`      // [runs+1][batch][prompt] the first warms up; no two groups have a common beginning
	Questions     string      `json:"questions"`
	System        string      `json:"system"`
	Dir           string      `json:"dir"`  // for what a run writes
	Rows          string      `json:"rows"` // a large dataset, which our side writes
	DType         string      `json:"dtype"`
	StepsInFlight int         `json:"steps_in_flight"` // explore steps at once
	Unconfined    bool        `json:"unconfined"`      // programs run without a sandbox
	Unheld        bool        `json:"unheld"`          // calls that others continue are as those that nobody continues
	Unkept        bool        `json:"unkept"`          // a program for each rollout
	Held          bool        `json:"held"`            // a rollout holds the slot of its calls while its environment works
	Unbranched    bool        `json:"unbranched"`      // the same tokens, with no branches
	Unwaiting     bool        `json:"unwaiting"`       // environments answer at once
	Server        string      `json:"server"`          // address of a server that runs already
	Trace         string      `json:"trace"`           // monitor.trace of a run
	Copied        bool        `json:"copied"`          // the bytes of a version are copied, and no server gets them
	Rank          int         `json:"rank"`            // of adapters at a service
	Lone          bool        `json:"lone"`            // one model has the work of several
	Unscored      bool        `json:"unscored"`        // no log-probabilities of prompts
	Formless      bool        `json:"formless"`        // replies have no form
	Direct        bool        `json:"direct"`          // a run without a service
	Speculate     string      `json:"speculate"`       // explorer.rollout_model.speculate of a run
	Phases        bool        `json:"phases"`          // steps wait for their turn and tell their phases
	Cookbook      string      `json:"cookbook"`        // Python of the cookbook of Tinker
	Scripts       string      `json:"scripts"`         // folder of the peers
	Curves        curves      `json:"curves"`          // that a studio shows
}

// systemPrompt goes before each question of a GRPO step.
const systemPrompt = "You are a helpful assistant. Think step by step and put the final answer after ####."

//go:embed texts/gsm8k.jsonl
var gsm8k []byte

// tokens are those of the texts, one after the other, and how many each has.
func tokens(model string) (out []int32, lengths []int, err error) {
	text, err := renderer.Open(model, renderer.Options{})
	if err != nil {
		return nil, nil, err
	}
	if text == nil {
		return nil, nil, fmt.Errorf("model %s has no tokenizer", model)
	}
	lines := bufio.NewScanner(bytes.NewReader(gsm8k))
	for lines.Scan() {
		var row struct{ Question, Answer string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, nil, err
		}
		ids := text.Encode(row.Question + "\n" + row.Answer + "\n\n")
		out, lengths = append(out, ids...), append(lengths, len(ids))
	}
	return out, lengths, lines.Err()
}

// groups returns replies of their own to prompts that groups share, one sequence after the other.
func groups(tokens []int32, w *workload) (all []int32, lengths []int) {
	take := func(n int) (part []int32) {
		part, tokens = tokens[:n], tokens[n:]
		return part
	}
	var prompt []int32
	for i := range w.rows {
		if i%w.copies == 0 {
			prompt = take(w.prompt)
		}
		all, lengths = slices.Concat(all, prompt, take(w.new)), append(lengths, w.prompt+w.new)
	}
	return all, lengths
}

// assignment is what our side of a workload is told.
func (s *session) assignment(w *workload, dtype string) *assignment {
	a := &assignment{
		Workload: w.name, Model: s.set.model, Threads: s.machine.Cores, Runs: s.set.runs,
		Batch: w.rows, Prompt: w.prompt, New: w.new, Group: max(1, w.copies), Whole: w.whole, PeerMicro: s.peerMicro(w.rows),
		Questions: filepath.Join(s.dir, "questions.jsonl"), Rows: filepath.Join(s.dir, "rows.jsonl"), System: systemPrompt,
		DType: dtype, StepsInFlight: 2, Rank: serviceRank,
		Server: s.set.server, Python: s.peers.pythonOf("packed pytorch"), VLLM: s.peers.pythonOf("vllm"),
		Cookbook: s.peers.pythonOf("tinker-cookbook"), Scripts: s.peers.scripts,
		Curves: s.curves(),
	}
	switch {
	case w.packed && w.prompt > 0:
		a.Train, a.Lengths = groups(s.tokens, w)
	case w.new > 0 && w.prompt > 0:
		a.Calls = windows(s.tokens, a.Runs+1, a.Batch, a.Group, w.prompt)
	case w.packed:
		a.Train, a.Lengths = s.tokens, s.lengths[:w.rows]
	case w.prompt > 0:
		a.Train = s.tokens[:min(w.rows*w.prompt+1, len(s.tokens))] // a service repeats them
	}
	return a
}

// write keeps an assignment for the process that reads it, and makes room for what that writes.
func (s *session) write(a *assignment) (string, error) {
	dir, err := os.MkdirTemp(s.dir, a.Workload+"-")
	if err != nil {
		return "", err
	}
	a.Dir = filepath.Join(dir, "run")
	data, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "assignment.json")
	return path, os.WriteFile(path, data, 0o644)
}

// windows cuts prompts of size tokens out of a text for calls × rows sequences, copies of each. Each begins elsewhere, so that none is in a
// cache of another.
func windows(text []int32, calls, rows, copies, size int) [][][]int32 {
	stride := max(1, (len(text)-size)*copies/(calls*rows))
	out := make([][][]int32, calls)
	at := 0
	for i := range out {
		for len(out[i]) < rows {
			from := at % (len(text) - size)
			out[i] = append(out[i], slices.Repeat([][]int32{text[from : from+size]}, copies)...)
			at += stride
		}
	}
	return out
}

// peerMicro is how many sequences the peer of a GRPO step trains at once: all of them take some 19 GB with SmolLM2-135M.
func (s *session) peerMicro(rows int) int {
	if place.Machine().Available > 22<<30 {
		return rows
	}
	return max(1, rows/4)
}
