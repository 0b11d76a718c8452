package launcher

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
)

// driver returns the job of a run's driver, which starts the jobs of its groups. A cluster that
// wants a token gets it from the driver too.
func (r *rayCluster) driver(id string, g trinity.ProcessGroup) rayGroup {
	x := r.group(g)
	x.Run, x.Driver = id, true
	x.Env[rayRun] = id
	if r.jobs.token != "" {
		x.secret[rayToken] = r.jobs.token
	}
	return x
}

// Submit implements trinity.Scheduler.
func (r *rayCluster) Submit(ctx context.Context, g trinity.ProcessGroup) (string, error) {
	id := g.Name + "-" + strings.ToLower(rand.Text()[:8])
	return id, r.send(ctx, id, r.driver(id, g), g.Files)
}

// Script implements trinity.Scheduler.
func (r *rayCluster) Script(g trinity.ProcessGroup) (string, error) {
	id := g.Name + "-…"
	x := r.driver(id, g)
	return r.rendered(id, &x, "the head node")
}

// Status implements trinity.Scheduler.
func (r *rayCluster) Status(ctx context.Context, id string) (string, bool, error) {
	s, err := r.jobs.status(ctx, id)
	if err != nil {
		return "", false, err
	}
	return s.String(), s.ended(), nil
}

// Logs implements trinity.Scheduler.
func (r *rayCluster) Logs(ctx context.Context, id string, follow bool, w io.Writer) error {
	for written := 0; ; {
		s, err := r.jobs.status(ctx, id) // before the text, of which nothing must be missed
		if err != nil {
			return err
		}
		text, err := r.jobs.logs(ctx, id)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, text[min(written, len(text)):]); err != nil {
			return err
		}
		written = len(text)
		if !follow || s.ended() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.jobs.every):
		}
	}
}

// Down implements trinity.Scheduler. The driver goes first, so that it starts nothing more.
func (r *rayCluster) Down(ctx context.Context, id string) error {
	if _, err := r.jobs.status(ctx, id); err != nil {
		return err
	}
	if err := r.jobs.stop(ctx, id); err != nil {
		return err
	}
	groups, err := r.jobs.of(ctx, id)
	errs := []error{err}
	for _, group := range groups {
		errs = append(errs, r.jobs.stop(ctx, group))
	}
	return errors.Join(errs...)
}
