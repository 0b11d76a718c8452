package loss

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
)

// pythonTerm is a term of a loss that a class or a function in a process of Python computes.
type pythonTerm struct {
	Class   string         `yaml:"class" required:"name a class, such as my.module.Loss" doc:"package.module.Name, or file.py:Name"`
	Args    map[string]any `yaml:"args" doc:"arguments of the class, or of the function beside the streams"`
	Timeout float64        `yaml:"timeout" range:"(0,inf]" doc:"seconds for an optimizer step, besides imports (python.start_timeout)"`
	Python  bridge.Plugins `yaml:"python" doc:"the section python, if it is another for this class"`

	who    string // for people
	is     bridge.Described
	run    bridge.Run
	memory bridge.Memory
}

func newPythonTerm() pythonTerm { return pythonTerm{Timeout: 60, Python: bridge.DefaultPlugins()} }

// describe checks that the class exists, is of the kind, for which people have a word, and takes the arguments.
func (p *pythonTerm) describe(kind, word string) (err error) {
	p.who = word + " " + p.Class
	p.is, err = p.Python.Check(kind, p.Class, &p.Args)
	return err
}

// Open gives the term what a run offers.
func (p *pythonTerm) Open(host trinity.Host) error {
	p.run.Open(host)
	return nil
}

// State returns the state of the class for a checkpoint; nil if it has none.
func (p *pythonTerm) State() (json.RawMessage, error) { return p.memory.Save(p.Class) }

// Restore takes a state that State has returned.
func (p *pythonTerm) Restore(state json.RawMessage) error { return p.memory.Load(p.Class, state) }

// ask asks about a step. of is the kind of term that the class is.
func (p *pythonTerm) ask(ctx context.Context, of string, question map[string]any, answer any) error {
	body := maps.Clone(question)
	body["of"] = of
	q := bridge.Question{Do: "loss", Name: p.Class, Body: body, Memory: &p.memory, Timeout: p.Timeout}
	if err := p.run.Ask(ctx, &p.Python, q, answer); err != nil {
		return fmt.Errorf("%s: %w", p.who, err)
	}
	return nil
}

// takes reports whether the loss takes a stream. Before somebody has described it, nobody knows.
func (p *pythonTerm) takes(name string) bool { return slices.Contains(p.is.Takes, name) }

// question packs the trained tokens of a step. The error says which experience lacks what.
func (p *pythonTerm) question(b *trinity.Batch, now []trinity.TokenStats) (map[string]any, error) {
	longest, experts := 0, []bool{}
	for _, e := range b.Experiences {
		longest, experts = max(longest, len(e.Tokens)-e.PromptLen), append(experts, e.IsExpert)
	}
	streams := map[string]string{}
	for _, s := range p.streams(b, now) {
		numbers, err := p.trained(s, b.Experiences)
		if err != nil {
			return nil, err
		}
		if numbers != nil {
			streams[s.name] = bridge.Pack(numbers)
		}
	}
	fields, err := p.fields(b.Experiences, streams)
	return map[string]any{
		"args": p.Args, "step": b.Step, "lengths": lengths(b.Experiences), "width": longest, "streams": streams, "experts": experts,
		"fields": fields,
	}, err
}

// pythonStream is what a loss in Python reads of each token.
type pythonStream struct {
	name, origin string
	of           func(i int, e *trinity.Experience) []float32
}

// streams lists the streams of a step.
func (p *pythonTerm) streams(b *trinity.Batch, now []trinity.TokenStats) []pythonStream {
	recorded := func(name, origin string, of func(*trinity.Experience) []float32) pythonStream {
		return pythonStream{name, origin, func(_ int, e *trinity.Experience) []float32 { return of(e) }}
	}
	return []pythonStream{
		{"logprob", "of the engine", func(i int, _ *trinity.Experience) []float32 { return now[i].Logprob }},
		{"entropy", "of the engine", func(i int, _ *trinity.Experience) []float32 { return now[i].Entropy }},
		recorded("old_logprob", "of the policy that sampled it", (*trinity.Experience).LogprobsBefore),
		recorded("ref_logprob", "of the reference model", func(e *trinity.Experience) []float32 { return e.RefLogprobs }),
		recorded("teacher_logprobs", "of a teacher", func(e *trinity.Experience) []float32 { return e.TeacherLogprobs }),
		recorded("advantages", "from an advantage_fn", func(e *trinity.Experience) []float32 { return e.Advantages }),
	}
}

// trained returns the numbers of a stream at the trained tokens; nil if the loss does not take it, or does without it.
func (p *pythonTerm) trained(s pythonStream, exps []*trinity.Experience) (numbers []float32, err error) {
	if s.name != "logprob" && p.is.Takes != nil && !p.takes(s.name) {
		return nil, nil
	}
	var all []float64
	for i, e := range exps {
		v := s.of(i, e)
		switch {
		case v == nil && e.IsExpert && p.takes("expert_mask"): // the loss tells demonstrations apart
			v = make([]float32, len(e.Mask))
		case v == nil && !slices.Contains(p.is.Needs, s.name):
			return nil, nil
		case v == nil:
			return nil, fmt.Errorf("experience %s has no %s (%s), which %s takes", e.ID, s.name, s.origin, p.who)
		}
		if all, err = pack(all, e, s.name, v); err != nil {
			return nil, err
		}
	}
	numbers = make([]float32, len(all))
	for i, v := range all {
		numbers[i] = float32(v)
	}
	return numbers, nil
}

// ofStep are the parameters of a loss that are no numbers of info.
var ofStep = []string{
	"logprob", "entropy", "old_logprob", "ref_logprob", "teacher_logprobs", "advantages", "action_mask", "expert_mask", "step",
}

// fields returns the numbers of info that the loss takes, one for each sequence. Lists, of a number for each token after
// the prompt, become streams.
func (p *pythonTerm) fields(exps []*trinity.Experience, streams map[string]string) (map[string][]float64, error) {
	fields := map[string][]float64{}
	for _, name := range p.is.Takes {
		if slices.Contains(ofStep, name) {
			continue
		}
		var numbers []float64
		var tokens []float32
		lists := 0
		for _, e := range exps {
			v, ok := number(e.Info[name])
			list, isList, err := perToken(e, name)
			switch {
			case err != nil:
				return nil, err
			case isList:
				tokens, lists = append(tokens, list...), lists+1
			case ok:
				numbers = append(numbers, v)
			case slices.Contains(p.is.Needs, name):
				return nil, fmt.Errorf("%s takes %s, which is no stream (%s) and no number in the info of experience %s",
					p.who, name, strings.Join(ofStep, ", "), e.ID)
			}
		}
		switch {
		case lists > 0 && len(numbers) > 0:
			return nil, fmt.Errorf("%s takes %s, which is a number in the info of some experiences, and a list in that of others",
				p.who, name)
		case len(numbers) == len(exps):
			fields[name] = numbers
		case lists == len(exps):
			streams[name] = bridge.Pack(tokens)
		}
	}
	return fields, nil
}

// number returns a number of info.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}

// perToken returns the numbers of a list in info at the trained tokens of an experience, and whether there is a list. The
// list has a number for each token after the prompt.
func perToken(e *trinity.Experience, name string) (trained []float32, isList bool, err error) {
	var all []any
	switch v := e.Info[name].(type) {
	case []any:
		all = v
	case []float64:
		for _, x := range v {
			all = append(all, x)
		}
	case []float32:
		for _, x := range v {
			all = append(all, float64(x))
		}
	default:
		return nil, false, nil
	}
	if want := len(e.Tokens) - e.PromptLen; len(all) != want {
		return nil, true, fmt.Errorf("experience %s: %s in its info has %d numbers, want %d, one for each token after the prompt",
			e.ID, name, len(all), want)
	}
	for i, v := range all {
		x, ok := number(v)
		if narrow := float32(x); ok && !math.IsNaN(x) && !math.IsInf(float64(narrow), 0) {
			if e.Mask[e.PromptLen+i] {
				trained = append(trained, narrow)
			}
			continue
		}
		return nil, true, fmt.Errorf("experience %s: %s in its info is %v for token %d, want a finite float32", e.ID, name, v, e.PromptLen+i)
	}
	return trained, true, nil
}
