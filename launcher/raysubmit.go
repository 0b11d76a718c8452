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
	if r.Program != "" && g.Command[0] == "trinity" {
		g.Command = append([]string{r.Program}, g.Command[1:]...)
	}
	x := r.group(id, g)
	x.Run, x.Driver = id, true
	x.Env[rayRun] = id
	if r.jobs.token != "" {
		x.secret[rayToken] = r.jobs.token
	}
	return x
}

// Submit implements Scheduler.
func (r *rayCluster) Submit(ctx context.Context, g trinity.ProcessGroup) (string, error) {
	id := g.Name + "-" + strings.ToLower(rand.Text()[:8])
	return id, r.send(ctx, id, r.driver(id, g), g.Files)
}

// Script implements Scheduler.
func (r *rayCluster) Script(g trinity.ProcessGroup) (string, error) {
	id := g.Name + "-…"
	x := r.driver(id, g)
	return r.rendered(id, &x, "the head node")
}

// Status implements Scheduler.
func (r *rayCluster) Status(ctx context.Context, id string) (string, bool, error) {
	s, err := r.jobs.state(ctx, id)
	return s.words, s.ended, err
}

// Logs implements Scheduler.
func (r *rayCluster) Logs(ctx context.Context, id string, follow bool, w io.Writer) error {
	written, watch := 0, r.jobs.watch(id)
	more := func() error {
		text, err := r.jobs.logs(ctx, id)
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, text[min(written, len(text)):])
		written, watch.every = len(text), r.jobs.logPause(len(text))
		return err
	}
	if !follow {
		return more()
	}
	return watch.follow(ctx, more)
}

// logPause returns the time between two requests for a log of this size. Each request fetches the whole
// log, so the pause is longer by once the usual one for every 256 KiB, and at most 30 times as long.
func (j *rayJobs) logPause(bytes int) time.Duration {
	const part, most = 256 << 10, 30
	return j.every * time.Duration(min(1+bytes/part, most))
}

// Down implements Scheduler. The driver goes first, so that it starts nothing more.
func (r *rayCluster) Down(ctx context.Context, id string) error {
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
