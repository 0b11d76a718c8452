package constraint

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"unicode"

	"github.com/trinity-go/trinity"
)

// Form says what replies must look like. At least one of its first four fields is set; a reply has the form
// of one of those that are.
type Form struct {
	Schema json.RawMessage // JSON that this schema takes
	Regex  string          // a text that the whole expression matches
	Choice []string        // one of these texts
	Calls  *Calls          // calls of tools

	// Opens says that the reply begins a text, of whose first token a decoder of SentencePiece drops the
	// space.
	Opens bool
	// Thinking may come before the text.
	Thinking Thinking
}

// Thinking is how replies mark what the model thinks. Its text has no form.
type Thinking struct {
	Open, Close string // the marks; "" if replies do not think
	Opened      bool   // the prompt has the first mark, so each reply thinks
}

// Calls are calls of tools in the format of a model.
type Calls struct {
	Format  string          // name of the format, as package toolcall has it
	Pattern string          // of the format plain
	Tools   json.RawMessage // the tools that may be called, in the form of chats
	Name    string          // the only tool that may be called; "" for any of them
	Several bool            // there may be more than one call
	Maybe   bool            // the model may also write another text; a format that cannot be written is left out then
}

// Compile returns the constraint at the beginning of a reply. Forms that were compiled before are kept.
// An error says what in the form is wrong or not supported, and where.
func (v *Vocabulary) Compile(form Form) (trinity.Constraint, error) {
	key, err := json.Marshal(form)
	if err != nil { // the schema is no JSON
		_, err := v.compile(form)
		return nil, err
	}
	g := v.cache.get(string(key))
	if g == nil {
		if g, err = v.compile(form); err != nil {
			return nil, err
		}
		v.cache.put(string(key), g)
	}
	v.cache.trim(maxKept)
	return &cursor{g: g, state: g.start}, nil
}

// compile builds the grammar of a form.
func (v *Vocabulary) compile(form Form) (*grammar, error) {
	b := v.builder()
	root, err := b.form(form)
	switch {
	case err != nil:
		return nil, err
	case b.err != nil:
		return nil, b.err
	case root == none:
		return nil, errors.New("no text fits the constraint")
	}
	root = b.thinking(form.Thinking, root)
	if form.Opens && v.strips {
		root = b.alt(root, b.cat(b.literal(" "), root))
	}
	m := newMasks(b.arena, v)
	if in := v.base.text; in != nil {
		m.inners[b.begun] = in
	}
	m.begin(root)
	b.arena.work = maskWork
	return &grammar{masks: m, start: root}, b.err
}

// form matches the texts of a form.
func (b *builder) form(form Form) (int32, error) {
	root := none
	for _, one := range []struct {
		asked bool
		build func() (int32, error)
	}{
		{form.Schema != nil, func() (int32, error) {
			x, err := b.schema(form.Schema)
			return b.cat(b.space, x), err
		}},
		{form.Choice != nil, func() (int32, error) { return b.choice(form.Choice) }},
		{form.Calls != nil && !(form.Calls.Maybe && !b.writes(form.Calls)), func() (int32, error) { return b.calls(form.Calls) }},
		{form.Regex != "", func() (int32, error) { return b.wholeRegex(form.Regex) }},
	} {
		if !one.asked {
			continue
		}
		x, err := one.build()
		if err != nil {
			return none, err
		}
		root = b.alt(root, x)
	}
	return root, nil
}

// thinking puts what the model may think before a text.
func (b *builder) thinking(t Thinking, text int32) int32 {
	if t.Close == "" {
		return text
	}
	any := b.rep(b.runes(0, unicode.MaxRune), 0, unlimited)
	thought := b.and(any, b.lacks(b.literal(t.Close)))
	after := b.seq(b.unit(thought, unitPlain), b.tokens(t.Close), b.unit(b.rep(b.literal("\n"), 0, 2), unitPlain), text)
	if t.Opened {
		return after
	}
	return b.alt(text, b.cat(b.tokens(t.Open), after))
}

// grammar is a compiled form with its masks.
type grammar struct {
	mu     sync.Mutex // guards all below
	masks  *masks
	start  int32
	failed bool // a reply was too much for it
}

// cursor is a place in a text of a grammar. It implements [trinity.Constraint].
type cursor struct {
	g     *grammar
	state int32
	ended bool
}

// took returns the error of the last mask or token, and clears it. The error fails one reply. Other replies of
// the form continue as long as they reach states that are known.
func (g *grammar) took() error {
	err := g.masks.g.err
	if err != nil {
		g.masks.g.err, g.failed = nil, true
	}
	return err
}

// Mask implements [trinity.Constraint].
func (c *cursor) Mask(bits []uint64) {
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(bits)
	if c.ended {
		return
	}
	if c.state > empty {
		copy(bits, g.masks.mask(c.state))
	}
	if g.took() != nil { // what the mask lacks is not known
		clear(bits)
		return
	}
	if !g.masks.g.nodes[c.state].nullable {
		return
	}
	for _, stop := range g.masks.v.stops {
		if int(stop) < 64*len(bits) {
			bits[stop/64] |= 1 << (stop % 64)
		}
	}
}

// Accept implements [trinity.Constraint].
func (c *cursor) Accept(token int32) error {
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.masks.v
	switch {
	case token < 0 || int(token) >= v.size || c.ended:
		return fmt.Errorf("token %d does not fit the constraint", token)
	case v.isStop(token):
		if !g.masks.g.nodes[c.state].nullable {
			return fmt.Errorf("token %d ends the reply before the constraint does", token)
		}
		c.ended = true
		return nil
	}
	text, state := v.texts[token], c.state
	for i := range len(text) {
		state = g.masks.g.step(state, text[i])
	}
	switch err := g.took(); {
	case err != nil:
		return err
	case text == "" || state == none:
		return fmt.Errorf("token %d, %q, does not fit the constraint", token, text)
	}
	c.state, g.masks.g.work = state, min(max(g.masks.g.work, 0)+tokenWork, maskWork)
	return nil
}

// Fork implements [trinity.Constraint].
func (c *cursor) Fork() trinity.Constraint {
	fork := *c
	return &fork
}
