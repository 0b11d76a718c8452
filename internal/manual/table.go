package manual

import (
	"strings"
	"unicode/utf8"
)

const (
	narrowest = 10   // columns to which a table that is too wide shrinks one of its own
	gap       = "  " // between two columns
)

// table writes the lines of a table. Columns that do not fit are folded, the widest first.
func (p *printer) table(lines []string) {
	var rows [][]string
	for _, line := range lines {
		if !rule.MatchString(line) {
			rows = append(rows, p.cells(line))
		}
	}
	widths := p.widths(rows)
	p.WriteByte('\n')
	for i, row := range rows {
		p.row(row, widths)
		if i == 0 {
			var under []string
			for _, width := range widths {
				under = append(under, strings.Repeat("-", width))
			}
			p.row(under, widths)
		}
	}
	p.WriteByte('\n')
}

// cells returns the cells of a row; a bar that belongs to a cell is written \|.
func (p *printer) cells(line string) []string {
	const bar = "\x00"
	line = strings.Trim(strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar), "|")
	cells := strings.Split(line, "|")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(p.inline(strings.ReplaceAll(cell, bar, "|")))
	}
	return cells
}

// widths returns the width of each column.
func (p *printer) widths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for c, cell := range row {
			if c == len(widths) {
				widths = append(widths, 1)
			}
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	for len(widths) > 0 {
		sum, widest := len(gap)*(len(widths)-1), 0
		for c, w := range widths {
			if sum += w; w > widths[widest] {
				widest = c
			}
		}
		if sum <= p.width || widths[widest] <= narrowest {
			break
		}
		widths[widest]--
	}
	return widths
}

// row writes a row, whose cells may take several lines.
func (p *printer) row(cells []string, widths []int) {
	folded, height := make([][]string, len(cells)), 0
	for c, cell := range cells {
		folded[c] = broken(cell, widths[c])
		height = max(height, len(folded[c]))
	}
	for i := range height {
		var line strings.Builder
		for c, lines := range folded {
			text := ""
			if i < len(lines) {
				text = lines[i]
			}
			line.WriteString(text + strings.Repeat(" ", max(0, widths[c]-utf8.RuneCountInString(text))) + gap)
		}
		p.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// broken folds a cell, and breaks words that are wider than its column.
func broken(cell string, width int) (lines []string) {
	for _, line := range Fold(cell, width) {
		for utf8.RuneCountInString(line) > width {
			head := string([]rune(line)[:width])
			lines, line = append(lines, head), strings.TrimPrefix(line, head)
		}
		lines = append(lines, line)
	}
	return lines
}
