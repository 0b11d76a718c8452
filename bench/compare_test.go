package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository is a checkout with a command, an engine and a benchmark.
type repository struct {
	*session
	t *testing.T
}

func (r *repository) write(path, text string) {
	r.t.Helper()
	path = filepath.Join(r.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repository) commit(name string) {
	for _, args := range [][]string{{"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", name}, {"tag", name}} {
		if _, err := r.git(r.t.Context(), args...); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *repository) says(program string) string {
	out, err := exec.Command(program).CombinedOutput()
	if err != nil {
		r.t.Fatal(err)
	}
	return string(out)
}

// newRepository has the commits "older", which this benchmark does not fit, and "old", and a changed work tree.
func newRepository(t *testing.T) *repository {
	for _, program := range []string{"git", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s", program)
		}
	}
	r := &repository{&session{set: &settings{only: "decode_8"}, root: t.TempDir(), dir: t.TempDir()}, t}
	if _, err := r.git(t.Context(), "init", "-q"); err != nil {
		t.Fatal(err)
	}
	r.write("go.mod", "module m\n\ngo 1.24\n")
	r.write("cmd/trinity/main.go", `package main; func main() { print("old command") }`)
	r.write("bench/main.go", `package main; func main() {}`)
	r.write("engine/engine.go", `package engine`)
	r.commit("older")
	r.write("engine/engine.go", `package engine; const Name = "old engine"`)
	r.commit("old")
	r.write("engine/engine.go", `package engine; const Name = "new engine"`)
	r.write("bench/main.go", `package main; import "m/engine"; func main() { print("new bench, " + engine.Name) }`)
	return r
}

// TestPastHasItsEngineAndThisBenchmark builds both programs of a commit and leaves no worktree behind.
func TestPastHasItsEngineAndThisBenchmark(t *testing.T) {
	r := newRepository(t)
	r.set.compare = "old"
	if err := r.openPast(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.says(r.past.trinity); got != "old command" {
		t.Errorf("the command of the commit says %q", got)
	}
	if got := r.says(r.past.program); got != "new bench, old engine" {
		t.Errorf("the benchmark of the commit says %q, want this benchmark with the old engine", got)
	}
	rivals := r.rivals(find("decode_8"))
	hash, err := r.git(t.Context(), "rev-parse", "--short=12", "old")
	if err != nil || len(rivals) != 1 || !rivals[0].past || rivals[0].name != "commit "+hash {
		t.Errorf("decode_8 is compared with %+v, want the commit's hash alone", rivals)
	}
	if err := r.closePast(); err != nil {
		t.Fatal(err)
	}
	if list, err := r.git(t.Context(), "worktree", "list"); err != nil || strings.Contains(list, "\n") {
		t.Errorf("worktrees %q, %v; want the checkout alone", list, err)
	}
}

func TestPastThatCannotBeMeasured(t *testing.T) {
	r := newRepository(t)
	for commit, want := range map[string]string{
		"none":  `--compare: this checkout has no commit "none": fetch it first`,
		"older": "undefined: engine.Name",
	} {
		r.set.compare, r.past = commit, nil
		err := r.openPast(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("commit %s: error %v, want one line with %q", commit, err, want)
		}
		if err := r.closePast(); err != nil {
			t.Error(err)
		}
	}
	r.set.compare, r.set.phases = "none", "commit=none"
	if err := r.openPast(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "--phases: ") {
		t.Errorf("--phases of no commit: error %v, want one that names --phases", err)
	}
	r.set.compare, r.set.phases, r.set.only = "older", "", "version"
	if err := r.openPast(t.Context()); err != nil {
		t.Errorf("a whole process needs no benchmark at the commit: %v", err)
	}
	if err := r.closePast(); err != nil {
		t.Error(err)
	}
}

// TestInterruptedPast cancels the benchmark while git checks the commit out.
func TestInterruptedPast(t *testing.T) {
	r := newRepository(t)
	signs := t.TempDir()
	r.write(".gitattributes", "*.slow filter=slow\n")
	r.write("a.slow", "text\n")
	r.commit("slow")
	smudge := fmt.Sprintf("touch %[1]s/begun; until [ -e %[1]s/go ]; do sleep .01; done; cat", signs)
	if _, err := r.git(t.Context(), "config", "filter.slow.smudge", smudge); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 6000 {
			if _, err := os.Stat(filepath.Join(signs, "begun")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		_ = os.WriteFile(filepath.Join(signs, "go"), nil, 0o644)
	}()
	r.set.compare = "slow"
	if err := r.openPast(ctx); !errors.Is(err, context.Canceled) || err.Error() != "--compare: git worktree: context canceled" {
		t.Errorf("error %v", err)
	}
	if err := r.closePast(); err != nil {
		t.Error(err)
	}
	if list, err := r.git(t.Context(), "worktree", "list"); err != nil || strings.Contains(list, "\n") {
		t.Errorf("worktrees %q, %v; want the checkout alone", list, err)
	}
}

func TestPastWithoutHistory(t *testing.T) {
	s := &session{set: &settings{compare: "HEAD"}, root: t.TempDir()}
	const want = "--compare wants git, and a checkout with its history: git rev-parse"
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(s.root))
	if err := s.openPast(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("no repository: error %v, want one line with %q", err, want)
	}
	t.Setenv("PATH", t.TempDir())
	if err := s.openPast(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("no git: error %v, want one line with %q", err, want)
	}
}

func TestCompareRow(t *testing.T) {
	r := Row{Unit: "tok/s",
		OurRuns:   []sample{{Value: 10, CPU: 4}, {Value: 12, CPU: 4}, {Value: 8, CPU: 8}},
		TheirRuns: []sample{{Value: 5, CPU: 8}, {Value: 4, CPU: 4}, {Value: 8, CPU: 8}}}
	r.compare()
	if r.Turns == nil || *r.Turns != (ratios{2, 2, 3, 1.5}) {
		t.Errorf("by time %v, want 2 in the middle, quartiles of 2 and 3, and 12/8", r.Turns)
	}
	if r.CPU == nil || *r.CPU != (ratios{1, 1, 2, 1}) {
		t.Errorf("by processor time %v", r.CPU)
	}
	if cell := r.cells()[4]; !strings.HasPrefix(cell, "2.00× (2.00–3.00, best 1.50×), processor 1.00×") {
		t.Errorf("the table says %q", cell)
	}
	seconds := Row{Unit: "s", OurRuns: []sample{{Value: 4, Cost: 2, CPU: 9}}, TheirRuns: []sample{{Value: 6, Cost: 4, CPU: 9}}}
	seconds.compare()
	if math.Abs(seconds.Turns.Median-1.5) > 1e-9 || seconds.CPU.Median != 2 {
		t.Errorf("seconds: %v and %v, want 1.5 and the ratio of what was timed", seconds.Turns, seconds.CPU)
	}
	unknown := Row{Unit: "s", OurRuns: []sample{{Value: 4}}, TheirRuns: []sample{{Value: 6}}}
	if unknown.compare(); unknown.CPU != nil {
		t.Errorf("unknown processor times give the ratio %v", unknown.CPU)
	}
}

// TestBothSidesHaveTheKernelsOfTheRow: which set is fastest may change between two starts on a busy machine.
func TestBothSidesHaveTheKernelsOfTheRow(t *testing.T) {
	s := &session{set: &settings{compare: "x"}, limits: limits{Kernels: "avx2"}, trinity: stand(t, `[ "$TRINITY_KERNELS" = avx2 ]`)}
	side, err := s.ours(t.Context(), find("version"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := side.run(); err != nil {
		t.Errorf("the command runs with another kernel set: %v", err)
	}
}
