package host

import (
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/trinity-go/trinity/internal/run/record"
)

// resources are what plug-ins have opened in a stage, by their keys.
type resources struct {
	mu    sync.Mutex
	log   io.WriteCloser
	byKey map[string]io.Closer
	all   []io.Closer // in the order in which they were opened
	ended bool
}

// Open implements explorer.Host.
func (h *Host) Open(key string, open func(log io.Writer) (io.Closer, error)) (io.Closer, error) {
	r := &h.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byKey[key]; known != nil {
		return known, nil
	}
	if r.ended {
		return nil, errors.New("the stage has ended")
	}
	if r.log == nil {
		log, err := record.OpenPluginLog(h.stage.Log.SaveDir)
		if err != nil {
			return nil, err
		}
		r.log, r.byKey, r.all = log, map[string]io.Closer{}, []io.Closer{log}
	}
	opened, err := open(h.scrub(r.log))
	if err != nil {
		return nil, err
	}
	r.byKey[key], r.all = opened, append(r.all, opened)
	return opened, nil
}

// close closes the resources, the last one first.
func (r *resources) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, c := range slices.Backward(r.all) {
		errs = append(errs, c.Close())
	}
	r.ended = true
	return errors.Join(errs...)
}
