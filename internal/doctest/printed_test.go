package doctest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	number = regexp.MustCompile(`[-+]?\d[\d.,]*(e[-+]?\d+)?`)
	// goSyntax matches values as Go prints them, and traces of a crash.
	goSyntax = regexp.MustCompile(`%!\w?\(|\bmap\[|&\{|<nil>|\bpanic:|goroutine \d+ \[|\b0x[0-9a-f]{8,}`)
)

// fails reports whether the document shows that the command ends with an error.
func (c command) fails() bool { return len(c.shown) > 0 && strings.HasPrefix(c.shown[0], "trinity: ") }

// unlike returns what is wrong with the output of a command: a line that the document shows and the
// command does not print, or a value in Go's syntax. Numbers and widths of columns may differ, because
// the test runs fewer steps.
func (c command) unlike(out string) (wrong []string) {
	plain := func(line string) string {
		line = strings.ReplaceAll(line, ", within chance", "") // which fewer steps tell otherwise
		return strings.Join(strings.Fields(number.ReplaceAllString(line, "#")), " ")
	}
	var printed []string
	for line := range strings.Lines(out) {
		printed = append(printed, plain(line))
		if goSyntax.MatchString(line) {
			wrong = append(wrong, "it prints Go's syntax: "+strings.TrimSpace(line))
		}
	}
	for _, line := range c.shown {
		if !slices.Contains(printed, plain(line)) {
			wrong = append(wrong, "it does not print: "+line)
		}
	}
	return wrong
}

func TestPrintedIsCompared(t *testing.T) {
	c := command{shown: []string{"warmup  sft  120  3.8 → 0.07", "already complete: warmup"}}
	for out, want := range map[string]int{
		"warmup sft 2 1 → 2e-05\nalready complete: warmup\n": 0, "warmup sft 2 1 → 2\n": 1, "": 2,
		"warmup sft 2 1 → 2\nalready complete: warmup\nmap[a:1]\n": 1,
	} {
		if got := c.unlike(out); len(got) != want {
			t.Errorf("%q: %q, want %d differences", out, got, want)
		}
	}
}
