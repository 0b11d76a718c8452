package explorer

import (
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

func TestMetricsOfDrafts(t *testing.T) {
	now := drafts{}
	e := &Explorer{opts: Options{Drafts: func() (verified, accepted int64, saved time.Duration) {
		return now.verified, now.accepted, now.saved
	}}}
	for _, c := range []struct {
		until drafts
		want  trinity.Metrics
	}{
		{drafts{}, trinity.Metrics{}},
		{drafts{8, 6, time.Second}, trinity.Metrics{acceptedMetric: 0.75, savedMetric: 1}},
		{drafts{8, 6, time.Second}, trinity.Metrics{}},
		{drafts{18, 7, 500 * time.Millisecond}, trinity.Metrics{acceptedMetric: 0.1, savedMetric: -0.5}},
	} {
		now = c.until
		m := trinity.Metrics{}
		e.measureDrafts(m)
		for name := range m {
			if !timed(name) {
				t.Errorf("a resumed run would have to have the same %s", name)
			}
		}
		if len(m) != len(c.want) || m[acceptedMetric] != c.want[acceptedMetric] || m[savedMetric] != c.want[savedMetric] {
			t.Errorf("until %+v: got %v, want %v", c.until, m, c.want)
		}
	}
	(&Explorer{}).measureDrafts(nil)
}
