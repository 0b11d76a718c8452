package record

import (
	"fmt"
	"sync"

	"github.com/trinity-go/trinity"
)

// Activity is what the trainer is doing, for people who stop the run.
type Activity struct {
	mu     sync.Mutex
	trains string // what ends before the run does; "" if the trainer waits or there is none
}

// set notes what a role is doing. A role that waits has no total.
func (a *Activity) set(role, doing string, done, total int) {
	if a == nil || role != trinity.RoleTrainer {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.trains = doing; total {
	case 0:
		a.trains = ""
	case 1: // one piece of work
	default:
		a.trains = fmt.Sprintf("%s, %d/%d", doing, done, total)
	}
}

// Stopping says after what the run stops.
func (a *Activity) Stopping() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	after := "as soon as it can"
	if a.trains != "" {
		after = "after the step of the trainer (" + a.trains + "), with a checkpoint"
	}
	return "stops " + after + "; Ctrl-C again ends it at once"
}
