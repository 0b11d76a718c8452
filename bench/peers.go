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

// findPeers looks for a Python and its packages. There are no peers without one, which is an error only if it was named.
func (s *session) findPeers(ctx context.Context) error {
	python, named, err := s.python(ctx)
	if err != nil || python == "none" {
		return err
	}
	out, err := exec.CommandContext(ctx, python, "-c", askVersions).Output()
	if err != nil && named {
		return fmt.Errorf("asking %s for its packages: %w", python, err)
	}
	if err != nil {
		return nil
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

// python is the program to ask; named is true if the user chose it.
func (s *session) python(ctx context.Context) (program string, named bool, err error) {
	if s.set.python != "" {
		return s.set.python, true, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "python3", false, nil
	}
	folder := filepath.Join(cache, "trinity-bench")
	program = filepath.Join(folder, "bin", "python")
	if s.set.install {
		return program, true, install(ctx, folder, program)
	}
	if _, err := os.Stat(program); err != nil {
		return "python3", false, nil
	}
	return program, true, nil
}

// install makes an environment with what the peers need, or brings it up to date.
func install(ctx context.Context, folder, python string) error {
	requirements, err := scripts.ReadFile("peers/requirements.txt")
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"python3", "-m", "venv", folder}, append([]string{python, "-m", "pip", "install"}, strings.Fields(string(requirements))...)} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("installing the peers: %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
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
