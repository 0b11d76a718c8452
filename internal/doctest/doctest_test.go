package doctest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity/trinitytest"
)

// documents returns the files whose commands users copy.
func documents(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// The test runs the commands of every document in order. Each document has its own directory with a
// copy of the examples. What another document has run after the same commands is not run again. With
// -short the test only compares the commands with the rules.
func TestCommandsInDocumentsRun(t *testing.T) {
	root := repository(t)
	type document struct {
		name     string
		commands []command
	}
	var all []document
	for _, path := range documents(t, root) {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, document{filepath.ToSlash(name), commands(string(text))})
	}
	// The longest are first, because a short one often repeats the beginning of another.
	slices.SortStableFunc(all, func(a, b document) int { return cmp.Compare(len(b.commands), len(a.commands)) })
	ran := map[string]string{}
	for _, d := range all {
		s := &session{root: root, checks: d.name != "README.md" && trinitytest.EffortFor() < trinitytest.Heavy}
		again := repeated(ran, d.name, fmt.Sprint(s.checks), d.commands)
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for i, c := range d.commands {
				if again[i] != "" {
					t.Logf("line %d: not run: %s: %s runs it", c.line, c.text, again[i])
					continue
				}
				s.do(t, c)
			}
		})
	}
}

var (
	ownProgram = regexp.MustCompile(`(go run \./cmd/trinity|\./trinity) `)
	reads      = regexp.MustCompile(`^(head|tail|cat|ls|\S+ (list|explain|check|plan|doctor|log|perf|top|chat|generate)) [^>]*$`)
)

// repeated returns for each command of a document which other document runs it after the same commands;
// "" is none, or that a later command needs what this one writes. ran has the commands of all documents
// so far, each with those before it that write files or set variables.
func repeated(ran map[string]string, document, begin string, all []command) []string {
	again, keys, needed := make([]string, len(all)), make([]string, len(all)), 0
	isExempt := func(c command) bool {
		return slices.ContainsFunc(exempt, func(e exemption) bool { return e.pattern.MatchString(c.text) })
	}
	for i, c := range all {
		text := ownProgram.ReplaceAllString(c.text, "trinity ")
		keys[i] = strings.Join(append([]string{begin, text}, c.shown...), "\n")
		switch again[i] = ran[keys[i]]; {
		case isExempt(c):
			continue
		case again[i] == "":
			needed = i
		}
		if !reads.MatchString(text) {
			begin += "\n" + text
		}
	}
	for i, c := range all {
		if isExempt(c) || i < needed && !reads.MatchString(ownProgram.ReplaceAllString(c.text, "trinity ")) {
			again[i] = ""
		}
		if again[i] == "" {
			ran[keys[i]] = document
		}
	}
	return again
}

func TestCommandsAreRunOnce(t *testing.T) {
	ran := map[string]string{}
	for _, c := range []struct {
		document string
		commands []string
		want     []string
	}{
		{"a", []string{"trinity run x", "trinity list y"}, []string{"", ""}},
		{"b", []string{"go run ./cmd/trinity run x"}, []string{"a"}},
		{"c", []string{"./trinity run x", "trinity list y", "trinity view z"}, []string{"", "a", ""}},
		{"d", []string{"trinity run z", "trinity run x", "trinity list y"}, []string{"", "", ""}},
		{"e", []string{"trinity run x", "trinity list y", "trinity view z", "trinity list y > z"}, []string{"", "a", "", ""}},
		{"f", []string{"trinity run x", "trinity view z"}, []string{"e", "e"}},
	} {
		var all []command
		for _, text := range c.commands {
			all = append(all, command{text: text})
		}
		if got := repeated(ran, c.document, "", all); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.document, got, c.want)
		}
	}
}

// session is the shell that runs the commands of one document.
type session struct {
	root   string
	checks bool   // only check trainings of the real model, except in README.md or with TRINITY_HEAVY
	dir    string // created by the first command
	env    []string
}

// do runs one command, or logs why it does not.
func (s *session) do(t *testing.T, c command) {
	t.Helper()
	for _, e := range exempt {
		if !e.pattern.MatchString(c.text) {
			continue
		}
		t.Logf("line %d: not run: %s: %s", c.line, c.text, e.reason)
		if e.check != nil {
			if err := e.check(s.root, c.text); err != nil {
				t.Errorf("line %d: %s: %v", c.line, c.text, err)
			}
		}
		return
	}
	model := os.Getenv("TRINITY_SMOLLM2_GGUF")
	switch {
	case !programs.MatchString(c.text):
		t.Errorf("line %d: no rule says how to test %q; the tables are in rules_test.go", c.line, c.text)
	case testing.Short():
		t.Logf("line %d: not run with -short: %s", c.line, c.text)
	case runtime.GOOS == "windows":
		t.Logf("line %d: not run on Windows: %s", c.line, c.text)
	case model == "" && (needsModel(c.text) || s.configNeedsModel(c.text)):
		t.Logf("line %d: not run: %s: TRINITY_SMOLLM2_GGUF does not name the model", c.line, c.text)
	case strings.Contains(c.text, "TRINITY_TASKSET_PATH="):
		t.Logf("line %d: not run: %s: its data come from the network", c.line, c.text)
	default:
		s.open(t)
		s.shell(t, c, s.rewrite(t, c.text, model))
	}
}

// configNeedsModel reports whether a command runs a configuration of the real model.
func (s *session) configNeedsModel(command string) bool {
	if strings.Contains(command, " check ") {
		return false
	}
	for _, path := range configPath.FindAllString(command, -1) {
		text, err := os.ReadFile(filepath.Join(s.root, path))
		if err == nil && bytes.Contains(text, []byte("/SmolLM2-")) {
			return true
		}
	}
	return false
}

var configPath = regexp.MustCompile(`examples/[\w./-]+\.yaml`)

// open copies the examples and builds the programs.
func (s *session) open(t *testing.T) {
	t.Helper()
	if s.dir != "" {
		return
	}
	s.dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(s.dir, "examples"), os.DirFS(filepath.Join(s.root, "examples"))); err != nil {
		t.Fatal(err)
	}
	shorten(t, filepath.Join(s.dir, "examples/quickstart/data/eval.jsonl"))
	shorten(t, filepath.Join(s.dir, "examples/sweep/data/held_out.jsonl"))
	s.env = append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_HOME="+filepath.Join(s.dir, ".hf"), "HOME="+s.dir)
	s.env = slices.DeleteFunc(s.env, func(v string) bool { return strings.HasPrefix(v, "TRINITY_") })
}

// shorten keeps only the first rows of the evaluation data, because both ends of a run evaluate it.
func shorten(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 8
	if err := os.WriteFile(path, bytes.Join(bytes.SplitAfterN(text, []byte("\n"), rows+1)[:rows], nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// built holds the programs by package, so that the tests build each once.
var (
	building sync.Mutex
	built    = map[string]string{}
)

// program builds a main package of the repository.
func (s *session) program(t *testing.T, pkg string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	if built[pkg] == "" {
		dir, err := os.MkdirTemp("", "trinity-doctest")
		if err != nil {
			t.Fatal(err)
		}
		built[pkg] = filepath.Join(dir, filepath.Base(pkg))
		// linking is faster without debug data
		build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", built[pkg], pkg)
		build.Dir = s.root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v: %s", pkg, err, out)
		}
	}
	return built[pkg]
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, path := range built {
		_ = os.RemoveAll(filepath.Dir(path)) // the temporary directory of the programs
	}
	os.Exit(code)
}

var (
	goBuild   = regexp.MustCompile(`go build -o (\S+) (\./\w+/\w+)`)
	goRun     = regexp.MustCompile(`go run (\./\w+/\w+)`)
	installed = regexp.MustCompile(`(^|[|;&] *|\w=\S+ )trinity `)
	gguf      = regexp.MustCompile(`[\w./$~{}-]+\.gguf`)
	stepDir   = regexp.MustCompile(`([\w./-]*/)global_step_\d+`)
)

// rewrite shortens a document's command: it uses built programs, fewer steps, the model on this
// machine, and the checkpoints of the short run.
func (s *session) rewrite(t *testing.T, text, model string) string {
	t.Helper()
	text = goBuild.ReplaceAllStringFunc(text, func(call string) string {
		m := goBuild.FindStringSubmatch(call)
		return "cp " + s.program(t, m[2]) + " " + m[1]
	})
	if s.checks && needsModel(text) {
		text = strings.Replace(text, " run --config", " check --config", 1)
	}
	text = goRun.ReplaceAllStringFunc(text, func(call string) string { return s.program(t, goRun.FindStringSubmatch(call)[1]) })
	text = installed.ReplaceAllString(text, "${1}"+s.program(t, "./cmd/trinity")+" ")
	if model != "" {
		text = gguf.ReplaceAllLiteralString(text, model)
	}
	text = stepDir.ReplaceAllStringFunc(text, func(path string) string {
		base := stepDir.FindStringSubmatch(path)[1]
		found, err := filepath.Glob(filepath.Join(s.dir, base, "global_step_*"))
		if err != nil || len(found) == 0 {
			return path
		}
		return base + filepath.Base(found[len(found)-1])
	})
	if strings.Contains(text, " annotate ") && !strings.Contains(text, " --export") {
		// the server runs until it prints this text
		text = "rm -f served; " + text +
			" --addr 127.0.0.1:0 > served & until grep -qs 'end with Ctrl-C' served; do sleep 0.1; done; kill $!; wait $!; cat served"
	}
	for _, serves := range []struct{ command, anyPort string }{
		{" serve --model ", " --addr 127.0.0.1:0"}, {" stages.1.mode=serve ", " stages.1.explorer.proxy_port=0"},
	} {
		if !strings.Contains(text, serves.command) {
			continue
		}
		text = "rm -f served; " + text + serves.anyPort +
			" 2> served & until grep -qs 'serves .* at http' served; do sleep 0.1; done; " +
			"kill -INT $!; wait $! || true; cat served"
	}
	for _, short := range shorter {
		if strings.Contains(text, " --config "+short.config) {
			text = insert(text, short.overrides)
		}
	}
	return text
}

// insert adds arguments at the end of a command, before a pipe or redirection.
func insert(command, args string) string {
	at := len(command)
	for _, sep := range []string{" | ", " > ", " 2> ", " && "} {
		if i := strings.Index(command, sep); i >= 0 {
			at = min(at, i)
		}
	}
	return command[:at] + " " + args + command[at:]
}

// hangs is far more time than any command takes on a slow machine.
const hangs = 10 * time.Minute

// shell runs a command. Its exports hold for later commands.
func (s *session) shell(t *testing.T, c command, text string) {
	t.Helper()
	if setting, ok := strings.CutPrefix(text, "export "); ok {
		s.env = append(s.env, setting)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail; "+text)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	if (err != nil) != c.fails() {
		t.Fatalf("line %d: %s\nrun as: %s\n%v\n%s", c.line, c.text, text, err, out)
	}
	for _, wrong := range c.unlike(string(out)) {
		t.Errorf("line %d: %s: %s", c.line, c.text, wrong)
	}
	t.Logf("line %d: %s\nrun as: %s\n%s", c.line, c.text, text, out)
}
