package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// session is one call of the benchmark: what all rows have in common.
type session struct {
	set     *settings
	machine machine
	limits  limits
	peers   peers
	forced  string // kernels, "" when the fastest are used
	config  *modelfile.Config
	tokens  []int32 // of the texts
	dir     string  // scratch
	trinity string  // the program, built
	root    string  // of the module
}

func newSession(ctx context.Context, set *settings) (*session, error) {
	s := &session{set: set, machine: examine(ctx)}
	var err error
	if s.forced, err = kernel.Forced(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "trinity-bench-"); err != nil {
		return nil, err
	}
	for _, prepare := range []func(context.Context) error{s.openModel, s.build, s.findPeers, s.measureLimits} {
		if err := prepare(ctx); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *session) close() error { return os.RemoveAll(s.dir) }

// openModel reads what the assignments and the limits need of the model.
func (s *session) openModel(context.Context) error {
	var err error
	if s.set.model, err = filepath.Abs(s.set.model); err != nil {
		return err
	}
	m, err := modelfile.Open(s.set.model)
	if err != nil {
		return err
	}
	s.config = m.Config
	if err := m.Close(); err != nil {
		return err
	}
	if s.tokens, err = tokens(s.set.model); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "questions.jsonl"), gsm8k, 0o644)
}

const module = "github.com/trinity-go/trinity"

// results keeps the rows.
func (s *session) results() string { return filepath.Join(s.root, "bench", "results") }

// build builds the program whose start is measured.
func (s *session) build(ctx context.Context) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("looking for module %s, which is that of the checkout: %w", module, err)
	}
	s.root, s.trinity = strings.TrimSpace(string(root)), filepath.Join(s.dir, "trinity")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", s.trinity, module+"/cmd/trinity").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building cmd/trinity: %w\n%s", err, out)
	}
	return nil
}

// measureLimits does so in a process of its own: a process that is started inherits the peak memory of the one that starts it.
func (s *session) measureLimits(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, self, "limits").Output()
	if err != nil {
		return fmt.Errorf("measuring the limits of the machine: %w", err)
	}
	return json.Unmarshal(out, &s.limits)
}

func (s *session) version() []string { return []string{s.trinity, "version"} }

func (s *session) firstToken() []string {
	return []string{s.trinity, "generate", "--model", s.set.model, "--prompt", "Hi", "--max-tokens", "1"}
}

func (s *session) heading() string {
	lines := []string{
		fmt.Sprintf("%s, %d cores, load average %s, commit %s", s.machine.CPU, s.machine.Cores, s.machine.Load, s.machine.Commit),
		fmt.Sprintf("f32 %.0f GFLOP/s with the kernels of %s, memory read %.1f GB/s", s.limits.GFLOPs, s.limits.Kernels, s.limits.GBps),
		"peers: " + s.peers.describe(),
		fmt.Sprintf("other programs take %.0f %% of the cores: ratios say little over 5 %%", 100*s.machine.Foreign),
	}
	return strings.Join(lines, "\n")
}

// measure makes the row of a workload: our side and the peer's take turns.
func (s *session) measure(ctx context.Context, w workload) (row Row, err error) {
	row = Row{Workload: w.name, Unit: w.unit, DType: s.set.dtype, Kernels: s.forced, Runs: s.set.runs, Machine: examine(ctx), Limits: s.limits, Command: s.command(&w)}
	ours, theirs, err := s.sides(ctx, &w, &row)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	if theirs != nil {
		defer func() { err = errors.Join(err, theirs.stop()) }()
	}
	for range row.Runs {
		if err := row.add(&row.OurRuns, ours); err != nil {
			return row, err
		}
		if theirs == nil {
			continue
		}
		if err := row.add(&row.TheirRuns, theirs); err != nil {
			return row, fmt.Errorf("peer %s: %w", row.Peer, err)
		}
	}
	row.OurRSS = ours.peakRSS()
	if theirs != nil {
		row.TheirRSS = theirs.peakRSS()
	}
	if w.limit != nil {
		limit := w.limit(s.config, s.limits, &w)
		row.Limit = &limit
	}
	row.LoadAfter = loadAverage()
	row.conclude()
	return row, nil
}

// command is how the row is measured again.
func (s *session) command(w *workload) string {
	c := "go run ./bench --only " + w.name
	if s.set.dtype != "" {
		c += " --dtype " + s.set.dtype
	}
	if s.forced != "" {
		c = kernel.Variable + "=" + s.forced + " " + c
	}
	return fmt.Sprintf("%s --runs %d --model %s", c, s.set.runs, filepath.Base(s.set.model))
}

// sides starts both sides and waits until they are warm; theirs is nil without a peer.
func (s *session) sides(ctx context.Context, w *workload, row *Row) (ours, theirs side, err error) {
	script, args := s.peers.choose(w, row)
	if w.ours == nil {
		ours = &command{ctx: ctx, args: w.command(s)}
		if script != "" {
			theirs = &command{ctx: ctx, args: args}
		}
		return ours, theirs, nil
	}
	path, err := s.assign(w)
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	if ours, err = startChild(ctx, self, "child", path); err != nil || script == "" {
		return ours, nil, err
	}
	if theirs, err = startChild(ctx, append(args, path)...); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("peer %s: %w", row.Peer, err), ours.stop())
	}
	return ours, theirs, nil
}
