// Package command is the trinity command with every built-in plug-in, for programs that add
// plug-ins of their own: such a program registers them in an init function and calls [Main].
package command

import (
	"os"

	"github.com/trinity-go/trinity/internal/cli"
	_ "github.com/trinity-go/trinity/standard" // every built-in plug-in
)

// Main runs the command line of the process and ends the process.
func Main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
