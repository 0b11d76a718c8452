// Package registry maps names to constructors of plug-ins. A constructor returns a value with its
// defaults. The exported fields of the value, named by their `yaml` tags, are the plug-in's
// arguments. Arguments are decoded strictly over the defaults: an unknown key, a wrong type, a value
// that a tag of its field refuses (range, enum, required, need, excludes: see package tags) or a
// failing Validate is an error that names the key.
package registry

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/tags"
)

// Registry holds the plug-ins of one kind.
type Registry[T any] struct {
	*Catalog
	build map[string]func() T
}

// Catalog is a Registry without its type, for config, `list` and `explain`.
type Catalog struct {
	Kind    string   // e.g. "workflow"
	Doc     string   // one line
	Auto    []string // the plug-ins that the value auto means; one, unless the key takes a list
	Always  []string // the plug-ins that a run has even if its configuration does not name them
	entries map[string]entry

	elsewhere, elsewhereArg string   // see Elsewhere
	taken                   []string // see Elsewhere
}

type entry struct {
	doc string
	new func() any
}

var catalogs = map[string]*Catalog{}

// New returns the registry of a kind. It panics if the kind exists.
func New[T any](kind, doc string) *Registry[T] {
	if _, ok := catalogs[kind]; ok {
		panic("registry: kind " + kind + " made twice")
	}
	c := &Catalog{Kind: kind, Doc: doc, entries: map[string]entry{}}
	catalogs[kind] = c
	return &Registry[T]{Catalog: c, build: map[string]func() T{}}
}

// Find returns the catalog of a kind.
func Find(kind string) (*Catalog, bool) {
	c, ok := catalogs[kind]
	return c, ok
}

// Kinds returns all kinds, sorted.
func Kinds() []string {
	var kinds []string
	for k := range catalogs {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

// Register adds a plug-in under a name with a doc of one paragraph. It panics if the name is
// taken: two plug-ins with one name are a bug of the binary.
func (r *Registry[T]) Register(name, doc string, build func() T) {
	if _, ok := r.build[name]; ok {
		panic("registry: " + r.Kind + " " + name + " registered twice")
	}
	r.build[name] = build
	r.entries[name] = entry{doc: doc, new: func() any { return build() }}
}

// Elsewhere names the plug-in to which names of others belong, such as my.module.Name. It gets the name under arg, and
// the arguments under args, but for those called own, which are arguments of the plug-in.
func (c *Catalog) Elsewhere(plugin, arg string, own ...string) {
	c.elsewhere, c.elsewhereArg, c.taken = plugin, arg, own
}

// Resolve returns the plug-in that a name of a configuration stands for, and its arguments. A name that is not built in
// belongs to the plug-in of [Catalog.Elsewhere] if it has a dot or a colon, or if others register plain names, too. That
// plug-in's name and a colon before a name say so of any. It finds the section under the name of its own, which is its
// name, with what the arguments have there; so do plug-ins that have such a section because they name others.
func (c *Catalog) Resolve(name string, args, section map[string]any, registers bool) (plugin string, all map[string]any) {
	own, forced := strings.CutPrefix(name, c.elsewhere+":")
	isForeign := forced || !c.Has(name) && (registers || strings.ContainsAny(name, ".:"))
	switch {
	case c.elsewhere == "" || name == "":
		return name, args
	case !isForeign && (!c.Has(name) || !hasSection(c.Default(name), c.elsewhere)):
		return name, args
	}
	all = maps.Clone(section)
	given, overrides := args[c.elsewhere].(map[string]any)
	if all = map[string]any{c.elsewhere: all}; overrides {
		maps.Copy(all[c.elsewhere].(map[string]any), given)
		args = maps.Clone(args)
		delete(args, c.elsewhere)
	}
	if !isForeign {
		maps.Copy(all, args)
		return name, all
	}
	rest := maps.Clone(args)
	for _, key := range c.taken {
		if value, ok := args[key]; ok {
			all[key] = value
			delete(rest, key)
		}
	}
	all[c.elsewhereArg], all["args"] = own, rest
	return c.elsewhere, all
}

// Origin returns the name and the arguments that Resolve has made a plug-in of. A name of users comes back as
// PLUGIN:NAME, with the plug-in of [Catalog.Elsewhere], because a built-in plug-in may have the same name.
func (c *Catalog) Origin(plugin string, args map[string]any) (name string, own map[string]any) {
	if name, _ = args[c.elsewhereArg].(string); plugin != c.elsewhere || name == "" {
		return plugin, args
	}
	own, _ = args["args"].(map[string]any)
	return plugin + ":" + name, own
}

// hasSection reports whether a plug-in has a section of a name among its arguments.
func hasSection(plugin any, name string) bool {
	v := reflect.Indirect(reflect.ValueOf(plugin))
	return v.Kind() == reflect.Struct && slices.ContainsFunc(tags.Fields(v.Type()), func(f reflect.StructField) bool {
		return tags.Key(f) == name && f.Type.Kind() == reflect.Struct
	})
}

// Build returns the named plug-in, with args merged over its defaults, later maps over earlier
// ones.
func (r *Registry[T]) Build(name string, args ...map[string]any) (T, error) {
	var zero T
	build, ok := r.build[name]
	if !ok {
		return zero, r.unknown(name)
	}
	v := build()
	for _, a := range args {
		if errs := decode(v, a); len(errs) > 0 {
			return zero, fmt.Errorf("%s %s: %w", r.Kind, name, errs[0])
		}
	}
	if err := Validate(v); err != nil {
		return zero, fmt.Errorf("%s %s: %w", r.Kind, name, err)
	}
	if of, ok := any(v).(interface{ Form() T }); ok { // the interfaces of some depend on their arguments
		return of.Form(), nil
	}
	return v, nil
}

// Names returns the names of the plug-ins, sorted.
func (c *Catalog) Names() []string {
	var names []string
	for n := range c.entries {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Has reports whether the name is registered.
func (c *Catalog) Has(name string) bool {
	_, ok := c.entries[name]
	return ok
}

// Default returns the named plug-in with its defaults, or nil if there is none. It has the arguments
// in their place, if they are those of [Registry.Build].
func (c *Catalog) Default(name string, args ...map[string]any) any {
	e, ok := c.entries[name]
	if !ok {
		return nil
	}
	v := e.new()
	for _, a := range args {
		if len(decode(v, a)) > 0 || Validate(v) != nil {
			return e.new()
		}
	}
	return v
}

// Check returns all errors in args for the named plug-in. For an unknown name that is one error
// with an empty key.
func (c *Catalog) Check(name string, args map[string]any) []ArgError {
	e, ok := c.entries[name]
	if !ok {
		return []ArgError{c.unknown(name)}
	}
	v := e.new()
	if errs := decode(v, args); len(errs) > 0 {
		return errs
	}
	if errs := beyondLimits(v); len(errs) > 0 {
		return errs
	}
	if err := validate(v); err != nil {
		return []ArgError{placed(v, err)}
	}
	return nil
}

func (c *Catalog) unknown(name string) ArgError {
	e := ArgError{Message: fmt.Sprintf("unknown %s %q", c.Kind, name)}
	if near := Nearest(name, c.Names()); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	} else {
		e.Hint = fmt.Sprintf("known: %v", c.Names())
	}
	return e
}
