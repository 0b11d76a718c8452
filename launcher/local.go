package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Launchers.Auto = append([]string{"local"}, registry.Launchers.Auto...)
	registry.Launchers.Register("local", "This machine: processes that end with the run.", func() trinity.Launcher { return &local{} })
}

// local starts child processes.
type local struct {
	mu    sync.Mutex
	taken map[string][]string // GPUs of each group
}

// Reach implements trinity.Launcher.
func (*local) Reach() string { return "" }

// Describe implements trinity.Launcher.
func (*local) Describe() string { return "processes on this machine" }

const visibleGPUs = "CUDA_VISIBLE_DEVICES"

// GPUs implements trinity.Launcher.
func (*local) GPUs() int { return len(gpusHere()) }

// gpusHere returns the names of this machine's GPUs, as CUDA_VISIBLE_DEVICES has them.
func gpusHere() (names []string) {
	if visible, ok := os.LookupEnv(visibleGPUs); ok {
		return strings.FieldsFunc(visible, func(r rune) bool { return r == ',' || r == ' ' })
	}
	files, _ := filepath.Glob("/dev/nvidia[0-9]*")
	for _, f := range files {
		names = append(names, strings.TrimPrefix(f, "/dev/nvidia"))
	}
	slices.Sort(names)
	return names
}

// Render implements trinity.Launcher.
func (*local) Render(g trinity.ProcessGroup) (string, error) {
	words := []string{}
	if g.GPUs > 0 {
		words = append(words, visibleGPUs+"=…")
	}
	return strings.Join(append(words, g.Command...), " "), nil
}

// Launch implements trinity.Launcher.
func (l *local) Launch(_ context.Context, g trinity.ProcessGroup) (trinity.Launched, error) {
	dir, err := os.MkdirTemp("", "trinity-"+g.Name+"-")
	if err != nil {
		return nil, err
	}
	x := &localGroup{owner: l, name: g.Name, dir: dir, ended: make(chan struct{})}
	running, end := context.WithCancel(context.Background())
	x.end = end
	if err := errors.Join(writeFiles(dir, g.Files), x.start(running, g)); err != nil {
		return nil, errors.Join(err, x.Stop(context.Background()))
	}
	return x, nil
}

// writeFiles writes the files of a group.
func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// take gives a group GPUs that no other group has.
func (l *local) take(g trinity.ProcessGroup) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken == nil {
		l.taken = map[string][]string{}
	}
	want := g.GPUs * g.Nodes
	if g.Beside != "" {
		return l.taken[g.Beside], nil
	}
	var free []string
	all := gpusHere()
	for _, gpu := range all {
		isTaken := false
		for _, of := range l.taken {
			isTaken = isTaken || slices.Contains(of, gpu)
		}
		if !isTaken {
			free = append(free, gpu)
		}
	}
	if len(free) < want {
		return nil, fmt.Errorf("%s needs %d GPUs, and %d of this machine's %d are free: lower cluster.gpu_per_node",
			g.Name, want, len(free), len(all))
	}
	l.taken[g.Name] = free[:want]
	return free[:want], nil
}

// localGroup is a group of child processes.
type localGroup struct {
	owner *local
	name  string
	dir   string // of its files
	end   context.CancelFunc
	all   sync.WaitGroup
	said  process.Ends
	ended chan struct{} // closed when no process is left

	mu  sync.Mutex
	err error // of the first process that ended
}

// start starts the processes.
func (x *localGroup) start(running context.Context, g trinity.ProcessGroup) error {
	defer func() {
		go func() {
			x.all.Wait()
			close(x.ended)
		}()
	}()
	env := map[string]string{}
	maps.Copy(env, g.Env)
	maps.Copy(env, g.Secret)
	var gpus []string
	if g.GPUs > 0 {
		var err error
		if gpus, err = x.owner.take(g); err != nil {
			return err
		}
	}
	for n := range g.Nodes {
		env := maps.Clone(env)
		if g.GPUs > 0 {
			env[visibleGPUs] = strings.Join(gpus[n*g.GPUs:(n+1)*g.GPUs], ",")
		}
		program := process.Program{Command: g.Command, Env: env, Dir: x.dir, Stderr: &x.said}
		p, err := program.Start(running)
		if err != nil {
			return err
		}
		x.all.Go(func() {
			_, _ = io.Copy(&x.said, p.Out)
			err := p.Wait()
			x.mu.Lock()
			defer x.mu.Unlock()
			if x.err == nil {
				x.err = err
			}
		})
	}
	return nil
}

// Wait implements trinity.Launched.
func (x *localGroup) Wait(ctx context.Context) error {
	select {
	case <-x.ended:
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop implements trinity.Launched.
func (x *localGroup) Stop(context.Context) error {
	x.end()
	<-x.ended
	x.owner.mu.Lock()
	delete(x.owner.taken, x.name)
	x.owner.mu.Unlock()
	return os.RemoveAll(x.dir)
}

// Logs implements trinity.Launched.
func (x *localGroup) Logs(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, x.said.String())
	return err
}
