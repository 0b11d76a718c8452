package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/constraint"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
)

// formed is a schema as clients send them. NUMBER makes one that nobody has compiled.
const formed = `{"type":"array","minItems":1000,"items":{"type":"object","properties":{"nameNUMBER":
{"type":"string","minLength":1,"maxLength":60},
"age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"type":"string"},"maxItems":5},
"kind":{"enum":["person","company","other"]},"note":{"type":"string"},"address":{"type":"object","properties":{"street":{"type":"string"},
"zip":{"type":"string","pattern":"^[0-9]{5}$"}},"required":["street","zip"]}},
"required":["nameNUMBER","age","tags","kind","address"],"additionalProperties":false}}`

// forms compiles schemas for a model.
type forms struct {
	text  *renderer.Renderer
	vocab int
}

func newForms(a *assignment) (*forms, error) {
	cfg, err := model.ReadConfig(a.Model)
	if err != nil {
		return nil, err
	}
	text, err := renderer.Open(a.Model, renderer.Options{})
	return &forms{text, cfg.VocabSize}, err
}

// compile returns a constraint of a schema. Another number is another schema.
func (f *forms) compile(number int) (trinity.Constraint, error) {
	schema := strings.ReplaceAll(formed, "NUMBER", fmt.Sprint(number))
	return f.text.Constrain(constraint.Form{Schema: json.RawMessage(schema)})
}

// masks walks through replies that are drawn from the masks alone.
type masks struct {
	*forms
	bits []uint64
	new  int
}

func newMasks(a *assignment) (task, error) {
	f, err := newForms(a)
	if err != nil {
		return nil, err
	}
	return &masks{f, make([]uint64, (f.vocab+63)/64), a.New}, nil
}

// run returns the milliseconds that a token costs in the first reply of a schema, without compiling it.
func (m *masks) run(number int) (sample, error) {
	c, err := m.compile(number)
	if err != nil {
		return sample{}, err
	}
	r, spent := rand.New(rand.NewPCG(uint64(number), 1)), time.Duration(0)
	for range m.new {
		start := time.Now()
		c.Mask(m.bits)
		spent += time.Since(start)
		token := m.draw(r)
		start = time.Now()
		if err := c.Accept(token); err != nil {
			return sample{}, err
		}
		spent += time.Since(start)
	}
	return sample{Value: spent.Seconds() * 1e3 / float64(m.new)}, nil
}

// draw returns one of the tokens that the mask allows.
func (m *masks) draw(r *rand.Rand) int32 {
	var allowed []int32
	for token := range int32(m.vocab) {
		if m.bits[token/64]>>(token%64)&1 == 1 {
			allowed = append(allowed, token)
		}
	}
	return allowed[r.IntN(len(allowed))]
}

// newMasked is newSampling whose replies have a form: one of a run, which is new.
func newMasked(a *assignment) (task, error) {
	t, err := newSampling(a)
	if err != nil || a.Formless {
		return t, err
	}
	f, err := newForms(a)
	t.(*sampling).form = f.compile
	return t, err
}
