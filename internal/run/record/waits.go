package record

import (
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
