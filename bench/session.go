package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/engine/cpu"
	"github.com/trinity-go/trinity/model"
)

// session is one call of the benchmark: what all rows have in common.
type session struct {
	set     *settings
	machine machine
	limits  limits
	peers   peers
	forced  string // setting that forces the kernels; "" if the fastest are used
	config  *model.Config
	stored  string  // how most of the model's weights are stored: "F32", "Q4_1" …
	tokens  []int32 // of the texts
	lengths []int   // of the texts in tokens
	dir     string  // scratch
	program string  // this one, which carries out assignments in processes of their own
	trinity string  // the command, built
	root    string  // of the module

	past *session // the same with the programs of another commit; nil without --compare
}

func newSession(ctx context.Context, set *settings) (*session, error) {
	processor, err := cpu.ThisProcessor()
	if err != nil {
		return nil, err
	}
	s := &session{set: set, machine: examine(ctx, processor.Cores), forced: processor.Forced}
	if s.program, err = os.Executable(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "trinity-bench-"); err != nil {
		return nil, err
	}
	for _, prepare := range []func(context.Context) error{s.openModel, s.build, s.findPeers, s.measureLimits, s.openPast} {
		if err := prepare(ctx); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *session) close() error { return errors.Join(s.closePast(), os.RemoveAll(s.dir)) }

// openModel reads what the assignments and the limits need of the model, if there is one.
func (s *session) openModel(context.Context) error {
	if s.set.model == "" {
		return nil
	}
	var err error
	if s.set.model, err = filepath.Abs(s.set.model); err != nil {
		return err
	}
	m, err := model.Open(s.set.model)
	if err != nil {
		return err
	}
	s.config = m.Config
	if t, err := m.Tensor("model.layers.0.mlp.up_proj.weight"); err == nil {
		s.stored = t.DType
	}
	if err := m.Close(); err != nil {
		return err
	}
	if s.tokens, s.lengths, err = tokens(s.set.model); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "questions.jsonl"), gsm8k, 0o644)
}

const module = "github.com/trinity-go/trinity"

// kernels is the variable that has a process use the kernel set of the row.
func (s *session) kernels() string { return "TRINITY_KERNELS=" + s.limits.Kernels }

// results keeps the rows.
func (s *session) results() string { return filepath.Join(s.root, "bench", "results") }

// build builds the program whose start is measured.
func (s *session) build(ctx context.Context) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("looking for module %s, which is that of the checkout: %w", module, err)
	}
	s.root, s.trinity = strings.TrimSpace(string(root)), filepath.Join(s.dir, "trinity")
	return s.compile(ctx, s.trinity, "cmd/trinity")
}

func (s *session) measureLimits(ctx context.Context) (err error) {
	s.limits, err = s.limitsNow(ctx)
	return err
}

// limitsNow measures them in a process of its own: a process that is started inherits the peak memory of the one that starts it.
func (s *session) limitsNow(ctx context.Context) (l limits, err error) {
	out, err := exec.CommandContext(ctx, s.program, "limits").Output()
	if err != nil {
		return l, fmt.Errorf("measuring the limits of the machine: %w", err)
	}
	return l, json.Unmarshal(out, &l)
}

func (s *session) version() *command { return &command{args: []string{s.trinity, "version"}} }

func (s *session) firstToken() *command {
	return &command{args: []string{s.trinity, "generate", "--model", s.set.model, "--prompt", "Hi", "--max-tokens", "1"}}
}

// quickstart is the run of the README, in the checkout and into a folder that is removed.
func (s *session) quickstart() *command {
	return &command{args: []string{s.trinity, "run", "--config", "examples/quickstart/quickstart.yaml"}, dir: s.root, writes: true}
}

func (s *session) heading() string {
	lines := []string{
		fmt.Sprintf("%s, %d cores, load average %s, commit %s", s.machine.CPU, s.machine.Cores, s.machine.Load, s.machine.Commit),
		fmt.Sprintf("multiply-adds %.0f GFLOP/s f32, %.0f half of the time, our best product %.0f with the kernels of %s, memory read %.1f GB/s", s.limits.GFLOPs, s.limits.Sustained, s.limits.Product, s.limits.Kernels, s.limits.GBps),
		"peers: " + s.peers.describe(),
		fmt.Sprintf("other programs take %s of the cores: ratios say little over %s", percent(s.machine.Foreign), percent(quiet)),
	}
	return strings.Join(lines, "\n")
}

// measure makes the rows of a workload: one with each peer that is there, or one without.
func (s *session) measure(ctx context.Context, w *workload, each func(Row) error) error {
	if w.server && s.set.server == "" {
		fmt.Fprintf(os.Stderr, "%s is left out: --server names no server\n", w.name)
		return nil
	}
	if w.browser && browserOf() == "" {
		fmt.Fprintf(os.Stderr, "%s is left out: there is no chromium-headless-shell\n", w.name)
		return nil
	}
	for _, need := range w.needs {
		if e := s.peers.of(need); e == nil || e.missing != "" {
			fmt.Fprintf(os.Stderr, "%s is left out: our side runs %s: give --peers %[2]s, too, and --install it\n", w.name, need)
			return nil
		}
	}
	reasons := ""
	measured := false
	rivals := s.rivals(w)
	for i := range rivals {
		r := &rivals[i]
		if why := s.peers.why(w, r); why != "" {
			fmt.Fprintf(os.Stderr, "%s: %s is left out: %s\n", w.name, r.name, why)
			reasons += r.name + ": " + why + "\n"
			continue
		}
		row, err := s.measureRow(ctx, w, r)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if err := each(row); err != nil {
			return err
		}
		measured = true
	}
	if measured {
		return nil
	}
	row, err := s.measureRow(ctx, w, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	row.Why = strings.TrimSpace(reasons)
	return each(row)
}

// measureRow lets our side and the peer's take turns in random order, between two measurements of the limits, of which the better counts:
// clocks change from minute to minute. r is nil without a peer. A peer that fails leaves the reason in the row.
func (s *session) measureRow(ctx context.Context, w *workload, r *rival) (row Row, err error) {
	row = Row{Workload: w.name, Unit: w.unit, DType: s.dtype(w, r), Kernels: s.limits.Kernels, Runs: s.set.runs, Machine: examine(ctx, s.machine.Cores)}
	row.Command = s.command(w, r)
	if row.Limits, err = s.limitsNow(ctx); err != nil {
		return row, err
	}
	ours, err := s.ours(ctx, w, row.DType)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	var theirs side
	if r != nil {
		row.Peer, row.PeerVersions = r.name, s.peers.of(r.program).describe()
		if theirs, err = s.theirs(ctx, w, r, row.DType); err != nil {
			row.giveUp(err)
		}
	}
	if theirs != nil {
		defer func() { err = errors.Join(err, theirs.stop()) }()
	}
	before := readMeter(ours, theirs)
	turn := []func() error{
		func() error { return row.add(&row.OurRuns, ours) },
		func() error {
			if theirs == nil || row.Why != "" {
				return nil
			}
			if err := row.add(&row.TheirRuns, theirs); err != nil {
				row.giveUp(err)
			}
			return nil
		},
	}
	for range row.Runs {
		rand.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
		for _, run := range turn {
			if err := run(); err != nil {
				return row, err
			}
		}
	}
	row.Machine.Foreign = readMeter(ours, theirs).foreign(before)
	row.OurRSS = ours.peakRSS()
	if len(row.TheirRuns) > 0 {
		row.TheirRSS = theirs.peakRSS()
	}
	after, err := s.limitsNow(ctx)
	if err != nil {
		return row, err
	}
	row.Limits = row.Limits.better(after)
	if w.limit != nil {
		if err := s.limit(&row, w); err != nil {
			return row, err
		}
	}
	row.LoadAfter = loadAverage()
	row.conclude()
	if r != nil && r.past {
		row.compare()
	}
	return row, ctx.Err()
}

// limit computes what the row could reach at best.
func (s *session) limit(row *Row, w *workload) (err error) {
	b := &bound{limits: row.Limits, Config: s.config, storage: storages[row.DType]}
	if w.model {
		if b.cached, err = cachedBytes(s.set.model, row.DType); err != nil {
			return err
		}
	}
	best := w.limit(b, w)
	row.Limit = &best.limit
	if best.byPhase > 0 {
		row.ByPhase = &best.byPhase
	}
	return nil
}

// dtype is the storage of our sampler's weights; "" is the engine's own choice. Without a peer it is that of the workload's rows if they agree.
func (s *session) dtype(w *workload, r *rival) string {
	switch {
	case s.set.dtype != "":
		return s.set.dtype
	case r != nil:
		return r.dtype
	case len(w.rivals) == 0:
		return ""
	}
	first := w.rivals[0].dtype
	if slices.ContainsFunc(w.rivals, func(r rival) bool { return r.dtype != first }) {
		return ""
	}
	return first
}

// command is how the row is measured again.
func (s *session) command(w *workload, r *rival) string {
	c := "go run ./bench --only " + w.name
	if s.forced != "" {
		c = s.forced + " " + c
	}
	switch {
	case r != nil && r.past:
		c += " --compare " + s.past.set.compare
	case r != nil:
		peers := strings.Join(append([]string{r.program}, w.needs...), ",")
		if strings.Contains(peers, " ") {
			peers = "'" + peers + "'"
		}
		c += " --peers " + peers
	}
	if s.set.dtype != "" {
		c += " --dtype " + s.set.dtype
	}
	if w.server {
		c += " --server " + s.set.server
	}
	if c += fmt.Sprint(" --runs ", s.set.runs); w.model {
		c += " --model " + filepath.Base(s.set.model)
	}
	return c
}

// ours starts our side and waits until it is warm.
func (s *session) ours(ctx context.Context, w *workload, dtype string) (side, error) {
	if w.ours == nil {
		c := w.command(s)
		c.ctx, c.unit = ctx, w.unit
		if s.set.compare != "" {
			c.variables = []string{s.kernels()}
		}
		return c, nil
	}
	a := s.assignment(w, dtype)
	return s.self(ctx, a, "")
}

// self starts a process of this program that carries out an assignment. What it computes is profiled into a file if one is named.
func (s *session) self(ctx context.Context, a *assignment, profile string) (side, error) {
	path, err := s.write(a)
	if err != nil {
		return nil, err
	}
	args := []string{s.program, "child", path}
	if profile != "" {
		args = append(args, profile)
	}
	return startChild(ctx, s.root, []string{fmt.Sprint("GOMAXPROCS=", a.Threads), s.kernels()}, args...)
}

// theirs starts a peer and waits until it is warm.
func (s *session) theirs(ctx context.Context, w *workload, r *rival, dtype string) (side, error) {
	if r.past {
		return s.past.ours(ctx, w, dtype)
	}
	if w.ours == nil {
		return &command{ctx: ctx, unit: w.unit, args: append(s.peers.command(r), s.peers.models[r.gguf])}, nil
	}
	a := s.assignment(w, dtype)
	if r.differs != nil {
		r.differs(a)
		return s.self(ctx, a, "")
	}
	a.PeerModel, a.Compile = s.peers.models[r.gguf], r.compile
	path, err := s.write(a)
	if err != nil {
		return nil, err
	}
	return startChild(ctx, "", nil, append(s.peers.command(r), path)...)
}
