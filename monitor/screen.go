package monitor

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// screen draws rows over the rows of its last frame.
type screen struct {
	styled bool
	drawn  []int // columns of each row on the terminal
}

// labelWidth is the width of labels in columns.
const labelWidth = 9

// frame returns the bytes that make the terminal show rows instead of the last frame. It overwrites
// each line and then clears the rest of the line. Terminals with synchronized updates do not
// flicker.
func (s *screen) frame(rows []row, width, height int) []byte {
	var b bytes.Buffer
	b.WriteString("\x1b[?2026h\r")
	if up := s.height(width); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", min(up, height-1))
	}
	rows = rows[:min(len(rows), max(1, height-1))]
	s.drawn = s.drawn[:0]
	for _, r := range rows {
		label, text := fit(r, width-1) // some terminals wrap after a character in the last column
		if s.styled {
			b.WriteString("\x1b[1m" + label + "\x1b[0m" + text)
		} else {
			b.WriteString(label + text)
		}
		b.WriteString("\x1b[K\r\n")
		s.drawn = append(s.drawn, utf8.RuneCountInString(label)+utf8.RuneCountInString(text))
	}
	b.WriteString("\x1b[J\x1b[?2026l")
	return b.Bytes()
}

// height returns the number of terminal lines of the last frame at this width. A window that became
// narrower has wrapped them.
func (s *screen) height(width int) int {
	n := 0
	for _, columns := range s.drawn {
		n += max(1, (columns+width-1)/width)
	}
	return n
}

// fit pads the label and cuts the row to a width.
func fit(r row, width int) (label, text string) {
	label = r.label
	if r.text != "" {
		label = fmt.Sprintf("%-*s", labelWidth, r.label)
	}
	label = cut(label, width)
	return label, cut(r.text, width-utf8.RuneCountInString(label))
}

// cut shortens text to a number of columns, with an ellipsis.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width <= 0 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}
