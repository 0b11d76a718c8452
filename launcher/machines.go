package launcher

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
)

// machines divides machines and their GPUs among groups.
type machines struct {
	all    []machine
	spread bool // the nodes of a group are machines that differ

	mu     sync.Mutex
	groups map[string][]share
}

// machine is a machine with the names of its GPUs.
type machine struct {
	name string
	gpus []string
}

// share is what a node of a group has.
type share struct {
	machine int
	gpus    []string
}

// take gives each node of a group a machine and GPUs: GPUs that no other group has, or those of the
// group beside it that have the fewest groups.
func (m *machines) take(g trinity.ProcessGroup) ([]share, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spread && g.Nodes > len(m.all) {
		return nil, fmt.Errorf("%s needs %d machines, and there are %d: %s", g.Name, g.Nodes, len(m.all), m.names())
	}
	var taken []share
	for range g.Nodes {
		s, ok := m.next(g, taken)
		if !ok {
			return nil, fmt.Errorf("%s needs %d GPUs on each of %d machines, and that many are not free on %s: lower cluster.gpu_per_node",
				g.Name, g.GPUs, g.Nodes, m.names())
		}
		taken = append(taken, s)
	}
	if m.groups == nil {
		m.groups = map[string][]share{}
	}
	m.groups[g.Name] = taken
	return taken, nil
}

// next returns the share of a group's next node: the first machine that has the GPUs or, if none are
// wanted, the one with the fewest groups.
func (m *machines) next(g trinity.ProcessGroup, taken []share) (best share, ok bool) {
	fewest := 0
	for i, at := range m.all {
		if m.spread && slices.ContainsFunc(taken, func(s share) bool { return s.machine == i }) {
			continue
		}
		gpus := m.offered(g, i, at.gpus, taken)
		switch n := m.groupsOn(i); {
		case len(gpus) < g.GPUs:
		case g.GPUs > 0:
			return share{i, slices.Sorted(slices.Values(gpus[:g.GPUs]))}, true
		case !ok || n < fewest:
			best, fewest, ok = share{machine: i}, n, true
		}
	}
	return best, ok
}

// offered returns the GPUs of a machine that a group may have, those with the fewest groups first.
func (m *machines) offered(g trinity.ProcessGroup, at int, all []string, taken []share) (gpus []string) {
	has := func(shares []share, gpu string) bool {
		return slices.ContainsFunc(shares, func(s share) bool { return s.machine == at && slices.Contains(s.gpus, gpu) })
	}
	users := map[string]int{}
	for _, gpu := range all {
		for _, shares := range m.groups {
			if has(shares, gpu) {
				users[gpu]++
			}
		}
		may := users[gpu] == 0
		if g.Beside != "" {
			may = has(m.groups[g.Beside], gpu)
		}
		if may && !has(taken, gpu) {
			gpus = append(gpus, gpu)
		}
	}
	slices.SortStableFunc(gpus, func(a, b string) int { return users[a] - users[b] })
	return gpus
}

func (m *machines) groupsOn(at int) (n int) {
	for _, shares := range m.groups {
		if slices.ContainsFunc(shares, func(s share) bool { return s.machine == at }) {
			n++
		}
	}
	return n
}

func (m *machines) names() string {
	var names []string
	for _, at := range m.all {
		names = append(names, fmt.Sprintf("%s (%d GPUs)", at.name, len(at.gpus)))
	}
	return strings.Join(names, ", ")
}

// release takes back what a group has.
func (m *machines) release(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.groups, group)
}
