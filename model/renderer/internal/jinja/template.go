package jinja

import (
	"slices"
	"time"
)

// Limits bound one render, because a template is untrusted input.
type Limits struct {
	Steps int // nodes evaluated, items visited, 64 bytes of text copied, and 8 bytes of text read letter by letter
	Size  int // bytes of the output and of any text, items of any list
	Depth int // nested calls of macros and recursive loops
	Time  time.Duration
}

// DefaultLimits allow far more than any chat template needs: a render that reaches them runs for one
// or two seconds. The time is for what the steps count too low, and for slow machines.
var DefaultLimits = Limits{Steps: 10_000_000, Size: 64 << 20, Depth: 200, Time: 10 * time.Second}

// Template is a parsed template. It is safe for concurrent use once its fields are set.
type Template struct {
	Limits Limits           // DefaultLimits after Parse
	Clock  func() time.Time // what strftime_now reads; time.Now after Parse

	name string
	body []stmt
	root *scope
}

// maxSource bounds the source of a template, in bytes, because it takes many times its size of memory to
// parse. Those of real models have fewer than 40,000.
const maxSource = 256 << 10

// Parse parses a template; name identifies it in errors. Errors are of type [*Error].
func Parse(name, src string) (t *Template, err error) {
	defer report(&err, name)
	if len(src) > maxSource {
		panic(at(failf(Limit, "the template has %d bytes; at most %d are supported", len(src), maxSource), 1))
	}
	body := parse(src)
	return &Template{Limits: DefaultLimits, Clock: time.Now, name: name, body: body, root: resolve(body)}, nil
}

// Output is a rendered template.
type Output struct {
	Text string
	// Generations are the byte ranges of Text, [begin, end), that {% generation %} blocks wrote, in
	// order.
	Generations [][2]int
	// Untracked is true if a generation block ran inside a macro or a captured block, so that its
	// place in Text is unknown and Generations lacks it.
	Untracked bool
}

// Render runs the template with variables, which [FromGo] must be able to convert. Errors are of
// type [*Error].
func (t *Template) Render(variables map[string]any) (_ Output, err error) {
	defer report(&err, t.name)
	ev := &evaluator{
		runtime:   runtime{budget: newBudget(t.Limits), clock: t.Clock},
		variables: make(map[string]Value, len(variables)), out: &limitedText{limit: t.Limits.Size},
	}
	defer addLine(func() int { return ev.line })
	for id, v := range variables {
		if ev.variables[id], err = FromGo(v); err != nil {
			panic(failf(Type, "variable %s: %v", id, err))
		}
	}
	ev.exec(t.body, ev.enter(t.root, nil))
	return Output{Text: ev.out.String(), Generations: ev.generations, Untracked: ev.untracked}, nil
}

// HasGenerations reports whether the template marks what the assistant wrote with {% generation %}.
func (t *Template) HasGenerations() bool { return hasGenerations(t.body) }

func hasGenerations(body []stmt) bool {
	return slices.ContainsFunc(body, func(node stmt) bool {
		n, ok := node.(*callBlock)
		return ok && n.generation || slices.ContainsFunc(parts(node), func(p part) bool { return hasGenerations(p.block) })
	})
}

// Names reports whether an expression of the template has the text as the name of an attribute or as a
// constant, which m.key, m['key'], m.get('key') and 'key' in m have.
func (t *Template) Names(text string) bool {
	found := false
	expressions(t.body, func(e expr) {
		switch n := e.(type) {
		case *attribute:
			found = found || n.name == text
		case *constant:
			found = found || n.value == text
		}
	})
	return found
}
