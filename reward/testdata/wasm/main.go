// Command wasm is the module of the reward wasm's tests: it does what the reply says.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

func main() {
	var q struct {
		Response string
		Row      map[string]any
	}
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	switch do, what, _ := strings.Cut(q.Response, " "); do {
	case "say":
		fmt.Println(what)
	case "row":
		fmt.Println(q.Row[what])
	case "hang":
		for {
		}
	case "eat":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20))
		}
	case "talk":
		for {
			fmt.Println(strings.Repeat("x", 1<<16))
		}
	case "fail":
		fmt.Fprintln(os.Stderr, what)
		os.Exit(3)
	case "outside":
		files := 0
		if _, err := os.ReadFile("/etc/passwd"); err == nil {
			files = 1
		}
		fmt.Printf(`{"parts": {"files": %d, "variables": %d, "random": %g}}`, files, len(os.Environ()), rand.Float64())
	}
}
