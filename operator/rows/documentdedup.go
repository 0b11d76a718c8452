package rows

import (
	"context"
	"crypto/sha256"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("document_deduplicator",
		"Keeps the first of several rows with equal texts, ignoring white space around them. It remembers 32 "+
			"bytes a row over all inputs.",
		func() trinity.TaskOperator {
			return &documentDeduplicator{TextKey: TextKey{"text"}, seen: map[[sha256.Size]byte]bool{}}
		})
}

// documentDeduplicator drops texts that occurred before.
type documentDeduplicator struct {
	TextKey            `yaml:",inline"`
	Lowercase          bool `yaml:"lowercase" doc:"ignore letter case"`
	IgnoreNonCharacter bool `yaml:"ignore_non_character" doc:"ignore white space, digits and ASCII punctuation"`

	seen map[[sha256.Size]byte]bool
}

// Process implements trinity.TaskOperator.
func (d *documentDeduplicator) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return keep(rows, func(r *trinity.TaskRow) (bool, error) {
		s, err := d.text(r)
		if err != nil {
			return false, err
		}
		sum := sha256.Sum256([]byte(d.normal(s)))
		again := d.seen[sum]
		d.seen[sum] = true
		return !again, nil
	})
}

func (d *documentDeduplicator) normal(s string) string {
	if d.Lowercase {
		s = strings.ToLower(s)
	}
	if d.IgnoreNonCharacter {
		s = strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || unicode.IsDigit(r) || r < unicode.MaxASCII && (unicode.IsPunct(r) || unicode.IsSymbol(r)) {
				return -1
			}
			return r
		}, s)
	}
	return strings.TrimSpace(s)
}
