package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/registry"
)

func listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [KIND]",
		Short: "List the plug-ins of this binary",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("got %d arguments, want at most 1: trinity %s", len(args), cmd.Use)
			}
			kinds := registry.Kinds()
			if len(args) == 1 {
				if _, err := catalog(args[0]); err != nil {
					return err
				}
				kinds = args
			}
			names := map[string][]string{}
			for _, k := range kinds {
				c, _ := registry.Find(k)
				names[k] = c.Names()
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(names)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, k := range kinds {
				c, _ := registry.Find(k)
				fmt.Fprintf(w, "%s: %s\n", k, c.Doc)
				for _, name := range names[k] {
					info, err := c.Explain(name)
					if err != nil {
						return err
					}
					fmt.Fprintf(w, "  %s\t%s\n", name, firstSentence(info.Doc))
				}
				w.Flush()
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: kind to names")
	return cmd
}

func explainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [KIND] NAME",
		Short: "Explain a plug-in: what it does, its arguments and their defaults",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return wantArgs(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			find := catalog
			if len(args) == 1 {
				find = catalogWith
			}
			c, err := find(args[0])
			if err != nil {
				return err
			}
			info, err := c.Explain(args[len(args)-1])
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(info)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n\n%s\n", info.Kind, info.Name, info.Doc)
			if len(info.Fields) == 0 {
				return nil
			}
			fmt.Fprintln(cmd.OutOrStdout())
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, f := range info.Fields {
				fmt.Fprintf(w, "  %s\t%s\tdefault %s\t%s\n", f.Key, f.Type, f.Default, f.Doc)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// sentenceEnd does not match the full stop in "Yu et al. 2025".
var sentenceEnd = regexp.MustCompile(`\.( +\P{N}|$)`)

// firstSentence returns the first sentence of a description, cut to one line of a terminal.
func firstSentence(doc string) string {
	const most = 90
	if end := sentenceEnd.FindStringIndex(doc); end != nil {
		doc = doc[:end[0]]
	}
	if r := []rune(doc); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return doc
}

// catalogWith returns the only catalog with a plug-in of a name.
func catalogWith(name string) (*registry.Catalog, error) {
	var found, all []string
	for _, kind := range registry.Kinds() {
		c, _ := registry.Find(kind)
		all = append(all, c.Names()...)
		if c.Has(name) {
			found = append(found, kind)
		}
	}
	switch {
	case len(found) == 1:
		return catalog(found[0])
	case len(found) > 1:
		return nil, fmt.Errorf("%q is the name of several plug-ins: name the kind too, which is %s", name, strings.Join(found, " or "))
	}
	hint := "trinity list shows all"
	if near := registry.Nearest(name, all); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return nil, fmt.Errorf("unknown plug-in %q: %s", name, hint)
}

func catalog(kind string) (*registry.Catalog, error) {
	c, ok := registry.Find(kind)
	if ok {
		return c, nil
	}
	hint := "known: " + strings.Join(registry.Kinds(), ", ")
	if near := registry.Nearest(kind, registry.Kinds()); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return nil, fmt.Errorf("unknown kind %q of plug-in: %s", kind, hint)
}
