package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed peers
var scripts embed.FS

// peers is what is installed to compare with.
type peers struct {
	python   string
	versions map[string]string // of the packages that are there
	scripts  string            // folder
	model    string            // Hugging Face directory
}

// askVersions prints the version of each package that can be imported.
const askVersions = `
import importlib.metadata as m
for p in ("torch", "transformers", "trl"):
    try:
        print(p, m.version(p))
    except m.PackageNotFoundError:
        pass
`

// findPeers looks for the Python of TRINITY_BENCH_PYTHON, else python3, and its packages.
func (s *session) findPeers(ctx context.Context) error {
	if s.set.peers == "none" {
		return nil
	}
	python := os.Getenv("TRINITY_BENCH_PYTHON")
	if python == "" {
		python = "python3"
	}
	out, err := exec.CommandContext(ctx, python, "-c", askVersions).Output()
	if err != nil {
		return nil // there are no peers without a Python
	}
	s.peers = peers{python: python, versions: map[string]string{}, scripts: filepath.Join(s.dir, "peers")}
	for line := range strings.Lines(string(out)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			s.peers.versions[name] = version
		}
	}
	if err := os.CopyFS(s.dir, scripts); err != nil {
		return err
	}
	if !s.peers.has("torch", "transformers") {
		return nil
	}
	s.peers.model, err = s.peers.directory(ctx, s.set.model)
	return err
}

func (p *peers) has(packages ...string) bool {
	for _, name := range packages {
		if p.versions[name] == "" {
			return false
		}
	}
	return true
}

// directory is the model as peers load it: itself, or a copy of a GGUF file's weights in f32, made once per machine.
func (p *peers) directory(ctx context.Context, model string) (string, error) {
	if !strings.HasSuffix(model, ".gguf") {
		return model, nil
	}
	root := filepath.Join(os.TempDir(), "trinity-bench-model")
	target := filepath.Join(root, strings.TrimSuffix(filepath.Base(model), ".gguf"))
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, p.python, filepath.Join(p.scripts, "model.py"), model, target).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("writing %s for the peers: %w\n%s", target, err, lastLines(string(out), 12))
	}
	return target, nil
}

// choose names the workload's peer in its row and returns the command, or "" when there is none.
func (p *peers) choose(w *workload, row *Row) (script string, args []string) {
	switch {
	case p.python == "":
		return "", nil
	case w.name == "start":
		row.Peer = w.peer
		return w.script, []string{p.python, "-c", "pass"}
	case !p.has("torch", "transformers"):
		return "", nil
	}
	script, row.Peer = w.script, w.peer
	if w.name == "grpo_step" && !p.has("trl") {
		script, row.Peer = "grpo_torch.py", "transformers generate + PyTorch step f32 (stands in for TRL)"
	}
	args = []string{p.python, filepath.Join(p.scripts, script)}
	if w.ours == nil {
		args = append(args, p.model)
	}
	row.PeerVersions = p.describe()
	return script, args
}

func (p *peers) describe() string {
	var out []string
	for _, name := range []string{"torch", "transformers", "trl"} {
		if v := p.versions[name]; v != "" {
			out = append(out, name+" "+v)
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
