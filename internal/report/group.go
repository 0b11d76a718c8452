package report

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/rundir"
)

// group is the runs of a page whose settings differ in their names and seeds alone. The page draws
// the mean of each group.
type group struct {
	Name     string // the shortest that no other group of the page has
	Full     string // how the names of its runs begin
	Runs     []*run
	settings map[string]string
	apart    []Apart // with its own values alone
}

// groups returns the groups of runs, in the order of their first runs. alone makes each run one.
func groups(runs []*run, alone bool) []*group {
	var out []*group
	for _, r := range runs {
		settings := r.settings(alone)
		i := slices.IndexFunc(out, func(g *group) bool { return !alone && maps.Equal(g.settings, settings) })
		if i < 0 {
			i = len(out)
			out = append(out, &group{settings: settings})
		}
		out[i].Runs = append(out[i].Runs, r)
	}
	count := map[string]int{}
	for _, g := range out {
		g.Full = g.shared()
		count[g.Full]++
	}
	all := make([]subject, len(out))
	for i, g := range out {
		if count[g.Full] > 1 {
			g.Full = g.names()
		}
		all[i] = g.Runs[0].subject(g.Full)
		if all[i].settings != nil {
			all[i].settings = g.settings
		}
	}
	n := nameAll(all)
	for i, g := range out {
		for k, key := range n.Keys {
			g.apart = append(g.apart, Apart{Key: key, Head: n.Heads[k], Values: []string{n.Values[i][k]}})
		}
		if g.Name = n.Labels[i]; len(out) == 1 {
			g.Name = g.Full
		}
	}
	return out
}

// Apart is a setting that tells groups apart.
type Apart struct {
	Key    string   `json:"key"`
	Head   string   `json:"head"`   // the key in few characters
	Values []string `json:"values"` // by group, in few characters
}

// apart returns the settings that tell groups apart, in the order of the groups.
func apart(groups []*group) (all []Apart) {
	for k := range groups[0].apart {
		of := Apart{Key: groups[0].apart[k].Key, Head: groups[0].apart[k].Head}
		for _, g := range groups {
			of.Values = append(of.Values, g.apart[k].Values...)
		}
		all = append(all, of)
	}
	return all
}

// Kept is the settings that a run, or a stage of one, has kept.
type Kept struct {
	Name     string         // that the group gives
	Run      string         // its name when it was recorded
	Stage    string         // "" for a run without stages
	Settings map[string]any // by dotted key
	Varied   []string       // the keys that its sweep varies; nil for a run of none
}

// run is the run as a page has it.
func (k *Kept) run() *run {
	return &run{Name: k.Name, sweep: rundir.Sweep{Varied: k.Varied}, stages: []stage{{name: k.Stage, run: k.Run, settings: k.Settings}}}
}

// Group names the runs of a group.
type Group struct {
	Name string   `json:"name"`
	Runs []string `json:"runs"`
}

// Groups returns the groups of runs, in the order of their first runs.
func Groups(kept []Kept) []Group {
	runs := make([]*run, len(kept))
	for i, k := range kept {
		runs[i] = k.run()
	}
	var out []Group
	for _, g := range groups(runs, false) {
		of := Group{Name: g.Name}
		for _, r := range g.Runs {
			of.Runs = append(of.Runs, r.Name)
		}
		out = append(out, of)
	}
	return out
}

// settings returns the settings of all stages by stage and key, without the name, without seeds unless they
// are wanted, and without secrets. Paths lack the run's directory, because a stage reads the
// checkpoints of the one before.
func (r *run) settings(seeds bool) map[string]string {
	out := map[string]string{}
	for _, s := range r.stages {
		dir := path.Join(s.setting("project"), s.setting("group"), s.run) + "/"
		for key, value := range s.settings {
			if key == "name" || isSeed(key) && !seeds {
				continue
			}
			text := strings.ReplaceAll(fmt.Sprint(config.Mask(key, value)), dir, "…/")
			out[strings.TrimPrefix(s.name+": "+key, ": ")] = text
		}
	}
	return out
}

// seed returns the run's seed; "" if its settings are unknown.
func (r *run) seed() string {
	if r.stages[0].settings == nil {
		return ""
	}
	return r.stages[0].setting("seed")
}

// setting returns the value of a key as text, or its default.
func (s *stage) setting(key string) string {
	if value, ok := s.settings[key]; ok {
		return fmt.Sprint(value)
	}
	return defaults()[key]
}

// names returns the names of the group's runs.
func (g *group) names() string {
	var names []string
	for _, r := range g.Runs {
		names = append(names, r.Name)
	}
	return strings.Join(names, ", ")
}

// seedSuffix is the end of the common beginning of names such as lr_seed41 and lr_seed42.
var seedSuffix = regexp.MustCompile(`[_\-. (]*(seed[0-9]*)?[_\-. (]*$`)

// shared returns how the names of the group's runs begin, without _seed; without a common beginning
// it returns all names.
func (g *group) shared() string {
	if len(g.Runs) == 1 {
		return g.Runs[0].Name
	}
	begin := g.Runs[0].Name
	for _, r := range g.Runs {
		for !strings.HasPrefix(r.Name, begin) {
			begin = begin[:len(begin)-1]
		}
	}
	begin = seedSuffix.ReplaceAllString(strings.ToValidUTF8(begin, ""), "")
	if begin == "" {
		return g.names()
	}
	return begin
}

// Label returns the group's name with the number of its runs.
func (g *group) Label() string {
	if len(g.Runs) == 1 {
		return g.Name
	}
	return fmt.Sprintf("%s (%d runs)", g.Name, len(g.Runs))
}

// stages returns the stages of a name, of the runs that have one.
func (g *group) stages(name string) []*stage {
	var out []*stage
	for _, r := range g.Runs {
		for i := range r.stages {
			if r.stages[i].name == name {
				out = append(out, &r.stages[i])
			}
		}
	}
	return out
}

// difference is a setting that is not the same in all groups.
type difference struct {
	Key    string   `json:"key"`
	Values []string `json:"values"` // by group
}

// differences returns the settings in which the groups differ.
func differences(groups []*group) []difference {
	keys := map[string]bool{}
	for _, g := range groups {
		for key := range g.settings {
			keys[key] = true
		}
	}
	var out []difference
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		d, values := difference{Key: key}, map[string]bool{}
		for _, g := range groups {
			value, ok := g.settings[key]
			if !ok {
				value = "(default)"
			}
			d.Values, values[value] = append(d.Values, value), true
		}
		if len(values) > 1 {
			out = append(out, d)
		}
	}
	return out
}
