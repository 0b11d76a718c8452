package studio

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/trinity-go/trinity/internal/trace"
)

// mostPairs is how many answers one reply has of two evaluations.
const mostPairs = 200

// maxChat is how many bytes the chat of an answer has at most in a list.
const maxChat = 64 << 10

// heldAnswer is an answer to a held-out row.
type heldAnswer struct {
	Response string          `json:"response"`
	Cut      bool            `json:"cut"` // the texts are longer
	Chat     json.RawMessage `json:"chat,omitempty"`
	Reward   *Number         `json:"reward"`
	Parts    json.RawMessage `json:"reward_parts"`
	Reason   string          `json:"reason"`
	Verdict  trace.Verdict   `json:"verdict"`
	Tokens   int64           `json:"response_tokens"`
	Version  int64           `json:"model_version"` // of the weights that sampled it
}

// heldPair is the answers of two evaluations to a row.
type heldPair struct {
	Change  trace.Change `json:"change"`
	Taskset string       `json:"taskset"`
	Row     int64        `json:"row"`
	Repeat  int          `json:"repeat"`
	Prompt  string       `json:"prompt"`
	Truth   string       `json:"truth"`
	A       *heldAnswer  `json:"a"`
	B       *heldAnswer  `json:"b"`
}

// heldSide is one of two evaluations.
type heldSide struct {
	Run   string `json:"run"`
	At    string `json:"at"`
	N     int    `json:"n"`
	Right int    `json:"right"`
}

// evaluations answers with the evaluations that a run's trace has, by step.
func (s *traces) evaluations(_ *http.Request, f *runFiles) (any, error) {
	all, err := f.heldOut()
	names := []string{}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return map[string]any{"evaluations": names}, err
}

// heldOut lists the evaluations whose answers the trace of the run keeps.
func (f *runFiles) heldOut() ([]trace.EvaluationFile, error) {
	dir, err := f.traces()
	if err != nil {
		return nil, err
	}
	return trace.Evaluations(dir)
}

// evaluated reads an evaluation of a run; of all tasksets, or of one.
func (f *runFiles) evaluated(name, taskset string) ([]*trace.Held, error) {
	all, err := f.heldOut()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(e trace.EvaluationFile) bool { return e.Name() == name })
	if i < 0 {
		return nil, notFound{fmt.Errorf("the trace of the run has no evaluation %.100q", name)}
	}
	if !isOwnFile(all[i].Path) {
		return nil, notFound{fmt.Errorf("%s is no file of the run", all[i].Path)}
	}
	rows, err := trace.ReadEvaluated(all[i].Path)
	rows = slices.DeleteFunc(rows, func(r trace.Evaluated) bool { return taskset != "" && r.Taskset != taskset })
	return trace.HeldOf(rows), err
}

// answers answers with the answers of two evaluations side by side, each a run and the name of its evaluation. A side
// without a name has none. A request may name the taskset that it wants.
func (s *traces) answers(r *http.Request) (any, error) {
	q := r.URL.Query()
	ids, names := q["run"], q["at"]
	if len(ids) != 2 || len(names) != 2 {
		return nil, mistake{fmt.Errorf("run is given %d times and at %d times: name two runs, each with an evaluation", len(ids), len(names))}
	}
	var sides [2]*heldSide
	var read [2][]*trace.Held
	for i, id := range ids {
		if names[i] == "" {
			continue
		}
		f, err := s.runs.open(id)
		if err != nil {
			return nil, err
		}
		if read[i], err = f.evaluated(names[i], q.Get("taskset")); err != nil {
			return nil, err
		}
		sides[i] = &heldSide{id, names[i], len(read[i]), trace.RightOf(read[i])}
	}
	pairs := trace.Pairs(read[0], read[1])
	chosen, err := trace.ChosenPairs(pairs, q.Get("which"), q.Get("q"))
	if err != nil {
		return nil, mistake{err}
	}
	shown := []heldPair{}
	for _, p := range chosen[:min(len(chosen), mostPairs)] {
		shown = append(shown, heldPairOf(p))
	}
	return map[string]any{"a": sides[0], "b": sides[1], "counts": trace.Changes(pairs), "of": len(chosen), "pairs": shown}, nil
}

func heldPairOf(p trace.Pair) heldPair {
	h := p.Any()
	out := heldPair{Change: p.Change, Taskset: h.Taskset, Row: h.Row, Repeat: h.Number, A: heldAnswerOf(p.A), B: heldAnswerOf(p.B)}
	out.Prompt, _ = cutMiddle(h.Prompt, maxShown)
	out.Truth, _ = cutMiddle(h.Truth, maxShown)
	return out
}

func heldAnswerOf(h *trace.Held) *heldAnswer {
	if h == nil {
		return nil
	}
	a := &heldAnswer{Parts: object(string(h.Parts)), Reason: h.Reason, Verdict: h.Verdict, Tokens: h.ResponseTokens,
		Version: h.ModelVersion}
	a.Response, a.Cut = cutMiddle(h.Response, maxShown)
	if a.Cut = a.Cut || len(h.Chat) > maxChat; h.Chat != "" && len(h.Chat) <= maxChat && json.Valid([]byte(h.Chat)) {
		a.Chat = json.RawMessage(h.Chat)
	}
	if h.Reward != nil {
		reward := Number(*h.Reward)
		a.Reward = &reward
	}
	return a
}
