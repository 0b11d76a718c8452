package monitor

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// screen draws rows over those that it drew before.
type screen struct {
	styled bool
	drawn  []int // columns of each row on the terminal
}

// labelWidth is the columns of labels.
const labelWidth = 9

// frame is what to write so that the terminal shows rows in place of the last frame. Each line is overwritten and then cleared to its end, as
// one synchronized update where the terminal knows that, so nothing flickers.
func (s *screen) frame(rows []row, width, height int) []byte {
	var b bytes.Buffer
	b.WriteString("\x1b[?2026h\r")
	if up := s.height(width); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", min(up, height-1))
	}
	rows = rows[:min(len(rows), max(1, height-1))]
	s.drawn = s.drawn[:0]
	for _, r := range rows {
		label, text := fit(r, width-1) // the last column is left free: some terminals wrap once it is written
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

// height is how many terminal lines the last frame takes at this width: a window that was made narrower has wrapped them.
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
