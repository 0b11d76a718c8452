package jinja

// budget counts what one render spends of its [Limits].
type budget struct {
	limits Limits
	steps  int
	depth  int
}

// spend counts one step and steps more.
func (b *budget) spend(steps int) {
	b.steps += steps + 1
	if b.steps > b.limits.Steps {
		panic(failf(Limit, "the render takes more than %d steps", b.limits.Steps))
	}
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
