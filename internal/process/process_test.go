package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// shell returns a program that runs a script with sh; $0 is arg.
func shell(t *testing.T, script, arg string) *Program {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	return &Program{Command: []string{"sh", "-c", script, arg}}
}

// gone waits until the process that has written its id to a file has ended.
func gone(t *testing.T, pidFile string) {
	t.Helper()
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	stat := "/proc/" + strings.TrimSpace(string(text)) + "/stat"
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		state, err := os.ReadFile(stat)
		if err != nil || strings.Contains(string(state), ") Z ") { // gone, or dead and not yet reaped
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it runs: %s", state)
		}
	}
}

// written waits until there is a file, up to 20 s.
func written(ctx context.Context, path string) {
	for end := time.Now().Add(20 * time.Second); ctx.Err() == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
	}
}

const say = `echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 50`

// descendants are the ways in which a program leaves a process running; each needs the tool that it
// begins with. The scripts return when the process has written its id to $0.
var descendants = []struct{ left, leave string }{
	{"sh", `sleep 50 & echo $! >"$0"`},
	{"sh", `exec 3<&0; sleep 50 <&3 & echo $! >"$0"`},
	{"sh", `(sh -c '` + say + `' "$0" &) &`},
	{"setsid", `setsid sh -c '` + say + `' "$0" &`},
	{"setsid", `(setsid env -i "$(command -v sh)" -c 'PATH=/usr/bin:/bin; ` + say + `' "$0" >/dev/null 2>&1 </dev/null &) &`},
}

const untilLeft = `
while [ ! -s "$0" ]; do sleep 0.01; done; `

// A program that exits, fails, is stopped or is killed leaves no process running. Its output is
// whole, though it is longer than a pipe holds.
func TestDescendantsEndWithTheProgram(t *testing.T) {
	input := strings.Repeat("x", 300_000)
	for i, d := range descendants {
		if _, err := exec.LookPath(d.left); err != nil || d.left == "setsid" && runtime.GOOS != "linux" {
			continue
		}
		for end, want := range map[string]string{"exec cat": "", "exit 3": "exit status 3", "exec sleep 50": "enough"} {
			t.Run(fmt.Sprint(i, " ", end), func(t *testing.T) {
				t.Parallel()
				pidFile := filepath.Join(t.TempDir(), "pid")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if want == "enough" {
					go func() {
						written(ctx, pidFile)
						cancel(errors.New(want))
					}()
				}
				out, err := shell(t, d.leave+untilLeft+end, pidFile).Run(ctx, []byte(input), 1<<20)
				if want == "" && (err != nil || string(out) != input) || want != "" && (err == nil || err.Error() != want) {
					t.Errorf("%d bytes, %v, want %q", len(out), err, want)
				}
				gone(t, pidFile)
			})
		}
	}
}

// A long-lived program answers line by line. Killed, it leaves nothing running.
func TestStartedProgramAnswers(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	var log strings.Builder
	p := shell(t, descendants[0].leave+`
echo ready >&2; while read -r line; do echo "got $line"; done; exec sleep 50`, pidFile)
	p.Stderr = &log
	x, err := p.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(x.Out)
	for _, line := range []string{"1", "2"} {
		fmt.Fprintln(x.In, line)
		if got, err := answers.ReadString('\n'); got != "got "+line+"\n" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	x.In.Close()
	x.Kill()
	if rest, err := io.ReadAll(answers); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if err := x.Wait(); err == nil || !strings.Contains(err.Error(), "it said: ready") || !strings.HasPrefix(log.String(), "ready\n") {
		t.Errorf("%v; log %q", err, log.String())
	}
	gone(t, pidFile)
}

// A program that a configuration names does not get the tokens of the run, unless its variables have them.
func TestForeignProgramsGetNoToken(t *testing.T) {
	t.Setenv("TRINITY_TOKEN", "of the trainer")
	t.Setenv("TRINITY_JOIN_TOKEN", "of the driver")
	t.Setenv("TRINITY_CACHE", "kept")
	own := shell(t, `echo "$TRINITY_TOKEN, $TRINITY_JOIN_TOKEN, $TRINITY_CACHE."`, "")
	args := Args{Command: own.Command}
	foreign, given := args.Program(), args.Program()
	given.Env = map[string]string{"TRINITY_TOKEN": "given"}
	for want, p := range map[string]*Program{
		"of the trainer, of the driver, kept.\n": own, ", , kept.\n": &foreign, "given, , kept.\n": &given,
	} {
		if out, err := p.Run(t.Context(), nil, 1<<10); err != nil || string(out) != want {
			t.Errorf("%q, %v; want %q", out, err, want)
		}
	}
}

// A program has the variables of the run and its own, which win.
func TestProgramsHaveVariables(t *testing.T) {
	t.Setenv("SHARED", "of the run")
	t.Setenv("KEPT", "kept")
	p := shell(t, `echo "$SHARED, $KEPT, $OWN."`, "")
	p.Env = map[string]string{"SHARED": "of the program", "OWN": "a b=c"}
	for _, p.MaxMemory = range []int64{0, 4 << 30} {
		out, err := p.Run(t.Context(), nil, 1<<10)
		if want := "of the program, kept, a b=c.\n"; err != nil || string(out) != want {
			t.Errorf("%q, %v; want %q", out, err, want)
		}
	}
}

// The error of a worker that gives no answer quotes what its process has written to its standard error.
func TestAWorkerWithoutAnAnswerIsQuoted(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
	}{
		{"ends well", "echo Usage: server PORT >&2; exit 0", "the program ended before it answered; it said: Usage: server PORT"},
		{"fails", "echo no port >&2; exit 2", "the program ended before it answered: exit status 2; it said: no port"},
		{"hangs", "echo waits for a key >&2; echo written >&3; exec sleep 50", "no answer in time; it said: waits for a key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := shell(t, c.script, "sh")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			p.Files = []*os.File{w}
			pool := NewPool(*p, 1, Lines{Most: 1 << 10})
			defer pool.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			if c.name == "hangs" {
				go func() {
					_, _ = r.Read(make([]byte, 1)) // the script has written its words
					cancel(errors.New("no answer in time"))
				}()
			}
			worker, err := pool.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer worker.GiveBack()
			for range 3 {
				if _, err = worker.Ask(ctx, []byte("question\n")); err != nil {
					break
				}
			}
			w.Close()
			cancel(nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestRunReportsFailures(t *testing.T) {
	for _, c := range []struct {
		script, want string
	}{
		{"head -c 2000000 /dev/zero", "wrote more than 1 MiB"},
		{"echo no model >&2; echo is loaded >&2; exit 3", "exit status 3; it said: no model is loaded"},
		{"kill -9 $$", "exit status 137"},
	} {
		if _, err := shell(t, c.script, "sh").Run(t.Context(), nil, 1<<20); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.script, err, c.want)
		}
	}
	if _, err := (&Program{Command: []string{"/no/such/program"}}).Run(t.Context(), nil, 1); err == nil ||
		!strings.Contains(err.Error(), "/no/such/program") {
		t.Error(err)
	}
}

// A text that is too long keeps its ends with a mark between them, and no parts of characters.
func TestEndsOfATextAreMarked(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{"one\ntwo", "one two"},
		{strings.Repeat("a", 1000) + strings.Repeat("b", 1000), strings.Repeat("a", 1000) + strings.Repeat("b", 1000)},
		{strings.Repeat("a", 1001) + strings.Repeat("b", 1000), strings.Repeat("a", 1000) + " … " + strings.Repeat("b", 1000)},
		{strings.Repeat("a", 999) + strings.Repeat("é", 600) + strings.Repeat("b", 999),
			strings.Repeat("a", 999) + " … " + strings.Repeat("b", 999)},
		{strings.Repeat("a", 999) + "é" + "b", strings.Repeat("a", 999) + "éb"}, // between the ends, and whole
	} {
		for _, size := range []int{1, 7, len(c.text)} {
			var e Ends
			for part := range slices.Chunk([]byte(c.text), size) {
				_, _ = e.Write(part)
			}
			if got := e.String(); got != c.want {
				t.Errorf("%d bytes in parts of %d: %q, want %q", len(c.text), size, got, c.want)
			}
		}
	}
}
