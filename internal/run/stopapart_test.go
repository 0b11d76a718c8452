package run_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/serve/fleet"
)

// An explorer that has done all its steps, but reaches no trainer, can be stopped as at any other
// time. The same command resumes.
func TestAnExplorerStopsWithAllItsSteps(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	elsewhere := p.copyOf(t)
	port := freePort(t)
	trainer := p.start(t, []string{"TRINITY_TOKEN=secret"},
		append(training, "trainer.total_steps=9", "buffer.total_steps=9",
			"trainer.listen_address=127.0.0.1:"+port)...)
	p.await(t, trainer)
	stop, cancel := context.WithCancelCause(t.Context())
	var hears atomic.Bool
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port})
	to.ErrorLog = log.New(io.Discard, "", 0) // requests that end with the explorer
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hears.Load() && strings.HasSuffix(r.URL.Path, "/close") {
			w.WriteHeader(http.StatusBadGateway)
			cancel(errInterrupt)
			return
		}
		to.ServeHTTP(w, r)
	}))
	defer between.Close()
	explore := func(stop context.Context) error {
		cfg := elsewhere.load(t, append(exploring, noEvaluation, "synchronizer.sync_timeout=60")...)
		_, err := run.Run(t.Context(), stop, cfg, run.Options{Say: func(line string) { t.Log(line) },
			Join: strings.Replace(between.URL, "http://", "http://secret@", 1)})
		return err
	}
	if err := explore(stop); !errors.Is(err, errInterrupt) {
		t.Errorf("the explorer ends with %v, want %v", err, errInterrupt)
	}
	hears.Store(true)
	if err := explore(t.Context()); err != nil {
		t.Fatal(err)
	}
	trainer.finish(t)
}

// A trainer that has done all its steps waits for explorers to learn of it. Ctrl-C ends the wait
// and is no interruption: the run has ended.
func TestAnInterruptEndsTheWaitForExplorers(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	trainer := p.start(t, nil, training...)
	p.await(t, trainer)
	busy := fleet.NewClient("busy", "fixed", time.Minute, fleet.In(p.job())) // is heard of, and asks for nothing
	busy.Algorithm = "grpo"
	if _, _, err := busy.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	alive := make(chan error)
	go func() { alive <- busy.Alive(t.Context()) }()
	explorer := p.start(t, nil, append(exploring, noEvaluation)...)
	if trainer.signalWhen(t, os.Interrupt, p.appears("global_step_8/actor/huggingface")) {
		t.Error("the trainer has not ended well")
	}
	explorer.finish(t)
	if err := <-alive; err != nil {
		t.Errorf("busy: %v", err)
	}
	if !strings.Contains(read(t, filepath.Join(p.job(), fleet.AddressFile)), `"ended":true`) || exists(filepath.Join(p.job(), "weights_*")) {
		t.Error("the run is not marked as ended, or has weights left that its checkpoints have")
	}
}
