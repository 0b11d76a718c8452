package operator

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("response_deduplicator",
		"Keeps the first of several rollouts with equal responses. The response of a rollout with several "+
			"steps is everything after its first prompt, and the operator drops such a rollout as a whole. "+
			"Metrics: filtered_count (experiences), unique_response_ratio (share of rollouts that stay).",
		func() trinity.Operator { return &dedup{Scope: perGroup, By: "tokens"} })
}

// dedup drops rollouts with a reply that an earlier rollout has given.
type dedup struct {
	Scope Scope  `yaml:"scope" enum:"group|step" doc:"group compares the rollouts of one task, step compares the rollouts of all tasks"`
	By    string `yaml:"by" enum:"tokens|text" doc:"tokens compares token by token, text ignores letter case and white space"`
}

// Process implements trinity.Operator.
func (d *dedup) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	repeated, all, unique := selection{}, 0, 0
	for _, part := range d.Scope.compared(groups) {
		seen := map[string]bool{}
		for _, r := range part {
			k := d.key(r)
			if seen[k] {
				repeated.add(r)
			} else {
				unique++
			}
			seen[k] = true
			all++
		}
	}
	kept, metrics := keep(groups, repeated.lacks)
	if all > 0 {
		metrics["unique_response_ratio"] = float64(unique) / float64(all)
	}
	return kept, metrics, nil
}

// key returns the same text for equal rollouts.
func (d *dedup) key(rollout trinity.Group) string {
	var key strings.Builder
	for i, e := range rollout {
		if d.By == "text" {
			key.WriteString(strings.Join(strings.Fields(strings.ToLower(e.Response)), " "))
			key.WriteByte(0)
			continue
		}
		tokens := e.Tokens
		if i == 0 {
			tokens = tokens[e.PromptLen:]
		}
		b := binary.AppendUvarint(nil, uint64(len(tokens)))
		for _, id := range tokens {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
		key.Write(b)
	}
	return key.String()
}
