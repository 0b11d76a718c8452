package studio

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
)

// stopping is a request to stop a run.
type stopping struct {
	Now bool `json:"now"` // without the checkpoint that a run writes after its step
}

// stop sends a run the signal of Ctrl-C: it ends after its step, with a checkpoint. A second signal
// would end it at once, so that needs now.
func (s *starts) stop(r *http.Request, in stopping) (any, error) {
	id := r.PathValue("run")
	f, err := s.runs.open(id)
	if err != nil {
		return s.stopUnborn(id)
	}
	run, _ := f.summary()
	if run == nil || run.State != Running && run.State != Waiting {
		return nil, mistake{fmt.Errorf("the run %q is not at work", id)}
	}
	holders, err := holdersOf(f.dir)
	if err != nil {
		return nil, err
	}
	for pid, h := range holders {
		if before, again := s.signalled.Swap(pid, h.Since); again && h.Since.Equal(before.(time.Time)) && !in.Now {
			return nil, mistake{fmt.Errorf("the run %q is stopping: it ends after its step, with a checkpoint", id)}
		}
		if err := interrupt(pid); err != nil {
			s.signalled.Delete(pid)
			return nil, fmt.Errorf("process %d of the run %q: %w", pid, id, err)
		}
	}
	return map[string]string{"id": id}, nil
}

// stopUnborn stops a run that has no directory yet.
func (s *starts) stopUnborn(id string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.running[id]
	if p == nil {
		return nil, notFound{fmt.Errorf("there is no run %.200q", id)}
	}
	return map[string]string{"id": id}, p.Signal(os.Interrupt)
}

// holdersOf returns the processes that work at a run, by their number. All of them must be here, and
// this program: a copied directory may name any process.
func holdersOf(dir string) (map[int]durable.Held, error) {
	all, err := durable.Holders(dir)
	if err != nil {
		return nil, err
	}
	found := map[int]durable.Held{}
	for name, h := range all {
		lives, known := h.Lives()
		switch {
		case strings.HasPrefix(name, "sink_"):
		case !known:
			return nil, mistake{fmt.Errorf("its %s is process %d on %s: stop it there with Ctrl-C", name, h.PID, h.Host)}
		case lives && isTrinity(h.PID) && !h.Since.Before(found[h.PID].Since): // both roles may be one process
			found[h.PID] = h
		}
	}
	if len(found) == 0 {
		return nil, mistake{errors.New("no process of the run is on this machine")}
	}
	return found, nil
}

// isTrinity reports whether a process is this program, where the system tells it as Linux does.
func isTrinity(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return !exists("/proc/self/cmdline") // then the time of its start, which Lives compares, must do
	}
	name, _, _ := strings.Cut(string(line), "\x00")
	return name == os.Args[0] || strings.HasPrefix(filepath.Base(name), "trinity")
}

// interrupt sends a process the signal of Ctrl-C.
func interrupt(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	return p.Signal(os.Interrupt)
}
