// Package machines divides machines and their GPUs among groups of processes. `trinity check` and the
// launchers divide by it, so a plan that passes the check is one that starts.
package machines

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
)

// Pool is machines that groups share.
type Pool struct {
	All    []Machine
	Spread bool // the nodes of a group are machines that differ

	mu     sync.Mutex
	groups map[string][]Share
}

// Machine is a machine with the names of its GPUs.
type Machine struct {
	Name string
	GPUs []string
}

// Equal returns machines that have so many GPUs each, which are called by their numbers.
func Equal(names []string, gpus int) (all []Machine) {
	var numbers []string
	for i := range gpus {
		numbers = append(numbers, strconv.Itoa(i))
	}
	for _, name := range names {
		all = append(all, Machine{name, numbers})
	}
	return all
}

// Share is what a node of a group has.
type Share struct {
	Machine int // its index
	GPUs    []string
}

// Take gives each node of a group a machine and GPUs: GPUs that no other group has, or those of the
// group beside it that no third group has.
func (p *Pool) Take(g trinity.ProcessGroup) ([]Share, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Spread && g.Nodes > len(p.All) {
		return nil, fmt.Errorf("%s needs %d machines, and there are %d: %s", g.Name, g.Nodes, len(p.All), p.names())
	}
	var taken []Share
	for range g.Nodes {
		s, ok := p.next(g, taken)
		if !ok {
			return nil, fmt.Errorf("%s needs %d GPUs on each of %d machines, and that many are not free on %s: lower cluster.gpu_per_node",
				g.Name, g.GPUs, g.Nodes, p.names())
		}
		taken = append(taken, s)
	}
	if p.groups == nil {
		p.groups = map[string][]Share{}
	}
	p.groups[g.Name] = taken
	return taken, nil
}

// next returns the share of a group's next node: the first machine that has the GPUs or, if none are
// wanted, the one with the fewest groups.
func (p *Pool) next(g trinity.ProcessGroup, taken []Share) (best Share, ok bool) {
	fewest := 0
	for i, at := range p.All {
		if p.Spread && slices.ContainsFunc(taken, func(s Share) bool { return s.Machine == i }) {
			continue
		}
		gpus := p.offered(g, i, at.GPUs, taken)
		switch n := p.groupsOn(i); {
		case len(gpus) < g.GPUs:
		case g.GPUs > 0:
			return Share{i, gpus[:g.GPUs]}, true
		case !ok || n < fewest:
			best, fewest, ok = Share{Machine: i}, n, true
		}
	}
	return best, ok
}

// offered returns the GPUs of a machine that a group may have.
func (p *Pool) offered(g trinity.ProcessGroup, machine int, all []string, taken []Share) (gpus []string) {
	has := func(shares []Share, gpu string) bool {
		return slices.ContainsFunc(shares, func(s Share) bool { return s.Machine == machine && slices.Contains(s.GPUs, gpu) })
	}
	for _, gpu := range all {
		users := 0
		for _, shares := range p.groups {
			if has(shares, gpu) {
				users++
			}
		}
		if has(p.groups[g.Beside], gpu) {
			users--
		} else if g.Beside != "" {
			continue
		}
		if users == 0 && !has(taken, gpu) {
			gpus = append(gpus, gpu)
		}
	}
	return gpus
}

func (p *Pool) groupsOn(machine int) (n int) {
	for _, shares := range p.groups {
		if slices.ContainsFunc(shares, func(s Share) bool { return s.Machine == machine }) {
			n++
		}
	}
	return n
}

func (p *Pool) names() string {
	var names []string
	for _, at := range p.All {
		names = append(names, fmt.Sprintf("%s (%d GPUs)", at.Name, len(at.GPUs)))
	}
	return strings.Join(names, ", ")
}

// Release takes back what a group has.
func (p *Pool) Release(group string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.groups, group)
}
