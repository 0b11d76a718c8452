package doctest

import (
	"regexp"
	"strings"
	"testing"
)

// A row of a table that text cuts off from its head is shown as text.
func TestRowsOfTablesHaveAHead(t *testing.T) {
	rule := regexp.MustCompile(`^\|[-:| ]+\|$`)
	for _, path := range documents(t, repository(t)) {
		code, before, lines := false, "", strings.Split(read(t, path), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			begins := strings.HasPrefix(line, "|") && !strings.HasPrefix(before, "|")
			if begins && !code && (i+1 == len(lines) || !rule.MatchString(lines[i+1])) {
				t.Errorf("%s:%d: a row without the head of its table: %s", path, i+1, line)
			}
			before = line
		}
	}
}
