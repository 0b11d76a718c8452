package main

import (
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/serve/studio"
)

// The studio shows the runs whole, and a curve that lacks a point is an error.
func TestCurvesPage(t *testing.T) {
	c := curves{Dir: t.TempDir(), Runs: 3, Steps: 10, Names: []string{"actor/grad_norm", "rollout/reward/mean"}}
	if err := writeStudioRuns(c.Dir, studioSize{runs: c.Runs, steps: c.Steps, metrics: 8}); err != nil {
		t.Fatal(err)
	}
	s := studio.Server{Dir: c.Dir, Version: "test"}
	server, packing := httptest.NewServer(s.Handler()), httptest.NewServer(gzipped{s.Handler()})
	defer server.Close()
	defer packing.Close()
	url := server.URL
	open := func(c curves) (int64, error) {
		page := newCurvesPage(c, url+"/")
		err := page.open(t.Context())
		return page.sent.Load(), err
	}
	sent, err := open(c)
	if err != nil || sent < int64(c.Runs*len(c.Names)*c.Steps*24) {
		t.Errorf("%d bytes and %v, want all points and no error", sent, err)
	}
	url = packing.URL
	if less, err := open(c); err != nil || less >= sent {
		t.Errorf("%d bytes of %d and %v, want what was sent and no error", less, sent, err)
	}
	url = server.URL
	more := c
	more.Runs++
	if _, err := open(more); err == nil || !strings.Contains(err.Error(), "3 of 4 runs") {
		t.Errorf("a run is missing: %v", err)
	}
	file := filepath.Join(c.Dir, "studio", "run001", "monitor", "metrics.jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	if err := os.WriteFile(file, []byte(strings.Join(lines[:2*c.Steps-1], "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := open(c); err == nil || !strings.Contains(err.Error(), "actor/grad_norm 9") {
		t.Errorf("a point is missing: %v", err)
	}
}

// gzipped compresses what a handler answers.
type gzipped struct{ http.Handler }

func (p gzipped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	p.Handler.ServeHTTP(answer, r)
	if r.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(answer.Code)
	z := gzip.NewWriter(w)
	_, _ = z.Write(answer.Body.Bytes()) // the reader sees what is missing
	_ = z.Close()
}

func TestRunsTextOfCurves(t *testing.T) {
	got := runsText([]sample{{Value: 1.5, Again: .25, Sent: 9_790_000}, {Value: 1.25, Again: .125, Sent: 9_790_000}})
	if want := "1.50 (again 0.25 s), 1.25 (again 0.12 s), 9.8 MB sent"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The memory of a side is that of the servers that its runs started, if they started any.
func TestPeakOfServers(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell to stand in for a peer")
	}
	p, err := startChild(t.Context(), "", nil, shell, "-c",
		`echo 'BENCH {"ready":true}'; for rss in 9 7; do read x; echo "BENCH {\"value\":1,\"peak_rss\":$rss}"; done; read x`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.run(); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.peakRSS(); got != 9 {
		t.Errorf("%d, want 9, the most of two runs", got)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}
