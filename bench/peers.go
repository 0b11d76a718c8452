package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed peers
var scripts embed.FS

// peers is what is installed to compare with.
type peers struct {
	found   []environment
	scripts string            // folder
	models  map[string]string // by the storage of a GGUF file; "" is the Hugging Face directory
}

// environment is an installation that is there, or why it is not.
type environment struct {
	*installation
	python   string
	versions map[string]string // of the packages that are there
	missing  string            // why it cannot be used
}

// askVersions prints the version of each package of its arguments that is there.
const askVersions = `
import importlib.metadata as m, sys
for p in sys.argv[1:]:
    try:
        print(p, m.version(p))
    except m.PackageNotFoundError:
        pass
`

// findPeers looks for the installations that the chosen peers need, and makes them first if it is told to.
func (s *session) findPeers(ctx context.Context) error {
	s.peers = peers{scripts: filepath.Join(s.dir, "peers"), models: map[string]string{}}
	if err := os.CopyFS(s.dir, scripts); err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	for i := range installations {
		if !slices.ContainsFunc(installations[i].programs, s.set.wants) {
			continue
		}
		e := environment{installation: &installations[i], python: pythonOf(filepath.Join(cache, "trinity-bench", installations[i].name))}
		switch {
		case (e.name == "torch" || e.name == workerPython) && s.set.python != "":
			e.python = s.set.python
		case s.set.install:
			if err := e.install(ctx, filepath.Dir(filepath.Dir(e.python)), s.peers.scripts); err != nil {
				return err
			}
		}
		e.look(ctx)
		s.peers.found = append(s.peers.found, e)
	}
	return s.writeModels(ctx)
}

// look asks the environment's Python for its packages.
func (e *environment) look(ctx context.Context) {
	if _, err := exec.LookPath(e.python); err != nil {
		e.missing = fmt.Sprintf("%s is not installed: go run ./bench --install does it (%s)", e.name, e.size)
		return
	}
	out, err := exec.CommandContext(ctx, e.python, append([]string{"-c", askVersions}, e.packages...)...).Output()
	if err != nil {
		e.missing = fmt.Sprintf("asking %s for its packages: %v", e.python, err)
		return
	}
	e.versions = map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			e.versions[name] = version
		}
	}
	for _, name := range e.packages {
		if e.versions[name] == "" {
			e.missing = fmt.Sprintf("%s has no package %s", e.python, name)
		}
	}
}

// of is the environment of a program; nil for ourselves.
func (p *peers) of(program string) *environment {
	for i := range p.found {
		if slices.Contains(p.found[i].programs, program) {
			return &p.found[i]
		}
	}
	return nil
}

// pythonOf is that of the installation with a program, or else the one in the path.
func (p *peers) pythonOf(program string) string {
	if e := p.of(program); e != nil {
		return e.python
	}
	return "python3"
}

// why returns why a peer of a workload cannot be measured; "" if it can.
func (p *peers) why(w *workload, r *rival) string {
	e := p.of(r.program)
	switch {
	case e == nil:
		return ""
	case e.missing != "":
		return e.missing
	case !w.model:
		return ""
	case p.models[r.gguf] == "" && r.gguf != "":
		return fmt.Sprintf("it reads a GGUF file with matrices in %s, and --model is none", r.gguf)
	case p.models[r.gguf] == "":
		return "it reads a Hugging Face directory: name pytorch among --peers once, whose Python writes it from the GGUF file"
	}
	return ""
}

// command is a peer's, without an assignment.
func (p *peers) command(r *rival) []string {
	return []string{p.of(r.program).python, filepath.Join(p.scripts, r.script)}
}

// writeModels gives each peer the model in a form that it reads. Copies of a GGUF file's weights are made once per machine.
func (s *session) writeModels(ctx context.Context) error {
	model := s.set.model
	if model == "" {
		return nil
	}
	if !strings.HasSuffix(model, ".gguf") {
		s.peers.models[""] = model
		return nil
	}
	if s.stored != "" {
		s.peers.models[strings.ToLower(s.stored)] = model
	}
	return errors.Join(s.writeModel(ctx, "", "torch", "model.py", ""), s.writeModel(ctx, "bf16", "llama.cpp", "bf16.py", ".bf16.gguf"))
}

// writeModel has a script of an installation write the model, unless it is there already or the installation is not.
func (s *session) writeModel(ctx context.Context, storage, by, script, suffix string) error {
	if s.peers.models[storage] != "" {
		return nil
	}
	root := filepath.Join(os.TempDir(), "trinity-bench-model")
	target := filepath.Join(root, strings.TrimSuffix(filepath.Base(s.set.model), ".gguf")+suffix)
	_, err := os.Stat(target)
	if err == nil {
		s.peers.models[storage] = target
		return nil
	}
	at := slices.IndexFunc(s.peers.found, func(e environment) bool { return e.name == by && e.missing == "" })
	if at < 0 {
		return nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, s.peers.found[at].python, filepath.Join(s.peers.scripts, script), s.set.model, target).CombinedOutput()
	if err != nil {
		return fmt.Errorf("writing %s for the peers: %w\n%s", target, err, lastLines(string(out), 12))
	}
	s.peers.models[storage] = target
	return nil
}

// describe tells what is there and what is not.
func (p *peers) describe() string {
	var out []string
	for i := range p.found {
		out = append(out, p.found[i].describe())
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, "; ")
}

func (e *environment) describe() string {
	if e == nil {
		return ""
	}
	if e.missing != "" {
		return e.missing
	}
	var out []string
	for _, name := range e.packages {
		out = append(out, name+" "+e.versions[name])
	}
	return strings.Join(out, ", ")
}
