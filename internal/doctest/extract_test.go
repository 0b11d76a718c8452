package doctest

import (
	"reflect"
	"strings"
	"testing"
)

// block is a fenced block of a document.
type block struct {
	lang  string
	line  int // number of its first line, from 1
	lines []string
}

// blocks finds the fenced blocks of a Markdown text.
func blocks(text string) []block {
	var out []block
	var open *block
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```") && open == nil:
			open = &block{lang: strings.TrimPrefix(trimmed, "```"), line: i + 2}
		case strings.HasPrefix(trimmed, "```"):
			out = append(out, *open)
			open = nil
		case open != nil:
			open.lines = append(open.lines, line)
		}
	}
	return out
}

// command is one command of a document.
type command struct {
	line  int
	text  string
	shown []string // what the document says that it prints
}

// commands returns the commands in ```sh blocks (every line) and ```console blocks (lines that
// begin with "$ "; what they print stands below them), without comments. A backslash at the end of a
// line continues the command.
func commands(text string) []command {
	var out []command
	for _, b := range blocks(text) {
		if b.lang != "sh" && b.lang != "console" {
			continue
		}
		joined, first := "", len(out)
		for i, line := range b.lines {
			if prompt, ok := strings.CutPrefix(line, "$ "); ok && b.lang == "console" {
				line = prompt
			} else if b.lang == "console" && joined == "" {
				if last := len(out) - 1; last >= first && strings.TrimSpace(line) != "" {
					out[last].shown = append(out[last].shown, line)
				}
				continue
			}
			if at := strings.Index(" "+line, " #"); at >= 0 {
				line = line[:max(0, at)]
			}
			line = strings.TrimSpace(line)
			if head, ok := strings.CutSuffix(line, "\\"); ok {
				joined += head
				continue
			}
			if joined += line; joined != "" {
				out = append(out, command{line: b.line + i, text: joined})
			}
			joined = ""
		}
	}
	return out
}

func TestCommandsAreFound(t *testing.T) {
	const text = "# Title\n```sh\n# a comment\ntrinity run \\\n  --config a.yaml   # long\n\ntrinity check a#b\n```\n" +
		"```console\n$ trinity version\ntrinity dev\n```\n```console\nof no command\n```\n```yaml\nno: command\n```\n"
	want := []command{{5, "trinity run --config a.yaml", nil}, {7, "trinity check a#b", nil}, {10, "trinity version", []string{"trinity dev"}}}
	if got := commands(text); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
