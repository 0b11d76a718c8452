package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// besideSize is the size of the runs that the studio and its peers show. More would take the peers
// too long to read.
var besideSize = studioSize{runs: 100, steps: 1000, metrics: 20}

// curves are what the studio and its peers are told to show.
type curves struct {
	Program string   `json:"program"` // trinity
	Dir     string   `json:"dir"`     // below which the runs are, which our side writes
	Runs    int      `json:"runs"`
	Steps   int      `json:"steps"` // of each run
	Names   []string `json:"names"` // metrics
}

// curves returns the four curves of the workload with peers.
func (s *session) curves() curves {
	return curves{
		Program: s.trinity, Dir: filepath.Join(s.dir, "curves"), Runs: besideSize.runs, Steps: besideSize.steps,
		Names: []string{"actor/grad_norm", "actor/ppo_kl", "rollout/response_length/mean", "rollout/reward/mean"},
	}
}

const (
	besideTimeout      = 5 * time.Minute // of a start and two times the curves
	browserConnections = 6               // that a browser opens to a server
)

// beside is the studio, started anew for each run.
type beside struct{ curves }

func newBeside(a *assignment) (task, error) {
	b := beside{a.Curves}
	if _, err := os.Stat(b.Dir); err == nil {
		return b, nil // the other side reads the same
	}
	return b, writeStudioRuns(b.Dir, besideSize)
}

// run returns the seconds from the start of the program to the last byte of the curves.
func (b beside) run(int) (s sample, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), besideTimeout)
	defer cancel()
	cache, err := os.MkdirTemp("", "trinity-bench-cache-")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	cmd := exec.CommandContext(ctx, b.Program, "studio", "--dir", b.Dir, "--port", "0")
	cmd.Env = append(os.Environ(), "HOME="+cache, "XDG_CACHE_HOME="+cache) // the studio has read nothing before
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`http://[^/]+/`).FindString(line)
	if address == "" {
		return s, errors.Join(fmt.Errorf("trinity studio said no address, but %q", line), err)
	}
	page := newCurvesPage(b.curves, address)
	if err := page.open(ctx); err != nil {
		return s, err
	}
	s.Value, s.Sent = time.Since(begin).Seconds(), page.sent.Load()
	begin = time.Now()
	if err := page.open(ctx); err != nil {
		return s, err
	}
	s.Again, s.PeakRSS = time.Since(begin).Seconds(), peakOfProcess(cmd.Process.Pid)
	return s, nil
}

// curvesPage asks what the studio's page of curves asks.
type curvesPage struct {
	curves
	client  *http.Client
	address string
	sent    atomic.Int64 // bytes of all answers
}

func newCurvesPage(c curves, address string) *curvesPage {
	transport := &http.Transport{MaxConnsPerHost: browserConnections, MaxIdleConnsPerHost: browserConnections}
	return &curvesPage{curves: c, client: &http.Client{Transport: transport}, address: address + "api/v1/"}
}

// open asks for the runs, the names of their metrics, and the curves. A curve that is not whole is an
// error.
func (p *curvesPage) open(ctx context.Context) error {
	data, err := p.get(ctx, "runs")
	if err != nil {
		return err
	}
	var all struct {
		Runs []struct {
			ID string `json:"id"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if len(all.Runs) != p.Runs {
		return fmt.Errorf("the studio shows %d of %d runs", len(all.Runs), p.Runs)
	}
	for _, path := range []string{"names", "metrics?" + url.Values{"name": p.Names}.Encode()} {
		eg, ctx := errgroup.WithContext(ctx)
		eg.SetLimit(browserConnections)
		for _, run := range all.Runs {
			eg.Go(func() error {
				data, err := p.get(ctx, "runs/"+url.PathEscape(run.ID)+"/"+path)
				if err != nil || path == "names" {
					return err
				}
				return p.check(data)
			})
		}
		if err := eg.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// get returns an answer of the studio.
func (p *curvesPage) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.address+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "gzip") // as a browser does; the bytes are counted before they are unpacked
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	p.sent.Add(int64(len(data)))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s: %s", path, resp.Status, data)
	case resp.Header.Get("Content-Encoding") != "gzip":
		return data, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}

// check returns an error if the columns of a run lack points.
func (p *curvesPage) check(data []byte) error {
	var header struct {
		Series []struct {
			Name string `json:"name"`
			N    int    `json:"n"`
		} `json:"series"`
	}
	if len(data) < 4 || uint64(len(data)) < 4+uint64(binary.LittleEndian.Uint32(data)) {
		return fmt.Errorf("the answer has %d bytes and no header", len(data))
	}
	if err := json.Unmarshal(data[4:4+binary.LittleEndian.Uint32(data)], &header); err != nil {
		return err
	}
	whole := len(header.Series) == len(p.Names)
	for _, s := range header.Series {
		whole = whole && s.N == p.Steps
	}
	if !whole {
		return fmt.Errorf("the curves have %v points, want %d of each of %s", header.Series, p.Steps, strings.Join(p.Names, ", "))
	}
	return nil
}
