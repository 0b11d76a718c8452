package cli

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/docs"
	"github.com/trinity-go/trinity/internal/manual"
	"github.com/trinity-go/trinity/registry"
)

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Explain a command, or print a page of the guide",
		Long: "Explain a command, or print a page of the guide in the terminal. Without arguments it lists both. A topic is\n" +
			"the name of a page, such as rewards. A page that has the name of a command is called guide/NAME or operate/NAME.",
		Example: "  trinity help run\n  trinity help concepts\n  trinity help guide/studio | less",
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := docs.Pages.ReadFile("README.md")
			if err != nil {
				return err
			}
			all := manual.Pages(string(list))
			pages := slices.DeleteFunc(slices.Clone(all), func(p manual.Page) bool { return !hasTopic(p.Path) })
			if len(args) == 0 {
				if err := cmd.Root().Help(); err != nil {
					return err
				}
				printTopics(cmd.OutOrStdout(), pages)
				return nil
			}
			name := strings.TrimSuffix(strings.Join(args, " "), ".md")
			page := slices.IndexFunc(pages, func(p manual.Page) bool { return isNamed(p, name) })
			if found, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 && found != cmd.Root() {
				found.InitDefaultHelpFlag()
				if err := found.Help(); err != nil || page < 0 {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "\nThe page about it: trinity help %s\n", pages[page].Topic())
				return nil
			}
			if page < 0 {
				return unknownTopic(cmd.Root(), name, all)
			}
			return printPage(cmd.OutOrStdout(), pages, page)
		},
	}
}

// hasTopic reports whether a file of docs is a page that the program has.
func hasTopic(file string) bool {
	_, err := fs.Stat(docs.Pages, file)
	return err == nil && path.Dir(file) != "." && strings.HasSuffix(file, ".md")
}

// isNamed reports whether a page is meant by a name: guide/studio or studio.
func isNamed(p manual.Page, name string) bool {
	return name == p.Topic() || name == path.Base(p.Topic())
}

func printTopics(out io.Writer, pages []manual.Page) {
	fmt.Fprintln(out, "\nPages of the guide: trinity help TOPIC")
	widest := 0
	for _, p := range pages {
		widest = max(widest, len(path.Base(p.Topic())))
	}
	for _, p := range pages {
		about := fold(p.About, pageWidth(out)-widest-5)
		fmt.Fprintf(out, "  %-*s   %s\n", widest, path.Base(p.Topic()), strings.Join(about, "\n"+strings.Repeat(" ", widest+5)))
	}
}

// unknownTopic returns the error for a name that is no command and no page of the program. Some of all pages are only in
// the repository.
func unknownTopic(root *cobra.Command, name string, all []manual.Page) error {
	var known []string
	for _, c := range root.Commands() {
		known = append(known, c.Name())
	}
	for _, p := range all {
		if isNamed(p, name) {
			return fmt.Errorf("the page %q is docs/%s of the repository and not in the program: trinity explain explains keys "+
				"and plug-ins", name, p.Path)
		}
		if hasTopic(p.Path) {
			known = append(known, path.Base(p.Topic()), p.Topic())
		}
	}
	hint := "trinity help lists them"
	if near := registry.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Errorf("there is no command and no page %q: %s", name, hint)
}

// printPage prints a page and, below it, the topics to which it links and the next one.
func printPage(out io.Writer, pages []manual.Page, at int) error {
	text, err := docs.Pages.ReadFile(pages[at].Path)
	if err != nil {
		return err
	}
	page, linked := manual.Text(pages[at].Path, string(text), pageWidth(out), hasTopic)
	fmt.Fprint(out, page)
	if len(linked) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(fold("See also: "+strings.Join(linked, ", "), pageWidth(out)), "\n"))
	}
	if at+1 < len(pages) {
		fmt.Fprintf(out, "\nNext: trinity help %s (%s)\n", pages[at+1].Topic(), pages[at+1].Title)
	}
	return nil
}
