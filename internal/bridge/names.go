package bridge

import (
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/registry"
)

// Described is what a class or a function says of itself.
type Described struct {
	Kind      string `json:"kind"`
	Doc       string `json:"doc"`
	Signature string `json:"signature"`
	IsClass   bool   `json:"is_class"`
	IsAsync   bool   `json:"is_async"`

	TakesGroup bool `json:"takes_group"` // it scores the replies of a group together

	Arguments []Argument `json:"arguments"` // of the constructor, with default_args, or of the function

	// Said by classes of Trinity-RFT.
	CanRepeat        bool     `json:"can_repeat"`
	ComputeInTrainer bool     `json:"compute_in_trainer"`
	SelectKeys       []string `json:"select_keys"`

	Files []string `json:"files"` // of users, which the import has run
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
	folders := p.Path
	if len(folders) == 0 {
		folders = []string{dir, "."}
	}
	env := map[string]any{}
	for name, value := range p.Env {
		env[name] = value
	}
	registering := p.registering()
	return kind.Resolve(name, args, map[string]any{
		"interpreter": p.Interpreter, "path": absolute(folders), "plugin_dirs": absolute(registering), "processes": p.Processes,
		"concurrency": p.Concurrency, "env": env, "max_memory_mb": p.MaxMemoryMb, "start_timeout": p.StartTimeout,
	}, len(registering) > 0)
}

// registering returns the folders whose modules register classes by name.
func (p *Plugins) registering() []string {
	if len(p.PluginDirs) > 0 {
		return p.PluginDirs
	}
	return filepath.SplitList(os.Getenv("TRINITY_PLUGIN_DIRS"))
}

// absolute returns folders as paths that do not depend on the working directory.
func absolute(folders []string) []any {
	all := []any{}
	for _, folder := range folders {
		if full, err := filepath.Abs(folder); err == nil {
			folder = full
		}
		all = append(all, folder)
	}
	return all
}
