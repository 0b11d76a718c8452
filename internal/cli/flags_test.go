package cli_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trinity-go/trinity/internal/cli"
)

var update = flag.Bool("update", false, "write testdata/flags.golden")

// The commands, their arguments and their flags stay the same, because users' scripts rely on them.
func TestCommandLineStaysTheSame(t *testing.T) {
	var b strings.Builder
	describe(&b, cli.New())
	const path = "testdata/flags.golden"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("the command line has changed; after a wanted change, go test ./internal/cli -update writes "+
			"%s\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// describe writes a command with its flags and then its subcommands.
func describe(b *strings.Builder, c *cobra.Command) {
	c.InitDefaultHelpFlag()
	fmt.Fprintf(b, "%s\n", c.UseLine())
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name := "--" + f.Name
		if f.Shorthand != "" {
			name += " -" + f.Shorthand
		}
		line := fmt.Sprintf("  %s %s default %q", name, f.Value.Type(), f.DefValue)
		if _, required := f.Annotations[cobra.BashCompOneRequiredFlag]; required {
			line += " required"
		}
		fmt.Fprintln(b, line)
	})
	for _, sub := range c.Commands() {
		describe(b, sub)
	}
}
