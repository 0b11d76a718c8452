package launcher

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/machines"
	"github.com/trinity-go/trinity/internal/process"
)

func init() {
	Launchers.Auto = append([]string{"local"}, Launchers.Auto...)
	Launchers.Register("local", "This machine: processes that end with the run.", func() Launcher { return &local{} })
}

// local starts child processes.
type local struct {
	once sync.Once
	here machines.Pool
}

// Reach implements Launcher.
func (*local) Reach() string { return "" }

// Describe implements Launcher.
func (*local) Describe() string { return "processes on this machine" }

const visibleGPUs = "CUDA_VISIBLE_DEVICES"

// GPUs implements Launcher.
func (*local) GPUs() (int, error) { return len(gpusHere()), nil }

// gpusHere returns the names of this machine's GPUs, as CUDA_VISIBLE_DEVICES has them.
func gpusHere() (names []string) {
	if visible, ok := os.LookupEnv(visibleGPUs); ok {
		names = strings.FieldsFunc(visible, func(r rune) bool { return r == ',' || r == ' ' })
		if hidden := slices.Index(names, "-1"); hidden >= 0 { // CUDA reads no further
			names = names[:hidden]
		}
		return names
	}
	files, _ := filepath.Glob("/dev/nvidia[0-9]*")
	for _, f := range files {
		names = append(names, strings.TrimPrefix(f, "/dev/nvidia"))
	}
	slices.Sort(names)
	return names
}

// Render implements Launcher.
func (*local) Render(g trinity.ProcessGroup) (string, error) {
	words := []string{}
	if g.GPUs > 0 {
		words = append(words, visibleGPUs+"=…")
	}
	return strings.Join(append(words, g.Command...), " "), nil
}

// Launch implements Launcher.
func (l *local) Launch(_ context.Context, g trinity.ProcessGroup) (Launched, error) {
	l.once.Do(func() { l.here.All = []machines.Machine{{Name: "this machine", GPUs: gpusHere()}} })
	shares, err := l.here.Take(g)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "trinity-"+g.Name+"-")
	clean := func() error {
		l.here.Release(g.Name)
		return os.RemoveAll(dir)
	}
	if err == nil {
		err = writeFiles(dir, g.Files)
	}
	if err != nil {
		return nil, errors.Join(err, clean())
	}
	var list []child
	for _, s := range shares {
		env := environment(g)
		if g.GPUs > 0 {
			env[visibleGPUs] = strings.Join(s.GPUs, ",")
		}
		list = append(list, child{on: "this machine", program: process.Program{Command: g.Command, Env: env, Dir: dir, Scratch: dir}})
	}
	return startChildren(list, clean)
}

// environment returns the variables of a group, also the secret ones.
func environment(g trinity.ProcessGroup) map[string]string {
	env := map[string]string{}
	maps.Copy(env, g.Env)
	maps.Copy(env, g.Secret)
	return env
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
