package record

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/monitor"
)

// longWait is the time after which those who watch a run hear of a wait.
const longWait = 3 * time.Second

// waits notes beside the metrics whom the parts of this process wait for, if they wait long. No part
// waits for that.
type waits struct {
	dir   string            // of the metrics
	parts map[string]string // by role
	after time.Duration

	mu     sync.Mutex
	who    map[string]string // by role; "" for nobody
	timers map[string]*time.Timer

	file sync.Mutex        // held while the file is written
	told map[string]string // by role, what the file says
}

func newWaits(cfg *config.Settled) *waits {
	w := &waits{
		dir: cfg.Monitor.CacheDir, parts: map[string]string{}, after: longWait, who: map[string]string{}, timers: map[string]*time.Timer{},
		told: map[string]string{},
	}
	for _, part := range Parts(cfg) {
		role, _, _ := strings.Cut(part, "_")
		w.parts[role] = part
	}
	return w
}

// set notes that a role waits for somebody, or for nobody.
func (w *waits) set(role, who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.who[role] == who || w.parts[role] == "" {
		return
	}
	w.who[role] = who
	if t := w.timers[role]; t != nil && t.Stop() && who == "" {
		return // it has not waited long
	}
	pause := w.after
	if who == "" {
		pause = 0
	}
	w.timers[role] = time.AfterFunc(pause, func() { w.tell(role) })
}

// tell writes whom a role waits for, unless the file says so.
func (w *waits) tell(role string) {
	w.file.Lock()
	defer w.file.Unlock()
	w.mu.Lock()
	who := w.who[role]
	w.mu.Unlock()
	if w.told[role] != who && monitor.KeepWait(w.dir, w.parts[role], who) == nil { // else those who watch go without
		w.told[role] = who
	}
}

// awaited returns for whom a role waits that waits for its next step.
func awaited(cfg *config.Settled, role string) string {
	switch {
	case role != trinity.RoleTrainer:
		return trinity.RoleTrainer
	case cfg.ReadsDataset:
		return "data"
	}
	return trinity.RoleExplorer
}

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
