package explorer

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trinity-go/trinity"
)

// Mix chooses each step's tasks from one or several tasksets. An epoch has as many tasks as the tasksets have rows together, N. Of these each
// taskset gives N·weight/Σ weights, to the nearest whole number, in an order drawn anew for each epoch. So a step has tasks of several
// tasksets, and every epoch has exact shares. Which rows a taskset gives, its own selector says.
//
// The order follows from the number of the epoch alone: task t of epoch e is of taskset i with probability left_i / Σ left, drawn by PCG seeded
// with (e, t), which makes all orders of the epoch equally likely.
//
// Unlike Trinity-RFT: weight may give other shares than those of the numbers of rows, because a small taskset can matter as much as a large one.
type Mix struct {
	sets  []*Taskset
	share []int // [sets] tasks of an epoch
	left  []int // [sets] tasks that this epoch still has to give
	epoch int64
}

// NewMix mixes tasksets, one at least. Their names differ.
func NewMix(sets ...*Taskset) (*Mix, error) {
	m := &Mix{sets: sets}
	rows, sum := 0, 0.
	weights := make([]float64, len(sets))
	for i, s := range sets {
		if weights[i] = s.Weight; weights[i] == 0 {
			weights[i] = float64(s.Data.Len())
		}
		rows, sum = rows+s.Data.Len(), sum+weights[i]
	}
	if len(sets) == 0 || rows == 0 {
		return nil, errors.New("there is nothing to explore: no taskset has a row")
	}
	m.share = apportion(rows, weights, sum)
	for i, n := range m.share {
		if n == 0 {
			return nil, fmt.Errorf("taskset %s: of the %d tasks of an epoch its weight %v gives it none: raise `weight`, or leave the taskset out", sets[i].Template.Taskset, rows, weights[i])
		}
	}
	m.left = slices.Clone(m.share)
	return m, nil
}

// apportion divides n in proportion to weights, which add up to sum: rounded down, and what is left to those that lost most, the first among equals.
func apportion(n int, weights []float64, sum float64) []int {
	parts, lost := make([]int, len(weights)), make([]float64, len(weights))
	rest := n
	for i, w := range weights {
		exact := float64(n) * (w / sum)
		parts[i] = int(math.Floor(exact))
		lost[i] = exact - float64(parts[i])
		rest -= parts[i]
	}
	for ; rest > 0; rest-- {
		most := 0
		for i := range lost {
			if lost[i] > lost[most] {
				most = i
			}
		}
		parts[most]++
		lost[most]--
	}
	return parts
}

// Epoch is the number of tasks of an epoch.
func (m *Mix) Epoch() int { return sum(m.share) }

func sum(counts []int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// chosen is rows of a taskset that a step runs.
type chosen struct {
	Taskset string `json:"taskset"`
	Rows    []int  `json:"rows"`
}

// choose takes the n tasks of the next step, those of a taskset side by side, the one that was drawn first before the others.
func (m *Mix) choose(n int) ([]chosen, error) {
	counts := make([]int, len(m.sets))
	var order []int
	for range n {
		i := m.draw()
		if counts[i]++; counts[i] == 1 {
			order = append(order, i)
		}
	}
	var all []chosen
	for _, i := range order {
		of, err := m.sets[i].choose(counts[i])
		if err != nil {
			return nil, err
		}
		all = append(all, of)
	}
	return all, nil
}

// tasks makes the tasks of what was chosen.
func (m *Mix) tasks(all []chosen) ([]*trinity.Task, error) {
	var tasks []*trinity.Task
	for _, c := range all {
		of, err := m.set(c.Taskset).tasks(c.Rows)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, of...)
	}
	return tasks, nil
}

// set is the taskset of a name, nil if there is none.
func (m *Mix) set(name string) *Taskset {
	for _, s := range m.sets {
		if s.Template.Taskset == name {
			return s
		}
	}
	return nil
}

// draw takes the taskset of the next task.
func (m *Mix) draw() int {
	left := sum(m.left)
	if left == 0 {
		m.epoch++
		copy(m.left, m.share)
		left = sum(m.left)
	}
	at := rand.New(rand.NewPCG(uint64(m.epoch), uint64(m.Epoch()-left))).IntN(left)
	i := 0
	for ; at >= m.left[i]; i++ {
		at -= m.left[i]
	}
	m.left[i]--
	return i
}

// feedback tells each taskset's selector the mean rewards of its rows.
func (m *Mix) feedback(outcomes []*outcome) {
	for _, s := range m.sets {
		s.Selector.Feedback(feedback(ofTaskset(outcomes, s.Template.Taskset)))
	}
}

// metrics are those of the step, and with several tasksets those of each under its name.
func (m *Mix) metrics(outcomes []*outcome) trinity.Metrics {
	all := rolloutMetrics(outcomes)
	if len(m.sets) == 1 {
		return all
	}
	for _, s := range m.sets {
		if of := ofTaskset(outcomes, s.Template.Taskset); len(of) > 0 {
			all.Merge(s.Template.Taskset+"/", rolloutMetrics(of))
		}
	}
	return all
}

func ofTaskset(outcomes []*outcome, name string) []*outcome {
	var of []*outcome
	for _, o := range outcomes {
		if o.task.Taskset == name {
			of = append(of, o)
		}
	}
	return of
}
