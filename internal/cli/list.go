package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/registry"
)

func listCommand() *cobra.Command {
	var asJSON bool
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "list [KIND]",
		Short: "List the plug-ins of this binary or the families of models (list model), or with --config or --plugin-dir the classes of yours",
		Args:  wantAtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kinds := registry.Kinds()
			if len(args) == 1 && args[0] == modelFamilies {
				return listModels(cmd.OutOrStdout(), asJSON)
			}
			if len(args) == 1 {
				if _, err := catalog(args[0]); err != nil {
					return err
				}
				kinds = args
			}
			if flags.path != "" || len(flags.pluginDirs) > 0 {
				return flags.listPython(cmd.OutOrStdout(), kinds, asJSON)
			}
			names := map[string][]string{}
			for _, k := range kinds {
				c, _ := registry.Find(k)
				names[k] = c.Names()
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(names)
			}
			width := pageWidth(cmd.OutOrStdout())
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, k := range kinds {
				c, _ := registry.Find(k)
				fmt.Fprintln(w, strings.Join(fold(k+": "+c.Doc, width), "\n    "))
				most := max(20, width-4-len(slices.MaxFunc(names[k], func(a, b string) int { return len(a) - len(b) })))
				for _, name := range names[k] {
					info, err := c.Explain(name)
					if err != nil {
						return err
					}
					fmt.Fprintf(w, "  %s\t%s\n", name, firstSentence(info.Doc, most))
				}
				if err := w.Flush(); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.addPython(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: kind to names")
	return cmd
}

func explainCommand() *cobra.Command {
	var asJSON bool
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "explain [KIND] NAME",
		Short: "Explain a plug-in (what it does, its arguments and their defaults), a key of a configuration or a class of yours",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return wantArgs(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kinds := args[:1]
			name := args[len(args)-1]
			if len(args) == 1 {
				kinds = kindsOf(name)
				if isOfPython(name) || kinds == nil && (flags.path != "" || len(flags.pluginDirs) > 0) {
					return flags.explainPython(cmd.OutOrStdout(), name, asJSON)
				}
				if kinds == nil {
					return explainKey(cmd.OutOrStdout(), name, asJSON)
				}
			}
			for i, kind := range kinds {
				c, err := catalog(kind)
				if err != nil {
					return err
				}
				info, err := c.Explain(name)
				if err != nil {
					return err
				}
				if i > 0 && !asJSON {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				if err := explain(cmd.OutOrStdout(), info, asJSON); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.addPython(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each meaning of the name")
	return cmd
}

func explain(out io.Writer, info registry.Info, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(info)
	}
	width := pageWidth(out)
	fmt.Fprintf(out, "%s %s\n\n%s\n", info.Kind, info.Name, strings.Join(fold(info.Doc, width), "\n"))
	if len(info.Fields) > 0 {
		fmt.Fprintln(out)
	}
	for _, f := range info.Fields {
		head := fmt.Sprintf("%s: %s, default %s", f.Key, f.Type, f.Default)
		if limits := f.Limits(); limits != "" {
			head += "; " + limits
		}
		fmt.Fprintf(out, "  %s\n      %s\n", strings.Join(fold(head, width-6), "\n      "), strings.Join(fold(f.Doc, width-6), "\n      "))
	}
	return nil
}

// explainKey explains the keys of a configuration that have a path or end in a name. If there are
// none, the error says that no plug-in has the name either.
func explainKey(out io.Writer, name string, asJSON bool) error {
	found := false
	for _, k := range config.Keys() {
		if k.Path != name && !strings.HasSuffix(k.Path, "."+name) || strings.Contains(name, ".") && k.Path != name {
			continue
		}
		found = true
		doc, err := k.Explain()
		if err != nil {
			return err
		}
		f := registry.Field{Key: k.Path, Type: k.Type, Default: k.Default, Doc: doc, Range: k.Range, Enum: k.Values()}
		if k.Plugin != "" {
			doc += fmt.Sprintf(" `trinity explain %s NAME` explains a value.", k.Plugin)
		}
		if asJSON {
			err = json.NewEncoder(out).Encode(f)
		} else {
			head := fmt.Sprintf("%s: %s, default %s", k.Path, k.Type, cmp.Or(k.Default, "not set"))
			if limits := f.Limits(); limits != "" {
				head += "; " + limits
			}
			_, err = fmt.Fprintf(out, "%s\n  %s\n", strings.Join(fold(head, pageWidth(out)), "\n  "),
				strings.Join(fold(doc, pageWidth(out)-2), "\n  "))
		}
		if err != nil {
			return err
		}
	}
	if found {
		return nil
	}
	var all []string
	for _, kind := range registry.Kinds() {
		c, _ := registry.Find(kind)
		all = append(all, c.Names()...)
	}
	hint := "trinity list shows all"
	if near := registry.Nearest(name, all); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Errorf("unknown plug-in %q: %s", name, hint)
}

// sentenceEnd does not match the full stops in "Yu et al. 2025" and "Dr. GRPO".
var sentenceEnd = regexp.MustCompile(`(?:[^r]|[^D]r)(\.)(?: +\P{N}|$)`)

// firstSentence returns the first sentence of a description, cut to a number of characters.
func firstSentence(doc string, most int) string {
	if end := sentenceEnd.FindStringSubmatchIndex(doc); end != nil {
		doc = doc[:end[2]]
	}
	if r := []rune(doc); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return doc
}

// kindsOf returns the kinds that have a plug-in of a name.
func kindsOf(name string) (kinds []string) {
	for _, kind := range registry.Kinds() {
		if c, _ := registry.Find(kind); c.Has(name) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func catalog(kind string) (*registry.Catalog, error) {
	c, ok := registry.Find(kind)
	if ok {
		return c, nil
	}
	hint := "known: " + strings.Join(registry.Kinds(), ", ") + "; trinity list model has the families of models"
	if near := registry.Nearest(kind, registry.Kinds()); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return nil, fmt.Errorf("unknown kind %q of plug-in: %s", kind, hint)
}
