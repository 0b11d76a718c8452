package workflow

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// A rollout's standard error in plugins.log has a bound, and the next rollout has its own.
func TestStandardErrorHasABound(t *testing.T) {
	var log bytes.Buffer
	q := newQuota(&log)
	for rollout := 1; rollout < 3; rollout++ {
		for range 100 {
			if n, err := fmt.Fprint(q, strings.Repeat("x", 50_000)); n != 50_000 || err != nil {
				t.Fatal(n, err)
			}
		}
		n, told := log.Len(), strings.Count(log.String(), "the rest is left out")
		if n < rollout*maxErrors || n > rollout*(maxErrors+100) || told != rollout {
			t.Errorf("rollout %d: the log has %d bytes and says it %d times", rollout, n, told)
		}
		q.refill()
	}
}
