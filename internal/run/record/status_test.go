package record

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/trinity-go/trinity/monitor"
)

func TestStatusOfAStage(t *testing.T) {
	stopped, stop := context.WithCancelCause(t.Context())
	cause := errors.New("interrupted")
	stop(cause)
	for name, c := range map[string]struct {
		err  error
		stop context.Context
		want monitor.Status
	}{
		"done":                    {nil, t.Context(), monitor.Finished},
		"done while it stopped":   {nil, stopped, monitor.Finished},
		"interrupted":             {fmt.Errorf("x: %w", cause), stopped, monitor.Stopped},
		"failed":                  {errors.New("disk"), t.Context(), monitor.Failed},
		"failed while it stopped": {errors.New("disk"), stopped, monitor.Failed},
	} {
		if got := EndOf(c.err, c.stop); monitor.Status(got) != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
