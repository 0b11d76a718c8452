package jinja

import "time"

// runtime performs Python's operations on values within the budget of one render. Filters, tests
// and functions get the runtime alone; only the [evaluator] knows the template's tree.
type runtime struct {
	budget
	clock func() time.Time
}
