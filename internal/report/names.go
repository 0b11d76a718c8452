package report

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Naming tells the runs of a set apart. It is the one rule by which pages and tables name runs.
type Naming struct {
	Labels []string   // of each run: the shortest that no other one has
	Keys   []string   // the settings that tell the runs apart
	Heads  []string   // of each key: its shortest name
	Values [][]string // by run and key
}

// subject is what is to be named.
type subject struct {
	name     string            // that no other one has
	settings map[string]string // by dotted key, those that differ from the defaults; nil if unknown
	varied   []string          // the keys that its sweep varies; nil for a run of none
}

// Bounds of the names of runs that are not of one sweep.
const (
	mostKeys  = 3  // settings besides seeds
	shortName = 16 // characters of a name that a person has given, and that stays
)

// nameAll names subjects by the settings in which they differ, or by the parts of their names in which they
// differ, if those are shorter. Runs of a sweep have what it varies.
func nameAll(all []subject) Naming {
	n, few := tellApart(all)
	names := stripped(all)
	isWord := func(name string) bool { return name != "" && !strings.Contains("0123456789.+-", name[:1]) }
	unswept := slices.ContainsFunc(all, func(s subject) bool { return s.varied == nil })
	if !few || unswept && slices.IndexFunc(names, func(s string) bool { return !isWord(s) }) < 0 &&
		longest(names) <= max(shortName, longest(n.Labels)) {
		n.Labels = names
	}
	return n
}

// tellApart chooses settings of which each splits runs that those before do not, and all that a sweep varies and in which
// the runs differ: a name without them would lay a difference to the wrong one. ok reports whether they tell all
// runs apart and are few.
func tellApart(all []subject) (n Naming, ok bool) {
	n = Naming{Labels: make([]string, len(all)), Values: make([][]string, len(all))}
	if len(all) < 2 || slices.ContainsFunc(all, func(s subject) bool { return s.settings == nil }) {
		return n, false
	}
	classes := make([]string, len(all)) // equal for runs that nothing tells apart yet
	besides := 0
	for _, key := range candidates(all) {
		next, values := make([]string, len(all)), make([]string, len(all))
		for i, s := range all {
			values[i] = s.value(key)
			next[i] = classes[i] + "\x00" + values[i]
		}
		swept := func(s subject) bool { return slices.Contains(s.varied, key) }
		if distinct(next) == distinct(classes) && !(distinct(values) > 1 && slices.ContainsFunc(all, swept)) {
			continue
		}
		classes, n.Keys = next, append(n.Keys, key)
		if !isSeed(key) && !isVaried(all, key) {
			besides++
		}
	}
	n.Heads = shortKeys(n.Keys)
	for i, s := range all {
		for _, key := range n.Keys {
			n.Values[i] = append(n.Values[i], s.value(key))
		}
	}
	for k, key := range n.Keys {
		isWord := !slices.ContainsFunc(n.Values, func(row []string) bool { return !word.MatchString(row[k]) })
		for i := range all {
			part := n.Values[i][k]
			if !isWord || path.Ext(key) == "" {
				part = n.Heads[k] + " " + part
			}
			n.Labels[i] = strings.TrimPrefix(n.Labels[i]+" · "+part, " · ")
		}
	}
	return n, distinct(n.Labels) == len(all) && besides <= mostKeys
}

// word matches a value that needs no key beside it: no number, no truth value.
var word = regexp.MustCompile(`^[A-Za-z]{3,}[\w.-]*$`)

// unnamed are the sections and keys after which no run is named.
var unnamed = []string{"name", "project", "group", "checkpoint_root_dir", "continue_from_checkpoint", rundir.Monitor, "log"}

// candidates returns the settings in which runs may differ: first those that sweeps vary, then the
// algorithm, the seed last.
func candidates(all []subject) (keys []string) {
	for _, s := range all {
		for key := range s.settings {
			keys = append(keys, key)
		}
	}
	rank := func(key string) int {
		switch {
		case isVaried(all, key):
			return 0
		case strings.HasSuffix(key, "algorithm_type"):
			return 1
		case isSeed(key):
			return 3
		}
		return 2
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), btoi(isSeed(a))*cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return slices.DeleteFunc(slices.Compact(keys), func(key string) bool {
		of, _, _ := strings.Cut(key[strings.LastIndexByte(key, ' ')+1:], ".") // without "stage: "
		return slices.Contains(unnamed, of) || slices.Contains(all[0].varied, "seed") && isSeed(key) && key != "seed"
	})
}

func isSeed(key string) bool { return key == "seed" || strings.HasSuffix(key, ".seed") }

func isVaried(all []subject, key string) bool {
	return slices.ContainsFunc(all, func(s subject) bool { return slices.Contains(s.varied, key) && key != "seed" })
}

func distinct(values []string) int { return len(slices.Compact(slices.Sorted(slices.Values(values)))) }

func longest(texts []string) (most int) {
	for _, text := range texts {
		most = max(most, len([]rune(text)))
	}
	return most
}

// defaults has the defaults of the keys of a configuration.
var defaults = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, k := range config.Keys() {
		all[k.Path] = k.Default
	}
	return all
})

// value returns a setting, or its default, in few characters.
func (s *subject) value(key string) string {
	text, ok := s.settings[key]
	if !ok {
		bare := key[strings.LastIndexByte(key, ' ')+1:] // without "stage: "
		text = cmp.Or(defaults()[bare], "(default)")
	}
	return brief(text)
}

// brief returns a value in few characters: 2e-4 for 0.0002, and of a path its last part.
func brief(text string) string {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		whole := strconv.FormatFloat(v, 'f', -1, 64)
		power := exponent.ReplaceAllString(strconv.FormatFloat(v, 'e', -1, 64), "e$1$2")
		if len(power) < len(whole) {
			return power
		}
		return whole
	}
	text = oneLine(text)
	if strings.Contains(text, "/") && !strings.ContainsAny(text, " ,[{") {
		text = path.Base(text)
	}
	const most, kept = 32, 15
	if r := []rune(text); len(r) > most {
		text = string(r[:kept]) + "…" + string(r[len(r)-kept:])
	}
	return text
}

var exponent = regexp.MustCompile(`e(-?)\+?0*(\d)`)

// shortKeys returns keys by their last parts, as many as no other key has.
func shortKeys(keys []string) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		parts := strings.Split(key, ".")
		for n := 1; n <= len(parts); n++ {
			out[i] = strings.Join(parts[len(parts)-n:], ".")
			others := slices.ContainsFunc(keys, func(other string) bool {
				return other != key && (other == out[i] || strings.HasSuffix(other, "."+out[i]))
			})
			if !others {
				break
			}
		}
	}
	return out
}

// boundary matches where a name may be cut; a minus within 1e-5 is none.
var boundary = regexp.MustCompile(`[/_ ]+|(?:^|[A-Za-z])-(?:[A-Za-z])`)

// stripped returns the names without the parts with which all begin or end.
func stripped(all []subject) []string {
	if len(all) == 1 {
		return []string{path.Base(all[0].name)}
	}
	cut := make([][]string, len(all))
	for i, s := range all {
		cut[i] = pieces(s.name)
	}
	same := func(at func(of []string) string) bool {
		return !slices.ContainsFunc(cut, func(of []string) bool { return len(of) < 2 || at(of) != at(cut[0]) })
	}
	for same(func(of []string) string { return of[0] }) {
		for i := range cut {
			cut[i] = cut[i][1:]
		}
	}
	last := func(of []string) string { return strings.TrimRight(of[len(of)-1], "/_ -") }
	for same(last) {
		for i := range cut {
			cut[i] = cut[i][:len(cut[i])-1]
		}
	}
	out := make([]string, len(all))
	for i := range cut {
		out[i] = strings.TrimRight(strings.Join(cut[i], ""), "/_ -")
	}
	if distinct(out) < len(all) {
		for i, s := range all {
			out[i] = s.name
		}
	}
	return out
}

// pieces cuts a name at its boundaries, which stay at the ends of the pieces.
func pieces(name string) (out []string) {
	for begin := 0; ; {
		at := boundary.FindStringIndex(name[begin:])
		if at == nil {
			return append(out, name[begin:])
		}
		end := begin + at[1]
		if strings.Contains(name[begin+at[0]:end], "-") {
			end-- // the letter behind it
		}
		if end == len(name) {
			return append(out, name[begin:])
		}
		out, begin = append(out, name[begin:end]), end
	}
}

// Name names runs, or stages of runs, whose settings then count as if each were a run.
func Name(kept []Kept) Naming {
	all := make([]subject, len(kept))
	for i, k := range kept {
		k.Stage = ""
		all[i] = k.run().subject(k.Name)
	}
	return nameAll(all)
}

// subject is the run as one that is to be named.
func (r *run) subject(name string) subject {
	s := subject{name: name, varied: r.sweep.Varied}
	if slices.ContainsFunc(r.stages, func(s stage) bool { return s.settings != nil }) {
		s.settings = r.settings(true)
	}
	return s
}
