package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// openPast builds the commit of --compare or --phases in a worktree of its own: the command, and this benchmark with the engine of that
// commit, so that both sides are told and timed alike.
func (s *session) openPast(ctx context.Context) error {
	if s.set.compare == "" {
		return nil
	}
	option := "--compare"
	if s.set.phases != "" {
		option = "--phases"
	}
	if _, err := s.git(ctx, "rev-parse", "--git-dir"); err != nil {
		return fmt.Errorf("%s wants git, and a checkout with its history: %w", option, err)
	}
	name, err := s.git(ctx, "rev-parse", "--verify", "--short=12", s.set.compare+"^{commit}")
	if err != nil {
		return fmt.Errorf("%s: this checkout has no commit %q: fetch it first", option, s.set.compare)
	}
	past := *s
	past.set, past.root = &settings{}, filepath.Join(s.dir, "past")
	*past.set = *s.set
	past.set.compare = name
	if _, err := s.git(ctx, "worktree", "add", "--detach", past.root, name); err != nil {
		_ = past.remove(s) // an interrupted git may have left it
		return fmt.Errorf("%s: %w", option, err)
	}
	s.past = &past
	past.program, past.trinity = filepath.Join(s.dir, "past-bench"), filepath.Join(s.dir, "past-trinity")
	if err := past.compile(ctx, past.trinity, "cmd/trinity"); err != nil {
		return err
	}
	if !slices.ContainsFunc(s.set.chosen(), func(name string) bool { return find(name).ours != nil }) {
		return nil // whole processes need no benchmark there
	}
	bench := filepath.Join(past.root, "bench")
	if err := errors.Join(os.RemoveAll(bench), os.CopyFS(bench, os.DirFS(filepath.Join(s.root, "bench")))); err != nil {
		return err
	}
	if err := past.compile(ctx, past.program, "bench", "-tags", "past"); err != nil {
		return fmt.Errorf("%s: the workloads of this checkout do not fit commit %s: %w", option, name, err)
	}
	return nil
}

// closePast removes the worktree.
func (s *session) closePast() error {
	if s.past == nil {
		return nil
	}
	return s.past.remove(s)
}

// remove removes the worktree of a session from a checkout, also one that git has locked while it makes it. git does not look into
// what is no longer there.
func (s *session) remove(from *session) error {
	err := os.RemoveAll(s.root)
	_, unknown := from.git(context.Background(), "worktree", "remove", "--force", "--force", s.root)
	return errors.Join(err, unknown)
}

// git runs a command of git in the checkout.
func (s *session) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.root
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", args[0], ctx.Err())
	case err != nil:
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, lastLines(string(out), 1))
	}
	return strings.TrimSpace(string(out)), nil
}

// compile builds a program of the checkout. With the tag past it has no workloads that want an engine newer than commits which are
// compared with.
func (s *session) compile(ctx context.Context, to, folder string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", to, "./"+folder)...)
	cmd.Dir = s.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s: %w: %s", folder, err, firstMistake(string(out)))
	}
	return nil
}

// firstMistake returns the first line of a compiler's output that is not a package's name.
func firstMistake(out string) string {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return "no reason given"
}

// rivals returns what a workload is compared with: our side at the commit of --compare, or else the chosen peers.
func (s *session) rivals(w *workload) []rival {
	if s.past != nil {
		return []rival{{name: "commit " + s.past.set.compare, program: "ourselves", dtype: s.dtype(w, nil), past: true}}
	}
	return slices.DeleteFunc(slices.Clone(w.rivals), func(r rival) bool { return !s.set.wants(r.program) })
}

// ratios are how many times as fast ours is, over pairs of runs that followed one another.
type ratios struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"` // quartiles
	High   float64 `json:"high"`
	Best   float64 `json:"best"` // of the best run of each side
}

// ratiosOf compares what runs cost; nil if a cost is unknown.
func ratiosOf(ours, theirs []float64) *ratios {
	if len(ours) == 0 || len(ours) != len(theirs) || slices.Min(ours) <= 0 || slices.Min(theirs) <= 0 {
		return nil
	}
	var each []float64
	for i := range ours {
		each = append(each, theirs[i]/ours[i])
	}
	return &ratios{median(each), quantile(each, .25), quantile(each, .75), slices.Min(theirs) / slices.Min(ours)}
}

// quantile returns the value below which a share of the values lies.
func quantile(v []float64, share float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[int(share*float64(len(v)-1)+.5)]
}

func (r *ratios) String() string {
	return fmt.Sprintf("%.2f× (%.2f–%.2f, best %.2f×)", r.Median, r.Low, r.High, r.Best)
}
