package studio

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/registry"
)

// settings are what a run's configuration sets to another value than the default.
type settings struct {
	text string         // YAML, without secrets
	flat map[string]any // by dotted key
}

// parseSettings reads settings and hides secrets, which a run hides itself but a file of another hand
// may have.
func parseSettings(text []byte) (set settings, err error) {
	set.flat = map[string]any{}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return set, errors.New(firstLine(err))
	}
	set.text = string(text)
	if hide(&doc, "") {
		hidden, err := yaml.Dump(&doc)
		if err != nil {
			return set, err
		}
		set.text = string(hidden)
	}
	var tree map[string]any
	if err := doc.Decode(&tree); err != nil {
		return set, errors.New(firstLine(err))
	}
	for key, value := range config.Flatten(tree) {
		if v, ok := value.(float64); ok && experience.NotFinite(v) != "" {
			value = Number(v)
		}
		set.flat[key] = value
	}
	return set, nil
}

// hide puts stars in place of the secrets in a tree, and reports whether there are some.
func hide(n *yaml.Node, key string) (found bool) {
	found = hideInComments(n)
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			found = hideInComments(n.Content[i]) || found
			found = hide(n.Content[i+1], strings.TrimPrefix(key+"."+n.Content[i].Value, ".")) || found
		}
	case yaml.ScalarNode:
		if shown := fmt.Sprint(config.Mask(key, n.Value)); shown != n.Value {
			n.SetString(shown)
			return true
		}
	default:
		for i, item := range n.Content {
			if i > 0 && safetext.HidesAfter(n.Content[i-1].Value, item.Value) {
				item.SetString("***")
				found = true
			}
			found = hide(item, key) || found
		}
	}
	return found
}

// commented finds the beginning of what looks like a setting in a comment.
var commented = regexp.MustCompile(`([A-Za-z_][\w.]*)["']?\s*[:=]\s*`)

// hideInComments puts stars in place of secrets that somebody has commented out, up to the line's end.
func hideInComments(n *yaml.Node) (found bool) {
	for _, comment := range []*string{&n.HeadComment, &n.LineComment, &n.FootComment} {
		lines := strings.Split(*comment, "\n")
		for i, line := range lines {
			lines[i] = safetext.Hidden(line)
			for _, at := range commented.FindAllStringSubmatchIndex(line, -1) {
				if value := line[at[1]:]; config.Mask(line[at[2]:at[3]], value) != value {
					lines[i] = line[:at[1]] + "***"
					break
				}
			}
		}
		if shown := strings.Join(lines, "\n"); shown != *comment {
			*comment, found = shown, true
		}
	}
	return found
}

// defaults has the defaults of the keys of a configuration.
var defaults = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, k := range config.Keys() {
		all[k.Path] = k.Default
	}
	return all
})

// value returns a setting, or its default.
func (s *settings) value(key string) string {
	if v, ok := s.flat[key]; ok {
		return fmt.Sprint(v)
	}
	return defaults()[key]
}

// algorithm returns the algorithm type, and the parts that replace those of the type: "grpo · advantage rloo".
func (s *settings) algorithm() string {
	name := s.value("algorithm.algorithm_type")
	own, err := registry.Parts(trinity.Algorithm{Type: name})
	if err != nil {
		own = &trinity.Algorithm{} // a plug-in of another program
	}
	out := name
	for _, part := range []struct{ key, own string }{
		{"advantage_fn", own.Advantage}, {"policy_loss_fn", own.PolicyLoss}, {"kl_penalty_fn", own.KLPenalty}, {"kl_loss_fn", own.KLLoss},
		{"entropy_loss_fn", own.Entropy}, {"sample_strategy", own.SampleStrategy},
	} {
		if v := s.value("algorithm." + part.key); v != "" && v != part.own { // "" leaves the type's own
			out += fmt.Sprintf(" · %s %s", strings.ReplaceAll(strings.TrimSuffix(part.key, "_fn"), "_", " "), v)
		}
	}
	return out
}

// tasksets returns how many sets of rows the run evaluates.
func (s *settings) tasksets() int {
	all := map[string]bool{}
	for key := range s.flat {
		if set := evaluatedSet.FindString(key); set != "" {
			all[set] = true
		}
	}
	return len(all)
}

var evaluatedSet = regexp.MustCompile(`^buffer\.(explorer_input\.eval_tasksets|trainer_input\.eval_buffers)\.[^.]+\.`)
