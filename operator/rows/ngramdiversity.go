package rows

import (
	"context"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("ngram_diversity_scorer",
		"Scores how much of a row is new: the share of the different runs of n words in its text, ignoring "+
			"letter case, that no row before it has. It drops nothing. Statistic: ngram_diversity, which the "+
			"priority weighs by its key diversity. It remembers 8 bytes for each different run. Unlike "+
			"Data-Juicer, where diversity needs embeddings of a model.",
		func() trinity.TaskOperator {
			return &ngramDiversity{TextKey: TextKey{"text"}, N: 3, seen: map[uint64]bool{}}
		})
}

// ngramDiversity scores rows by the share of their n-grams that are new.
type ngramDiversity struct {
	TextKey `yaml:",inline"`
	N       int `yaml:"n" range:"[1,)" doc:"words in a run"`

	seen map[uint64]bool
}

// Process implements trinity.TaskOperator.
func (d *ngramDiversity) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	for _, r := range rows {
		s, err := d.text(r)
		if err != nil {
			return nil, err
		}
		own, fresh := map[uint64]bool{}, 0
		for _, run := range shingles(strings.Fields(strings.ToLower(s)), d.N) {
			h := hash([]byte(run))
			if own[h] {
				continue
			}
			own[h] = true
			if !d.seen[h] {
				fresh++
			}
			d.seen[h] = true
		}
		r.Stats["ngram_diversity"] = ratio(fresh, len(own))
	}
	return rows, nil
}
