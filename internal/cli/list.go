package cli

import (
	"encoding/json"
	"fmt"
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
			for _, k := range kinds {
				c, _ := registry.Find(k)
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n  %s\n", k, c.Doc, strings.Join(names[k], " "))
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
		Use:   "explain KIND NAME",
		Short: "Explain a plug-in: what it does, its arguments and their defaults",
		Args:  wantArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := catalog(args[0])
			if err != nil {
				return err
			}
			info, err := c.Explain(args[1])
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
