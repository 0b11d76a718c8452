package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // of the error; "" is none
	}{
		{[]string{"--model", "m"}, ""},
		{[]string{"--model", "m", "--only", "start,grpo_step", "--python", "none"}, ""},
		{[]string{"--model", "m", "--only", "decode_3"}, `there is no workload "decode_3": have train_step_f32,`},
		{[]string{"--model", "m", "start"}, `unexpected argument "start"`},
		{[]string{"--model", "m", "--runs", "-1"}, "--runs is -1"},
		{[]string{"--model", "m", "--dtype", "int3"}, `--dtype is "int3"`},
		{[]string{"--model", "m", "--python", "p", "--install"}, "the Python is given already: p"},
		{[]string{"--model", ""}, "no model"},
	} {
		s, err := parse(c.args)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.args, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.want)
		case err == nil && s == nil:
			t.Errorf("%q: no settings", c.args)
		}
	}
}

func TestChosen(t *testing.T) {
	s := &settings{}
	want := "train_step_f32 grpo_step decode_1 decode_8 decode_32 decode_64 prefill group_rollout start version"
	if got := strings.Join(s.chosen(), " "); got != want {
		t.Errorf("measured without --only: %s\nwant %s", got, want)
	}
	for _, name := range names() {
		if w := find(name); w == nil || (w.ours == nil) == (w.command == nil) || w.script == "" || w.peer == "" {
			t.Errorf("workload %s: want one way to run ours, and a peer", name)
		}
	}
}

// counter is a task that counts its runs.
type counter struct{ last int }

func (c *counter) run(number int) (sample, error) {
	c.last = number
	if number == 3 {
		return sample{}, errors.New("three is too many")
	}
	return sample{Value: float64(number)}, nil
}

func TestServe(t *testing.T) {
	var out strings.Builder
	err := serve(&counter{}, strings.NewReader("run\nrun\nrun\n"), &out)
	if err == nil || err.Error() != "three is too many" {
		t.Errorf("error %v, want that of run 3", err)
	}
	want := "BENCH {\"ready\":true}\nBENCH {\"value\":1}\nBENCH {\"value\":2}\n"
	if out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

// TestProcess talks to a peer that is a few lines of shell.
func TestProcess(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell to stand in for a peer")
	}
	p, err := startChild(context.Background(), shell, "-c", `echo noise; echo 'BENCH {"ready":true}'; read x; echo 'BENCH {"value":7}'; read x; echo bad luck >&2`)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := p.run(); err != nil || s.Value != 7 {
		t.Errorf("first run: %v, %v; want 7", s, err)
	}
	if _, err := p.run(); err == nil || !strings.Contains(err.Error(), "bad luck") {
		t.Errorf("run of a process that ended: %v, want what it said last", err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestPeerScriptsParse(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to parse them with")
	}
	files, err := filepath.Glob("peers/*.py")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	args := append([]string{"-c", "import ast, sys\nfor f in sys.argv[1:]: ast.parse(open(f).read(), f)"}, files...)
	if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for i := range workloads {
		if _, err := os.Stat(filepath.Join("peers", workloads[i].script)); err != nil {
			t.Errorf("script of %s: %v", workloads[i].name, err)
		}
	}
}
