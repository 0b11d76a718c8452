package bridge

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

// Described is what a class or a function says of itself.
type Described struct {
	Name      string `json:"name"` // that it is registered under; "" if it was asked for by name
	Kind      string `json:"kind"`
	Doc       string `json:"doc"`
	Signature string `json:"signature"`
	IsClass   bool   `json:"is_class"`
	IsAsync   bool   `json:"is_async"`

	Steps      bool `json:"steps"`       // a workflow whose calls of the model are experiences of their own
	TakesGroup bool `json:"takes_group"` // a reward that scores the replies of a group together

	Arguments []Argument `json:"arguments"` // of the constructor, with default_args, or of the function

	// Said by classes of Trinity-RFT.
	CanRepeat        bool     `json:"can_repeat"`
	ComputeInTrainer bool     `json:"compute_in_trainer"`
	SelectKeys       []string `json:"select_keys"`

	Algorithm *AlgorithmType `json:"algorithm"` // of a class of an algorithm type

	// What a loss or an advantage takes, and of this what it cannot do without.
	Takes []string `json:"takes"`
	Needs []string `json:"needs"` // of a reward, the columns
	Pairs bool     `json:"pairs"` // a loss compares pairs, chosen and rejected in turn

	Files  []string `json:"files"`  // of users, which the import has run
	Failed []string `json:"failed"` // modules of plugin_dirs that could not be imported, and why
}

// AlgorithmType is what a class of an algorithm type says: the attributes of Trinity-RFT's.
type AlgorithmType struct {
	Schema    string          `json:"schema"`
	UseCritic bool            `json:"use_critic"`
	Checks    bool            `json:"checks"` // it has a check_config of its own
	Config    json.RawMessage `json:"config"` // default_config
}

// Argument is one of a class or a function, in the words of Python.
type Argument struct {
	Name    string `json:"name"`
	Type    string `json:"type"`    // "" is not said
	Default string `json:"default"` // "" is none
}

// Resolve returns the plug-in of a kind that a name of a configuration stands for, and its arguments. A name such as
// my.module.right is that of a function of the user's, whose plug-in gets this section; with plugin_dirs, so is every name
// that is not built in. dir is the configuration's folder.
func (p *Plugins) Resolve(kind *registry.Catalog, dir, name string, args map[string]any) (plugin string, all map[string]any) {
	own := p.In(dir)
	path, registering, env := []any{}, []any{}, map[string]any{}
	for _, folder := range own.Path {
		path = append(path, folder)
	}
	for _, folder := range own.PluginDirs {
		registering = append(registering, folder)
	}
	for name, value := range p.Env {
		env[name] = value
	}
	return kind.Resolve(name, args, map[string]any{
		"interpreter": p.Interpreter, "path": path, "plugin_dirs": registering, "processes": p.Processes,
		"concurrency": p.Concurrency, "env": env, "max_memory_mb": p.MaxMemoryMb, "start_timeout": p.StartTimeout,
	}, len(registering) > 0)
}

// In returns the section of a configuration in a folder, whose own folders do not depend on the working directory.
func (p *Plugins) In(dir string) *Plugins {
	own := *p
	if own.Path = absolute(p.Path); len(own.Path) == 0 {
		own.Path = absolute([]string{dir, "."})
	}
	if own.PluginDirs = absolute(p.PluginDirs); len(own.PluginDirs) == 0 {
		own.PluginDirs = absolute(filepath.SplitList(os.Getenv("TRINITY_PLUGIN_DIRS")))
	}
	return &own
}

// absolute returns folders as paths that do not depend on the working directory.
func absolute(folders []string) (all []string) {
	for _, folder := range folders {
		if full, err := filepath.Abs(folder); err == nil {
			folder = full
		}
		all = append(all, folder)
	}
	return all
}

// describer opens a process that describes. The caller calls done when it needs it no more.
func (p *Plugins) describer() (mux *process.Mux, done func(), err error) {
	one := *p
	one.Processes = 1
	key, err := json.Marshal(one)
	if err != nil {
		return nil, nil, err
	}
	described.Lock()
	defer described.Unlock()
	if mux = described.shared[string(key)]; mux != nil {
		return mux, func() {}, nil
	}
	if mux, err = one.Open(nil); err != nil {
		return nil, nil, err
	}
	if described.checks == 0 {
		return mux, func() { _ = mux.Close() }, nil
	}
	described.shared[string(key)] = mux
	return mux, func() {}, nil
}

// Together lets all questions of a check share processes, which import once, until it ends.
func Together() (end func()) {
	described.Lock()
	defer described.Unlock()
	described.checks++
	return func() {
		described.Lock()
		defer described.Unlock()
		if described.checks--; described.checks > 0 {
			return
		}
		for _, mux := range described.shared {
			_ = mux.Close()
		}
		clear(described.shared)
		clear(described.registered)
	}
}

// Imported lists the files of users that descriptions have imported in this process.
func Imported() []string {
	described.Lock()
	defer described.Unlock()
	return slices.Sorted(maps.Keys(described.files))
}

// Registered lists what the modules of plugin_dirs register. A check asks once, also for several stages.
func (p *Plugins) Registered() ([]Described, error) {
	key, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	described.Lock()
	known, ok := described.registered[string(key)]
	described.Unlock()
	if ok {
		return known, nil
	}
	mux, done, err := p.describer()
	if err != nil {
		return nil, err
	}
	defer done()
	var answer struct {
		Are           []Described
		Files, Failed []string
	}
	err = mux.Ask(context.Background(), process.Question{Do: "registered", Body: struct{}{}, Limit: wait.Seconds(p.StartTimeout)}, &answer)
	p.imported(answer.Files, answer.Failed)
	described.Lock()
	defer described.Unlock()
	if err == nil && described.checks > 0 {
		described.registered[string(key)] = answer.Are
	}
	return answer.Are, err
}

// kinds are the kinds of plug-ins by their names in Python.
var kinds = map[string]string{
	"workflow": "workflow", "reward": "reward_fn", "operator": "operator", "advantage": "advantage_fn", "loss": "policy_loss_fn",
	"kl": "kl_fn", "entropy": "entropy_loss_fn", "selector": "selector", "algorithm": "algorithm",
}

// KindOf returns the kind of plug-ins that a kind of classes is; "" if it is none.
func KindOf(class string) string { return kinds[class] }

// Hidden lists what the modules of plugin_dirs register under a name that a built-in plug-in has, each behind its kind.
// It imports them if Describe may.
func (p *Plugins) Hidden() (names []string) {
	if len(p.PluginDirs) == 0 || allowed.Load() == nil {
		return nil
	}
	all, err := p.Registered()
	if err != nil { // which those who name one of them are told
		return nil
	}
	for _, one := range all {
		if catalog, ok := registry.Find(KindOf(one.Kind)); ok && catalog.Has(one.Name) {
			names = append(names, KindOf(one.Kind)+" "+one.Name)
		}
	}
	return names
}
