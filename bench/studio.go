package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity/internal/cachedir"
	"github.com/trinity-go/trinity/internal/serve/studio"
)

var (
	manyRuns  = studioSize{runs: 100, steps: 10_000, metrics: 200}
	manySpans = studioSize{runs: 1, steps: 1, metrics: 2, spans: 1_000_000}
)

// shown is a studio, and the client that a browser is.
type shown struct {
	dir    string // below which the runs are
	cache  string // what the studio has read before
	server *httptest.Server
}

// newShown writes the runs, unless an earlier row of the session has.
func newShown(a *assignment, name string, size studioSize) (*shown, error) {
	debug.SetMemoryLimit(128 << 20) // as the command does
	s := &shown{dir: filepath.Join(filepath.Dir(a.Rows), name), cache: a.Dir}
	if _, err := os.Stat(s.dir); err == nil {
		return s, nil
	}
	half := s.dir + ".half"
	if err := errors.Join(os.RemoveAll(half), writeStudioRuns(half, size)); err != nil {
		return nil, err
	}
	return s, os.Rename(half, s.dir)
}

// begin starts the studio, as if its command had just been started.
func (s *shown) begin() {
	if s.server != nil {
		s.server.Close()
	}
	s.server = httptest.NewServer((&studio.Server{Dir: s.dir, Disk: cachedir.New(s.cache, 2<<30)}).Handler())
}

// get reads an answer of the API to its end.
func (s *shown) get(path string) error {
	answer, err := s.server.Client().Get(s.server.URL + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// fourCurves reads the list of all runs, and four curves of each, six answers at once as browsers do.
func (s *shown) fourCurves() (time.Duration, error) {
	start := time.Now()
	if err := s.get("runs"); err != nil {
		return 0, err
	}
	names := url.Values{"name": {"actor/entropy_loss", "actor/grad_norm", "rollout/response_length/mean", "rollout/reward/mean"}}.Encode()
	var six errgroup.Group
	six.SetLimit(6)
	for i := range manyRuns.runs {
		six.Go(func() error { return s.get(fmt.Sprintf("runs/studio%%2Frun%03d/metrics?%s", i, names)) })
	}
	err := six.Wait()
	return time.Since(start), err
}

// manyCurves are the four curves of many runs.
type manyCurves struct {
	*shown
	first bool // nobody has read the runs before
	again bool // the studio has sent them before
}

func newCurves(first, again bool) func(*assignment) (task, error) {
	return func(a *assignment) (task, error) {
		s, err := newShown(a, "runs", manyRuns)
		return &manyCurves{s, first, again}, err
	}
}

// run returns seconds, or milliseconds if the studio has sent the curves before.
func (c *manyCurves) run(number int) (sample, error) {
	if c.first {
		if err := os.RemoveAll(c.cache); err != nil {
			return sample{}, err
		}
	}
	if number == 0 || !c.again {
		c.begin()
	}
	took, err := c.fourCurves()
	if c.again {
		return sample{Value: took.Seconds() * 1e3}, err
	}
	return sample{Value: took.Seconds()}, err
}

// zooms are the spans of a run with very many, at many zooms.
type zooms struct {
	*shown
	opens       bool // only the first answer of a studio counts
	first, last float64
}

func newZooms(opens bool) func(*assignment) (task, error) {
	return func(a *assignment) (task, error) {
		s, err := newShown(a, "spans", manySpans)
		begin := float64(studioBegan.UnixMilli())
		steps := float64(manySpans.spans) / 28 // eight tasks with three spans, and four of the trainer
		return &zooms{s, opens, begin, begin + steps*20_000}, err
	}
}

// run returns the milliseconds of the slowest answer.
func (z *zooms) run(number int) (sample, error) {
	const widths, each = 6, 3
	if number == 0 || z.opens {
		z.begin()
	}
	random, slowest := rand.New(rand.NewPCG(uint64(number), 0)), time.Duration(0)
	for width := range widths {
		for range each {
			span := z.last - z.first
			for range width {
				span /= 8
			}
			from := z.first + random.Float64()*(z.last-z.first-span)
			start := time.Now()
			if err := z.get(fmt.Sprintf("runs/studio%%2Frun000/spans?width=1000&from=%.0f&to=%.0f", from, from+span)); err != nil {
				return sample{}, err
			}
			slowest = max(slowest, time.Since(start))
			if z.opens {
				return sample{Value: slowest.Seconds() * 1e3}, nil
			}
		}
	}
	return sample{Value: slowest.Seconds() * 1e3}, nil
}
