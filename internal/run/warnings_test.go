package run_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// A run that collapses says so once, also if it is resumed. One that learns says nothing.
func TestACollapseIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		lr   string
		says int
	}{"a learning rate that is too high": {"0.05", 1}, "one that is not": {"0.002", 0}} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, tiny, rl)
			settings := []string{"algorithm.optimizer.lr=" + c.lr, "explorer.eval_interval=100", "buffer.batch_size=6",
				"model.max_response_tokens=1"}
			for _, steps := range []string{"30", "36"} {
				if _, err := p.run(t, append(settings, "buffer.total_steps="+steps)...); err != nil {
					t.Fatal(err)
				}
			}
			said := read(t, filepath.Join(p.job(), "monitor", "said.log"))
			for _, sign := range []string{"collapsed onto one answer", "the entropy of the policy is"} {
				if n := strings.Count(said, sign); n != c.says {
					t.Errorf("%d lines with %q, want %d: %s", n, sign, c.says, said)
				}
			}
		})
	}
}
