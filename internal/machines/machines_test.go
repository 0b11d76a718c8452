package machines

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Groups get GPUs of their own, or those of the group beside them that no third group has.
func TestGroupsShareMachines(t *testing.T) {
	type groups []trinity.ProcessGroup
	four := []string{"0", "1", "2", "3"}
	for _, c := range []struct {
		name   string
		all    []Machine
		spread bool
		groups groups
		want   string // machine:GPUs of each node, groups with '|' between them, or an error
	}{
		{"first machine with enough", []Machine{{"a", four}, {"b", four}}, true,
			groups{{Name: "t", Nodes: 1, GPUs: 3}, {Name: "s", Nodes: 1, GPUs: 2}, {Name: "u", Nodes: 1, GPUs: 1}}, "0:0,1,2|1:0,1|0:3"},
		{"nodes differ", []Machine{{"a", four}, {"b", four}}, true, groups{{Name: "t", Nodes: 2, GPUs: 2}}, "0:0,1 1:0,1"},
		{"nodes of one machine", []Machine{{"a", four}}, false, groups{{Name: "t", Nodes: 2, GPUs: 2}}, "0:0,1 0:2,3"},
		{"beside, each with others", []Machine{{"a", four}}, false,
			groups{{Name: "t", Nodes: 1, GPUs: 4}, {Name: "s", Nodes: 1, GPUs: 2, Beside: "t"}, {Name: "u", Nodes: 1, GPUs: 2, Beside: "t"}},
			"0:0,1,2,3|0:0,1|0:2,3"},
		{"beside, on the next machine", []Machine{{"a", four}, {"b", four}}, true,
			groups{{Name: "t", Nodes: 2, GPUs: 4}, {Name: "s", Nodes: 1, GPUs: 3, Beside: "t"}, {Name: "u", Nodes: 1, GPUs: 3, Beside: "t"}},
			"0:0,1,2,3 1:0,1,2,3|0:0,1,2|1:0,1,2"},
		{"beside, where two have none", []Machine{{"a", four}}, false,
			groups{{Name: "t", Nodes: 1, GPUs: 2}, {Name: "s", Nodes: 1, GPUs: 2, Beside: "t"}, {Name: "u", Nodes: 1, GPUs: 1, Beside: "t"}},
			"that many are not free on a (4 GPUs)"},
		{"without GPUs, the fewest groups", []Machine{{"a", nil}, {"b", nil}}, true,
			groups{{Name: "t", Nodes: 1}, {Name: "s", Nodes: 1}, {Name: "u", Nodes: 2}}, "0:|1:|0: 1:"},
		{"too few GPUs", []Machine{{"a", four}}, false, groups{{Name: "t", Nodes: 1, GPUs: 5}}, "that many are not free on a (4 GPUs)"},
		{"too few machines", []Machine{{"a", nil}}, true, groups{{Name: "t", Nodes: 2}}, "t needs 2 machines, and there are 1: a (0 GPUs)"},
	} {
		m := Pool{All: c.all, Spread: c.spread}
		var got []string
		for _, g := range c.groups {
			shares, err := m.Take(g)
			var nodes []string
			for _, s := range shares {
				nodes = append(nodes, fmt.Sprint(s.Machine, ":", strings.Join(s.GPUs, ",")))
			}
			if err != nil {
				nodes = append(nodes, err.Error())
			}
			got = append(got, strings.Join(nodes, " "))
		}
		if text := strings.Join(got, "|"); text != c.want && (!strings.Contains(c.want, " GPUs)") || !strings.Contains(text, c.want)) {
			t.Errorf("%s: got %s, want %s", c.name, text, c.want)
		}
		for _, g := range c.groups {
			m.Release(g.Name)
		}
		if len(m.groups) > 0 {
			t.Errorf("%s: %v is not released", c.name, m.groups)
		}
	}
}
