// Command trinity trains language models by reinforcement.
package main

import (
	"os"

	"github.com/trinity-go/trinity/internal/cli"
	_ "github.com/trinity-go/trinity/standard" // every built-in plug-in
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
