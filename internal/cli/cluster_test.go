package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/launcher"
)

// stuck is a scheduler whose run does not end.
type stuck struct{ launcher.Scheduler }

func (stuck) Down(ctx context.Context, _ string) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Minute):
		return nil
	}
}

// The wait for the end of a run has a limit, and its error says what to do.
func TestRunThatDoesNotEnd(t *testing.T) {
	err := endRun(t.Context(), stuck{}, "7", time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "it has not ended for 1ms: run the command again") {
		t.Error(err)
	}
}
