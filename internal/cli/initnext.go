package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/durable"
)

// write writes the configuration and the files beside it, and prints what comes next. before names what
// is written already.
func (b *beginning) write(cmd *cobra.Command, files map[string][]byte, before string) error {
	text, err := b.sized(cmd, files)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(b.File, text); err != nil {
		return err
	}
	return printNext(cmd, before+b.File, "run --config "+shellWord(b.File), "studio", "chat --model "+shellWord(b.Run())+systemFlag(b.System))
}

// printNext prints which file was written, and the commands that come next.
func printNext(cmd *cobra.Command, wrote string, commands ...string) error {
	var out strings.Builder
	fmt.Fprintf(&out, "wrote %s; next:\n", wrote)
	for _, c := range commands {
		fmt.Fprintf(&out, "  %s %s\n", invocation(), c)
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), out.String())
	return err
}

// shellWord quotes a path for a shell if it needs that.
func shellWord(path string) string {
	if plainYAML.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
