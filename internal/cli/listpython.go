package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/config"
)

// addPython adds the flags of commands that tell about classes and functions of users.
func (f *configFlags) addPython(cmd *cobra.Command) {
	f.command = cmd.Name()
	cmd.Flags().StringVarP(&f.path, "config", "c", "", "configuration whose section python says where classes of yours are")
	f.addPluginDirs(cmd)
}

// python returns the section in which classes of users are, and lets them run, and the names of those in the configuration.
func (f *configFlags) python() (section *bridge.Plugins, named []config.UserName, err error) {
	bridge.Allow(sayTo(os.Stderr))
	if f.path == "" {
		p := bridge.DefaultPlugins()
		p.PluginDirs = f.pluginDirs
		return p.In("."), nil, nil
	}
	cfg, err := f.load(nil)
	if err != nil {
		return nil, nil, err
	}
	return cfg.Python.In(filepath.Dir(cfg.File())), config.OfUsers(cfg), nil
}

// classOfUsers is a class or a function, and the kind of plug-in that it is.
type classOfUsers struct {
	kind string
	bridge.Described
}

// listPython prints what modules of plugin_dirs register and what the configuration names, of some kinds.
func (f *configFlags) listPython(out io.Writer, kinds []string, asJSON bool) error {
	python, named, err := f.python()
	if err != nil {
		return err
	}
	if len(python.PluginDirs)+len(named) == 0 {
		return errors.New("no plugin_dirs: name folders of modules by python.plugin_dirs or --plugin-dir")
	}
	var all []classOfUsers
	if len(python.PluginDirs) > 0 {
		registered, err := python.Registered()
		if err != nil {
			return err
		}
		for _, d := range registered {
			all = append(all, classOfUsers{bridge.KindOf(d.Kind), d})
		}
	}
	for _, one := range named {
		if slices.ContainsFunc(all, func(c classOfUsers) bool { return c.kind == one.Kind && c.Name == one.Name }) {
			continue
		}
		is, err := python.Describe("", one.Name, nil)
		if err != nil {
			return err
		}
		is.Name = one.Name
		all = append(all, classOfUsers{one.Kind, is})
	}
	all = slices.DeleteFunc(all, func(c classOfUsers) bool { return !slices.Contains(kinds, c.kind) })
	if asJSON {
		names := map[string][]string{}
		for _, c := range all {
			names[c.kind] = append(names[c.kind], c.Name)
		}
		return json.NewEncoder(out).Encode(names)
	}
	if len(all) == 0 {
		where := append(slices.Clone(python.PluginDirs), f.path)
		_, err := fmt.Fprintf(out, "there is none in %s\n", strings.Trim(strings.Join(where, ", "), ", "))
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range all {
		fmt.Fprintf(w, "%s\t%s%s\t%s\n", c.kind, c.Name, c.Signature, firstSentence(c.Doc, pageWidth(out)))
	}
	return w.Flush()
}

// explainPython prints what a class or a function of users says of itself.
func (f *configFlags) explainPython(out io.Writer, name string, asJSON bool) error {
	python, _, err := f.python()
	if err != nil {
		return err
	}
	is, err := python.Describe("", name, nil)
	if err != nil {
		return err
	}
	is.Name = name
	if asJSON {
		return json.NewEncoder(out).Encode(is)
	}
	width := pageWidth(out)
	head := strings.TrimSpace(bridge.KindOf(is.Kind) + " " + name + is.Signature)
	text := strings.Join(fold(head, width), "\n  ")
	for paragraph := range strings.Lines(is.Doc) {
		text += "\n" + strings.Join(fold(strings.TrimSuffix(paragraph, "\n"), width), "\n")
	}
	for _, a := range is.Arguments {
		line := a.Name
		if a.Type != "" {
			line += ": " + a.Type
		}
		if a.Default != "" {
			line += ", default " + a.Default
		}
		text += "\n  " + strings.Join(fold(line, width-2), "\n  ")
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

// isOfPython reports whether a name is that of a class or a function of users: a dotted one that is not of a key, or
// one of a file.
func isOfPython(name string) bool {
	first, _, dotted := strings.Cut(name, ".")
	return strings.Contains(name, ".py:") || dotted && !slices.ContainsFunc(config.Keys(), func(k config.Key) bool {
		section, _, _ := strings.Cut(k.Path, ".")
		return section == first
	})
}
