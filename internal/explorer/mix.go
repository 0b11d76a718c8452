package explorer

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trinity-go/trinity"
)

// Mix chooses each step's tasks from one or several tasksets. An epoch has N tasks, the number of
// rows of all tasksets. Each taskset gives N·weight/Σ weights of them, to the nearest whole number,
// in an order drawn anew for each epoch. So a step has tasks of several tasksets, and every epoch
// has exact shares. The selector of a taskset chooses its rows. Where tasks are packed, all this is
// about packs in place of tasks, so that every pack of a step is full.
//
// The order depends on the epoch's number alone: task t of epoch e comes from taskset i with
// probability left_i / Σ left, drawn by PCG seeded with (e, t). All orders of an epoch are equally
// likely.
//
// A taskset whose rows come from a queue ([Arrivals]) is the only one, and its epochs mean nothing.
//
// Unlike Trinity-RFT: weights may give shares other than the numbers of rows, because a small
// taskset can matter as much as a large one.
type Mix struct {
	sets  []*Taskset
	unit  int   // tasks of a pack, the same in all tasksets; 1 without packs
	share []int // [sets] packs per epoch
	left  []int // [sets] remaining packs of this epoch
	epoch int64
	queue *Arrivals // nil if the tasksets have all their rows
}

// NewMix mixes one or more tasksets with different names and packs of equal size. It returns an
// error if there are no rows, or if a weight is so small that its taskset gets no task.
func NewMix(sets ...*Taskset) (*Mix, error) {
	m := &Mix{sets: sets, unit: 1}
	if len(sets) == 1 {
		if queue, ok := sets[0].Selector.(*Arrivals); ok {
			m.queue, m.unit, m.share, m.left = queue, sets[0].Packing.unit(), []int{0}, []int{0}
			return m, nil
		}
	}
	rows, sum := 0, 0.
	weights := make([]float64, len(sets))
	for i, s := range sets {
		if weights[i] = s.Weight; weights[i] == 0 {
			weights[i] = float64(s.Data.Len())
		}
		rows, sum = rows+s.Data.Len(), sum+weights[i]
		m.unit = s.Packing.unit()
	}
	if len(sets) == 0 || rows == 0 {
		return nil, errors.New("there is nothing to explore: no taskset has a row")
	}
	if rows < m.unit {
		return nil, fmt.Errorf("there is nothing to explore: the tasksets have %d rows, and a pack has %d", rows, m.unit)
	}
	m.share = apportion(rows/m.unit, weights, sum)
	for i, n := range m.share {
		if n == 0 {
			return nil, fmt.Errorf("taskset %s: weight %v gives it none of the %d tasks of an epoch: raise `weight`, or leave the taskset out",
				sets[i].Template.Taskset, weights[i], rows)
		}
	}
	m.left = slices.Clone(m.share)
	return m, nil
}

// apportion divides n in proportion to weights, whose sum is sum. It rounds down and gives the rest
// to those that lost most; the first wins a tie.
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

// Epoch returns the number of tasks per epoch.
func (m *Mix) Epoch() int { return sum(m.share) * m.unit }

func sum(counts []int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// tasksetRows is the rows that a step runs of one taskset.
type tasksetRows struct {
	Taskset string `json:"taskset"`
	Rows    []int  `json:"rows"`
}

// choose takes the n tasks of the next step; n is a multiple of the size of a pack. Tasks of one
// taskset stand together, and the taskset that was drawn first comes first. A queue that has ended
// may give fewer.
func (m *Mix) choose(n int) ([]tasksetRows, error) {
	if m.queue != nil {
		of, err := m.sets[0].choose(n)
		return []tasksetRows{of}, err
	}
	counts := make([]int, len(m.sets))
	var order []int
	for range n / m.unit {
		i := m.draw()
		if counts[i]++; counts[i] == 1 {
			order = append(order, i)
		}
	}
	var all []tasksetRows
	for _, i := range order {
		of, err := m.sets[i].choose(counts[i] * m.unit)
		if err != nil {
			return nil, err
		}
		all = append(all, of)
	}
	return all, nil
}

// jobs returns the jobs of the chosen rows.
func (m *Mix) jobs(all []tasksetRows) ([]job, error) {
	var jobs []job
	for _, c := range all {
		of, err := m.set(c.Taskset).jobs(c.Rows)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, of...)
	}
	return jobs, nil
}

// set returns the taskset of a name, nil if there is none.
func (m *Mix) set(name string) *Taskset {
	for _, s := range m.sets {
		if s.Template.Taskset == name {
			return s
		}
	}
	return nil
}

// draw returns the index of the taskset that gives the next pack or task.
func (m *Mix) draw() int {
	left := sum(m.left)
	if left == 0 {
		m.epoch++
		copy(m.left, m.share)
		left = sum(m.left)
	}
	at := rand.New(rand.NewPCG(uint64(m.epoch), uint64(sum(m.share)-left))).IntN(left)
	i := 0
	for ; at >= m.left[i]; i++ {
		at -= m.left[i]
	}
	m.left[i]--
	return i
}

// feedback reports the mean rewards of rows to the selector of their taskset.
func (m *Mix) feedback(outcomes []*outcome) {
	for _, s := range m.sets {
		s.Selector.Feedback(feedback(ofTaskset(outcomes, s.Template.Taskset)))
	}
}

// metrics returns the metrics of a step and, if there are several tasksets, those of each taskset
// under its name.
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

// ofTaskset returns the outcomes of one taskset's tasks.
func ofTaskset(outcomes []*outcome, name string) []*outcome {
	var of []*outcome
	for _, o := range outcomes {
		if o.task.Taskset == name {
			of = append(of, o)
		}
	}
	return of
}
