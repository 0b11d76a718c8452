// Command trinity trains language models by reinforcement.
package main

import "github.com/trinity-go/trinity/command"

func main() { command.Main() }
