package jinja

import "time"

// budget counts what one render spends of its [Limits].
type budget struct {
	limits Limits
	steps  int
	depth  int
	end    time.Time // when the time of the render is over
}

// stepsPerLook is how many steps pass until a render looks at the clock.
const stepsPerLook = 1 << 10

func newBudget(limits Limits) budget { return budget{limits: limits, end: time.Now().Add(limits.Time)} }

// spend counts one step and steps more.
func (b *budget) spend(steps int) {
	before := b.steps
	b.steps += steps + 1
	if b.steps > b.limits.Steps {
		panic(failf(Limit, "the render takes more than %d steps", b.limits.Steps))
	}
	if b.steps/stepsPerLook != before/stepsPerLook && time.Now().After(b.end) {
		panic(failf(Limit, "the render takes more than %v", b.limits.Time))
	}
}

// read spends steps on the texts and lists that a filter, a test or a function may read whole.
func (b *budget) read(values ...Value) {
	for _, v := range values {
		if s, ok := textOf(v); ok {
			b.spend(len(s) / 16)
		} else if l, ok := v.(*List); ok {
			b.spend(len(l.Items) / 16)
		}
	}
}

// spell spends steps on a text of n bytes that is read or built letter by letter.
func (b *budget) spell(n int) { b.spend(n / 8) }

// key spends steps on finding a key in a mapping, or on adding it.
func (b *budget) key(v Value) {
	b.spend(1)
	if t, ok := v.(*Tuple); ok { // text stands for it, which nests as the tuple does
		for _, item := range t.Items {
			b.spend(4)
			b.key(item)
		}
	} else if s, ok := textOf(v); ok {
		b.spell(len(s))
	}
}

// changeCase spends steps on changing the case of a text, which titles and swapcase do letter by letter.
func (b *budget) changeCase(id, s string) {
	b.room(3 * len(s))
	if id == "title" || id == "swapcase" {
		b.spend(2 * len(s))
	}
	b.spell(len(s) + 32)
}

// deeper counts one nested call; the caller defers the returned function.
func (b *budget) deeper() (leave func()) {
	b.depth++
	if b.depth > b.limits.Depth {
		panic(failf(Limit, "calls nest deeper than %d", b.limits.Depth))
	}
	return func() { b.depth-- }
}

// room checks that a text of n bytes or a list of n items is within the limit, and spends steps
// on building it.
func (b *budget) room(n int) {
	if n < 0 || n > b.limits.Size {
		panic(tooLarge(b.limits.Size))
	}
	b.spend(n / 64)
}

func tooLarge(limit int) error { return failf(Limit, "a text or list exceeds %d", limit) }
