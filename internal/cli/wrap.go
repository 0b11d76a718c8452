package cli

import (
	"cmp"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/trinity-go/trinity/internal/manual"
)

// columns returns the width of the terminal that out is, 0 if it is none.
func columns(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	width, _, _ := term.GetSize(int(f.Fd()))
	return width
}

// pageWidth returns the columns of a page of text: those of the terminal that out is, else 100.
func pageWidth(out io.Writer) int { return cmp.Or(columns(out), 100) }

// fold is [manual.Fold].
func fold(text string, width int) []string { return manual.Fold(text, width) }

// wrap breaks the lines of a text that are longer than a terminal, between words. Further lines
// begin two columns right of the values of a plan, whose names take 15, or below the words that
// explain a size. A width of 0 breaks nothing.
func wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		indent := "  "
		switch {
		case strings.HasPrefix(line, strings.Repeat(" ", 15)): // a part of the memory
			indent = strings.Repeat(" ", 28)
		case strings.HasPrefix(line, "  "):
			indent = strings.Repeat(" ", 17)
		}
		for utf8.RuneCountInString(line) > width {
			at := breakBefore(line, width, len(indent))
			if at < 0 {
				break // one long word, such as a path
			}
			b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
			line = indent + line[at+1:]
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// breakBefore returns the offset of the last space before the given width, else of the first after
// it, not counting those at the line's beginning; −1 if there is none.
func breakBefore(line string, width, begin int) int {
	at, count := -1, 0
	for i, c := range line {
		if count++; c == ' ' && i >= begin && strings.TrimSpace(line[:i]) != "" {
			if count > width+1 && at >= 0 {
				break
			}
			at = i
		}
	}
	return at
}
